"""What a step of the engine costs: against transformers' own at batch 1, at batch 16, and for prefill chunks.

Runs that are compared take turns, so that whatever else the machine does falls on both; ratios are of paired steps.
`python -m benchmarks.engine [threads] [bf16|fp32]`
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from benchmarks import report
from forerun.engine import attention, model, torch_setup
from forerun.engine.block_pool import BlockPool
from forerun.engine.cores import num_cores
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.runner import Runner
from forerun.engine.scheduler import Slice
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from forerun.models.resolve import resolve

NUM_BLOCKS, BLOCK_SIZE = 1024, 16
BATCH = 16
CONTEXT = 200
CONTEXTS = range(60, 252, 12)
CHUNKS = (16, 64, 128, 256, 512)
VERIFIED = (2, 5, 9)
ROUNDS = 40


class Engine:
    """The engine's own parts without its thread: a step is `reserve`, a forward, logits as numpy."""

    def __init__(self, folder: Path, precision: str) -> None:
        device = torch.device("cpu")
        loaded = model.load(folder, precision, device)
        cache = KvCache(KvShape.of(loaded.config, loaded.dtype), NUM_BLOCKS, BLOCK_SIZE, device)
        self._runner = Runner(loaded, cache, attention.create("paged_cpu"), device)
        self.table = SequenceTable(BlockPool(NUM_BLOCKS, BLOCK_SIZE), "model")

    def open(self, num_tokens: int, seed: int) -> Sequence:
        sequence = Sequence(random_ids(num_tokens, seed), num_committed=num_tokens)
        sequence.request(num_tokens, 1)
        self.step([sequence])
        return sequence

    def step(self, sequences: list[Sequence]) -> float:
        """Seconds from plain ints to logits."""
        start = time.perf_counter()
        for sequence in sequences:
            self.table.reserve(sequence, sequence.goal)
        self._runner.run([Slice(sequence, sequence.num_due) for sequence in sequences])
        elapsed = time.perf_counter() - start
        for sequence in sequences:
            sequence.num_computed = sequence.goal
        return elapsed

    def decode(self, sequences: list[Sequence], num_rows: int = 1) -> float:
        """One step of num_rows new tokens each, taken back afterwards."""
        lens = [len(sequence.tokens) for sequence in sequences]
        for sequence in sequences:
            sequence.tokens += [7] * num_rows
            sequence.request(len(sequence.tokens), num_rows)
        elapsed = self.step(sequences)
        for sequence, length in zip(sequences, lens, strict=True):
            self.table.truncate(sequence, length)
        return elapsed

    def prefill(self, num_tokens: int) -> float:
        sequence = Sequence(random_ids(num_tokens, 5))
        sequence.request(num_tokens, 1)
        elapsed = self.step([sequence])
        self.table.evict(sequence)
        return elapsed


def random_ids(num_tokens: int, seed: int) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(5, 40_000, num_tokens).tolist()
    return ids


def transformers_step(folder: Path, precision: str) -> Callable[[], float]:
    """A decoding step of transformers with its DynamicCache at the same context, logits as numpy."""
    reference: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=model.DTYPES[precision]).eval()
    cache: Any = DynamicCache(config=reference.config)
    with torch.inference_mode():
        reference(torch.tensor([random_ids(CONTEXT, 2)]), cache=cache, use_cache=True, logits_to_keep=1)

    @torch.inference_mode()
    def step() -> float:
        start = time.perf_counter()
        output = reference(torch.tensor([[7]]), cache=cache, use_cache=True, logits_to_keep=1)
        output.logits[0].float().numpy()
        elapsed = time.perf_counter() - start
        cache.crop(-1)
        return elapsed

    return step


def interleaved(runs: dict[str, Callable[[], float]], num_rounds: int) -> dict[str, list[float]]:
    """Every run once a round, after two rounds that do not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(num_rounds + 2):
        for name, run in runs.items():
            times[name].append(run())
    return {name: values[2:] for name, values in times.items()}


def measure(folder: Path, precision: str) -> Iterator[tuple[str, Any]]:
    engine = Engine(folder, precision)
    one, many = engine.open(CONTEXT, 2), [engine.open(length, length) for length in CONTEXTS]
    runs = {
        "transformers": transformers_step(folder, precision),
        "batch 1": lambda: engine.decode([one]),
        "batch 16": lambda: engine.decode(many),
        **{f"verify {rows} rows": lambda rows=rows: engine.decode([one], rows) for rows in VERIFIED},
    }
    steps = interleaved(runs, ROUNDS)
    yield "step ms", {name: _ms(times) for name, times in steps.items()}
    yield "transformers step / our step, batch 1", report.paired_ratio(steps["transformers"], steps["batch 1"])
    yield (
        "tokens/s at batch 16 / batch 1",
        report.paired_ratio([BATCH * seconds for seconds in steps["batch 1"]], steps["batch 16"]),
    )
    for rows in VERIFIED:
        yield f"verify {rows} rows / 1 row", report.paired_ratio(steps[f"verify {rows} rows"], steps["batch 1"])
    chunks = interleaved({str(size): lambda size=size: engine.prefill(size) for size in CHUNKS}, 7)
    yield "prefill chunk ms", {size: _ms(times) for size, times in chunks.items()}
    yield "prefill ms a token", {size: round(_ms(times) / int(size), 3) for size, times in chunks.items()}


def _ms(times: list[float]) -> float:
    return round(1000 * statistics.median(times), 2)


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else num_cores()
    precision = sys.argv[2] if len(sys.argv) > 2 else "bf16"
    torch_setup.prepare(threads)
    figures: dict[str, Any] = {"precision": precision, "threads": threads}
    for name, figure in measure(resolve("bundled"), precision):
        print(f"{name}: {figure}", flush=True)
        figures[name] = figure
    report.save(f"engine-{precision}", figures)


if __name__ == "__main__":
    main()
