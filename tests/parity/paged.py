"""The engine without its thread: sequences in, logits out, step by step under a test's own limits."""

import numpy as np
import torch

from forerun.engine import attention, model, torch_setup
from forerun.engine.block_pool import BlockPool
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.runner import Runner
from forerun.engine.scheduler import Scheduler
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from forerun.engine.tiled_runner import TiledRunner

CPU = torch.device("cpu")


def load(folder, precision="fp32", embedding_from=None):
    torch_setup.prepare(1)
    return model.load(folder, precision, CPU, embedding_from)


class Paged:
    """One model with a cache of its own."""

    def __init__(self, loaded, num_blocks=64, block_size=16, deterministic=False, max_running=64, backend=""):
        self.cache = KvCache(KvShape.of(loaded.config, loaded.dtype), num_blocks, block_size, CPU)
        backend = attention.create(backend or ("paged_rowwise" if deterministic else "paged_cpu"))
        self.runner = (TiledRunner if deterministic else Runner)(loaded, self.cache, backend, CPU)
        self.runner.probe()
        self.table = SequenceTable(BlockPool(num_blocks, block_size), "model")
        self.scheduler = Scheduler(self.table, max_running)

    def open(self, tokens, num_logits=None, **options):
        """A sequence with all its logits due, or the last num_logits."""
        sequence = Sequence([int(token) for token in tokens], num_committed=len(tokens), **options)
        self.scheduler.add(sequence)
        self.table.demand(sequence, len(tokens) if num_logits is None else num_logits)
        return sequence

    def close(self, sequence):
        self.table.index_committed(sequence)
        self.scheduler.remove(sequence)

    def step(self, max_rows=4096, prefill=4096):
        """One step; the logits of the sequences that reached their goal."""
        slices = self.scheduler.schedule(max_rows, lambda rows: prefill)
        logits, done, row = self.runner.run(slices), {}, 0
        for piece in slices:
            sequence = piece.sequence
            sequence.num_computed += piece.num_tokens
            self.table.index_committed(sequence)
            if sequence.num_due == 0 and sequence.num_logits:
                done[sequence] = logits[row : row + sequence.num_logits]
                row += sequence.num_logits
        assert row == len(logits)
        self.table.pool.check_integrity()
        return done

    def run(self, *sequences, **limits):
        """Steps until all are done; their logits in order."""
        done = {}
        while any(sequence.num_due for sequence in sequences):
            done |= self.step(**limits)
        return [done.get(sequence) for sequence in sequences]

    def extend(self, sequence, tokens, num_logits=None, **limits):
        """Appends drafted tokens and computes them; the logits of the last num_logits, at first one per new token."""
        sequence.tokens += [int(token) for token in tokens]
        self.table.demand(sequence, num_logits or len(tokens))
        return self.run(sequence, **limits)[0]

    def whole(self, tokens, **limits):
        """Logits of every position of a fresh sequence that reuses nothing."""
        sequence = self.open(tokens, reuse_prefix=False)
        logits = self.run(sequence, **limits)[0]
        self.scheduler.remove(sequence)
        return logits


def random_tokens(seed, length, vocab_size=64):
    return np.random.default_rng(seed).integers(3, vocab_size, size=length).tolist()
