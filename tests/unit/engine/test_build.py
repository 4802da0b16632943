"""An engine from settings: its cache fits what is free (case 28), its limits are the model's, its thread serves."""

import queue

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from forerun.engine import build, memory, torch_setup
from forerun.engine.sequence import Sequence
from forerun.errors import ConfigError

WAIT_S = 30


def built(folder, **settings):
    torch_setup.prepare(1)
    options = {"precision": "fp32", "cache_tokens": 4096, **settings}
    return build.build(build.EngineSettings(folder, "tiny", **options), lambda step: None, lambda error: None)


def test_the_cache_takes_its_share_of_what_is_free_once_the_model_is_loaded(tiny_pair, monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10_000_000)
    engine = built(tiny_pair.target, cache_tokens=0, memory_fraction=0.1)
    bytes_per_token = 2 * 2 * 2 * 8 * 4  # keys and values, layers, key heads, width, fp32
    assert engine.num_blocks == 1_000_000 // bytes_per_token // 16


def test_a_machine_without_room_is_told_which_setting_would_help(tiny_pair, monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    with pytest.raises(ConfigError, match="--cache-tokens"):
        built(tiny_pair.target, cache_tokens=0)


def test_the_context_is_never_longer_than_the_cache(tiny_pair):
    assert built(tiny_pair.target, cache_tokens=128).max_model_len == 128


def test_the_context_is_the_models_own_and_no_setting_exceeds_it(tiny_pair):
    assert built(tiny_pair.target).max_model_len == 512
    assert built(tiny_pair.target, max_model_len=100).max_model_len == 100
    with pytest.raises(ConfigError, match="512"):
        built(tiny_pair.target, max_model_len=513)


def test_a_container_may_take_what_its_limit_leaves_and_idle_file_pages(tmp_path):
    for name, text in {"max": "1000\n", "current": "900\n", "stat": "anon 500\ninactive_file 300\n"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.cgroup_free_bytes(tmp_path, 5000) == 400
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.cgroup_free_bytes(tmp_path, 5000) == 5000


class Greedy:
    """Asks for its own argmax until it has `num_tokens` of them."""

    def __init__(self, engine, prompt, num_tokens):
        self.engine, self.num_tokens, self.tokens = engine, num_tokens, []
        self.sequence = Sequence(list(prompt), num_committed=len(prompt))
        self.done = queue.SimpleQueue()
        engine.loop.call(self.begin, self)

    def begin(self):
        self.engine.loop.add(self.sequence, self)
        self.engine.loop.table.demand(self.sequence, 1)

    def on_logits(self, logits, step):
        self.tokens.append(int(logits[-1].argmax()))
        if len(self.tokens) == self.num_tokens:
            self.engine.loop.call(lambda: self.engine.loop.remove(self.sequence), self)
            self.done.put(self.tokens)
            return
        self.sequence.tokens.append(self.tokens[-1])
        self.engine.loop.table.demand(self.sequence, 1)

    def on_starved(self, reason):
        pass

    def on_overflow(self):
        raise AssertionError("finite weights")

    def on_fault(self, error):
        self.done.put(error)


def greedy_reference(folder, prompt, num_tokens):
    module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(num_tokens):
            tokens.append(int(module(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("deterministic", [False, True])
def test_eight_streams_in_a_pool_for_three_each_get_their_own_greedy_text(tiny_pair, deterministic):
    engine = built(tiny_pair.target, cache_tokens=256, deterministic=deterministic)
    engine.loop.start()
    prompts = [np.random.default_rng(seed).integers(3, 64, 20 + 9 * seed).tolist() for seed in range(8)]
    streams = [Greedy(engine, prompt, 16) for prompt in prompts]
    texts = [stream.done.get(timeout=WAIT_S) for stream in streams]
    engine.loop.stop()
    assert texts == [greedy_reference(tiny_pair.target, prompt, 16) for prompt in prompts]
    assert engine.loop.scheduler.num_preemptions > 0, "the pool was too large to prove anything"
    assert engine.loop.table.pool.num_free == engine.num_blocks
