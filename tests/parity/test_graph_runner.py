"""Steps through the fixed tensors of a recorded graph: filled up as they are, they give what an unrecorded step gives.

The recording is played by the forward itself, which reads those tensors anew, and the kernel by its reference.
"""

import numpy as np
import pytest
import torch

from forerun.engine import cuda_graphs, reduction
from forerun.engine.attention.fa3 import Fa3
from forerun.engine.cuda_graphs import GraphRunner
from forerun.engine.inductor import InductorForward
from forerun.engine.kv_cache import KvCache, KvShape
from tests.parity.paged import CPU, Paged, load, random_tokens
from tests.support import flash_reference

TOLERANCE = 1e-4  # fp32, logits of order 1
NUM_PAGES = 12


@pytest.fixture(scope="module")
def loaded(tiny_pair):
    return load(tiny_pair.target)


class Recorder:
    """Replays by running the forward again, and counts the replays."""

    def __init__(self):
        self.num_replays = 0

    def __call__(self, forward):
        def replay():
            self.num_replays += 1
            return forward()

        return replay


def as_it_is(forward):
    return forward


def graphed(loaded, monkeypatch, sizes=(1, 4, 8, 24), recorder=None, compiled=as_it_is, **options):
    monkeypatch.setattr(cuda_graphs, "SIZES", sizes)
    engine, recorder = Paged(loaded, **options), recorder or Recorder()
    backend = Fa3(flash_reference.flash_attn_with_kvcache)
    engine.runner = GraphRunner(loaded, engine.cache, backend, CPU, reduction.reduced, NUM_PAGES, recorder, compiled)
    engine.runner.probe()
    return engine, recorder


def close(ours, expected):
    np.testing.assert_allclose(ours, expected, atol=TOLERANCE, rtol=0)


def test_ragged_verification_in_every_size_equals_plain_steps(loaded, monkeypatch):
    plain, (engine, recorder) = Paged(loaded), graphed(loaded, monkeypatch)
    prompts = [random_tokens(seed, length) for seed, length in enumerate([40, 35, 64, 50, 33])]
    for count in (1, 2, 5):
        for num_drafted in (0, 1, 3):
            pairs = [
                (house, [house.open(prompt, num_logits=1) for prompt in prompts[:count]]) for house in (plain, engine)
            ]
            rows = []
            for house, sequences in pairs:
                house.run(*sequences)
                for i, sequence in enumerate(sequences):
                    # Sequence i verifies up to so many tokens, so that the batch is ragged.
                    sequence.tokens += random_tokens(90 + i, 1 + max(0, num_drafted - i))
                    house.table.demand(sequence, 1 + max(0, num_drafted - i))
                before = recorder.num_replays
                rows.append(house.run(*sequences))
                assert (recorder.num_replays > before) == (house is engine)
                for sequence in sequences:
                    house.close(sequence)
            for ours, expected in zip(*reversed(rows), strict=True):
                close(ours, expected)


def test_rows_that_give_no_logits_are_left_out(loaded, monkeypatch):
    plain, (engine, recorder) = Paged(loaded), graphed(loaded, monkeypatch)
    close(*[house.run(house.open(random_tokens(1, 20), num_logits=1))[0] for house in (engine, plain)])
    assert recorder.num_replays == 1


def test_a_prefill_and_a_step_too_large_run_unrecorded(loaded, monkeypatch):
    engine, recorder = graphed(loaded, monkeypatch)
    close(engine.whole(random_tokens(2, 60)), Paged(loaded).whole(random_tokens(2, 60)))
    close(engine.whole(random_tokens(2, 30)), Paged(loaded).whole(random_tokens(2, 30)))
    assert recorder.num_replays == 0


def test_what_padding_computes_reaches_nobody(loaded, monkeypatch):
    """The reference kernel gives NaN for rows of no sequence, which then go through every layer."""
    engine, _ = graphed(loaded, monkeypatch, sizes=(24,))
    sequence = engine.open(random_tokens(3, 40), num_logits=1)
    engine.run(sequence)
    for token in random_tokens(4, 20):
        assert np.isfinite(engine.extend(sequence, [token])).all()
    padding = engine.cache.padding_slot // engine.cache.block_size
    assert engine.cache.layers[1].keys[padding].isnan().any(), "nothing was padded, so nothing was shown"


def test_a_longer_neighbour_of_an_earlier_step_leaves_nothing_behind(loaded, monkeypatch):
    engine, _ = graphed(loaded, monkeypatch)
    long, short = engine.open(random_tokens(5, 100), num_logits=1), engine.open(random_tokens(6, 36), num_logits=1)
    engine.run(long, short)
    for sequence in (long, short):
        sequence.tokens.append(7)
        engine.table.demand(sequence, 1)
    engine.run(long, short)
    engine.close(long)
    close(engine.extend(short, [8]), Paged(loaded).whole([*random_tokens(6, 36), 7, 8])[-1:])


def test_a_model_that_cannot_be_recorded_runs_unrecorded(loaded, monkeypatch, caplog):
    def record(forward):
        raise RuntimeError("operation not permitted when stream is capturing")

    engine, _ = graphed(loaded, monkeypatch, recorder=record)
    assert "no CUDA graphs: operation not permitted" in caplog.text
    close(engine.whole(random_tokens(2, 9)), Paged(loaded).whole(random_tokens(2, 9)))


def test_a_model_that_cannot_be_compiled_runs_as_it_is(loaded, monkeypatch, caplog):
    def compiled(forward):
        def fails(*arguments):
            raise RuntimeError("inductor gave up")

        return fails

    engine, recorder = graphed(loaded, monkeypatch, compiled=compiled)
    assert "the model runs uncompiled" in caplog.text
    close(engine.whole(random_tokens(2, 9)), Paged(loaded).whole(random_tokens(2, 9)))
    assert recorder.num_replays == 1


@pytest.mark.full
def test_what_inductor_makes_of_the_model_gives_its_logits(loaded, monkeypatch, caplog):
    """Compiled for the CPU here, in a minute; recordings, prefills and single rows share one graph."""
    engine, recorder = graphed(loaded, monkeypatch, compiled=InductorForward)
    assert "uncompiled" not in caplog.text
    before, frames = recorder.num_replays, torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for length in (1, 2, 9, 33, 60):
        close(engine.whole(random_tokens(2, length)), Paged(loaded).whole(random_tokens(2, length)))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == frames, "a request would have waited"
    assert recorder.num_replays == before + 3


def test_an_fp8_cache_goes_through_the_same_tensors(loaded, monkeypatch):
    """The kernel is given FP8 queries too, so only the way to it is compared."""
    monkeypatch.setattr(cuda_graphs, "SIZES", (1, 4, 8))
    engines = []
    for make in (GraphRunner, None):
        engine = Paged(loaded)
        engine.cache = KvCache(KvShape.of(loaded.config, torch.float8_e4m3fn), 64, 16, CPU)
        backend = Fa3(lambda **named: flash_reference.flash_attn_with_kvcache(**{**named, **_widened(named)}))
        arguments = (loaded, engine.cache, backend, CPU, reduction.reduced)
        engine.runner = make(*arguments, NUM_PAGES, Recorder(), as_it_is) if make else type(engine.runner)(*arguments)
        engine.runner.probe()
        engines.append(engine)
    for house in engines:
        house.sequence = house.open(random_tokens(5, 40), num_logits=1)
        house.run(house.sequence)
    close(*[house.extend(house.sequence, [7, 8, 9]) for house in engines])


def _widened(named):
    """Heads of 8 numbers are too small for the kernel's FP8; the same numbers in float32."""
    assert named["q"].dtype == torch.float8_e4m3fn
    wide = {name: named[name].float() for name in ("q", "k_cache", "v_cache")}
    return {**wide, "q_descale": None, "k_descale": None, "v_descale": None}
