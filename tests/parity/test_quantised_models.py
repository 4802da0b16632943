"""Quantised models through the whole engine: FP8 made here, and checkpoints that come quantised."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from forerun.engine.quant import checkpoint
from forerun.engine.quant.fp8 import Fp8Linear
from forerun.errors import ConfigError
from forerun.models.resolve import resolve
from tests.parity.paged import Paged, load, random_tokens
from tests.support import quantised

LENGTH = 24


def greedy(loaded, prompt, num_tokens=LENGTH, expected=(), num_draft_tokens=0):
    """The engine's greedy text; with drafted tokens the expected ones are verified K at a time, the last one wrong."""
    engine = Paged(loaded)
    sequence = engine.open(prompt, num_logits=1)
    text = [int(engine.run(sequence)[0][-1].argmax())]
    while len(text) < num_tokens:
        guesses = list(expected[len(text) : len(text) + num_draft_tokens])
        guesses[-1:] = [(token + 1) % 64 for token in guesses[-1:]]
        rows = engine.extend(sequence, [text[-1], *guesses], len(guesses) + 1)
        chosen = rows.argmax(-1).tolist()
        accepted = next((i for i, guess in enumerate(guesses) if guess != chosen[i]), len(guesses))
        engine.table.truncate(sequence, len(prompt) + len(text) + accepted)
        text += chosen[: accepted + 1]
    return text[:num_tokens]


def reference_greedy(module, prompt, num_tokens=LENGTH):
    """transformers' own forward over the whole text, again for every token."""
    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(num_tokens):
            tokens.append(int(module(torch.tensor([tokens])).logits[0, -1].float().argmax()))
    return tokens[len(prompt) :]


class ScaledProduct(torch.nn.Module):
    """A linear layer in FP8 by torch's operator on numbers that are quantised here, apart from the engine's code."""

    def __init__(self, linear):
        super().__init__()
        self.codes, self.scale = self.by_row(linear.weight.detach())

    @staticmethod
    def by_row(numbers):
        scale = (numbers.float().abs().max(dim=-1, keepdim=True).values / 448.0).clamp(min=1e-12)
        return (numbers.float() / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale

    def forward(self, rows):
        flat, scale = self.by_row(rows.flatten(0, -2))
        product = torch._scaled_mm(flat, self.codes.t(), scale, self.scale.t(), out_dtype=torch.bfloat16)
        return product.view(*rows.shape[:-1], -1)


def fp8_reference(folder):
    module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    for layer in module.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, torch.nn.Linear):
                    setattr(part, name, ScaledProduct(child))
    return module


def meant(source, weights, dtype):
    """transformers' model with the weights that a quantised checkpoint means."""
    module = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    module.load_state_dict(weights)
    return module.to(dtype)


PROMPTS = [random_tokens(seed, 20 + seed) for seed in range(4)]


def test_the_greedy_text_of_an_fp8_model_is_that_of_its_reference(tiny_pair):
    ours, reference = load(tiny_pair.target, "fp8"), fp8_reference(tiny_pair.target)
    for prompt in PROMPTS:
        assert greedy(ours, prompt) == reference_greedy(reference, prompt)


def test_fp8_is_no_bf16_in_disguise(tiny_pair):
    logits = [Paged(load(tiny_pair.target, precision)).whole(PROMPTS[0]) for precision in ("fp8", "bf16")]
    assert abs(logits[0] - logits[1]).max() > 0.2


@pytest.mark.parametrize("num_draft_tokens", [1, 4])
def test_an_int4_checkpoint_speculates_and_its_text_is_transformers_own(tiny_pair, tmp_path, num_draft_tokens):
    pytest.importorskip("compressed_tensors")
    weights = quantised.int4(tiny_pair.target, tmp_path / "int4")
    loaded, reference = load(tmp_path / "int4", "fp32"), meant(tiny_pair.target, weights, torch.float32)
    for prompt in PROMPTS[:2]:
        expected = reference_greedy(reference, prompt)
        assert greedy(loaded, prompt, expected=expected, num_draft_tokens=num_draft_tokens) == expected


def test_a_gguf_file_speculates_and_its_text_is_transformers_own(tiny_pair, tmp_path):
    weights = quantised.q8_0(tiny_pair.target, tmp_path / "gguf")
    loaded, reference = load(resolve(str(tmp_path / "gguf")), "fp32"), meant(tiny_pair.target, weights, torch.float32)
    for prompt in PROMPTS[:2]:
        expected = reference_greedy(reference, prompt)
        assert greedy(loaded, prompt, expected=expected, num_draft_tokens=4) == expected
    with pytest.raises(ConfigError, match=r"quantised already \(gguf\)"):
        load(tmp_path / "gguf", "int8")


def test_of_several_gguf_files_none_is_chosen(tmp_path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=r"holds 2 \.gguf files"):
        checkpoint.source(tmp_path)


@pytest.mark.parametrize("write", [quantised.fp8_by_channel, quantised.fp8_by_block])
def test_an_fp8_checkpoint_runs_widened(tiny_pair, tmp_path, write):
    if write is quantised.fp8_by_channel:
        pytest.importorskip("compressed_tensors")
    weights = write(tiny_pair.target, tmp_path / "fp8")
    loaded, reference = load(tmp_path / "fp8", "fp32"), meant(tiny_pair.target, weights, torch.float32)
    assert greedy(loaded, PROMPTS[0]) == reference_greedy(reference, PROMPTS[0])


def test_by_channel_the_codes_are_the_checkpoints_own(tiny_pair, tmp_path):
    pytest.importorskip("compressed_tensors")
    quantised.fp8_by_channel(tiny_pair.target, tmp_path / "fp8")
    stored = quantised.weights_of(tmp_path / "fp8")
    module = load(tmp_path / "fp8", "fp8").forward.module
    layers = {name: child for name, child in module.named_modules() if isinstance(child, Fp8Linear)}
    assert len(layers) == 14
    for name, child in layers.items():
        assert torch.equal(child.weight, stored[f"{name}.weight"].float()), name
        torch.testing.assert_close(child.scale.t(), stored[f"{name}.weight_scale"], rtol=2**-8, atol=0)


@pytest.mark.parametrize("precision", ["int4", "int8", "fp8"])
def test_what_is_quantised_is_not_quantised_twice(tiny_pair, tmp_path, precision):
    quantised.int4(tiny_pair.target, tmp_path / "int4")
    with pytest.raises(ConfigError, match=r"is quantised already .*choose auto or bf16"):
        load(tmp_path / "int4", precision)


def test_auto_is_the_checkpoints_own_precision(tiny_pair, tmp_path):
    quantised.fp8_by_block(tiny_pair.target, tmp_path / "fp8")
    quantised.int4(tiny_pair.target, tmp_path / "int4")
    assert checkpoint.own_precision(tiny_pair.target, "cuda") is None
    assert checkpoint.own_precision(tmp_path / "fp8", "cuda:0") == "fp8"
    assert checkpoint.own_precision(tmp_path / "fp8", "cpu") == "bf16"
    assert checkpoint.own_precision(tmp_path / "int4", "cuda") == "bf16"


def test_a_missing_library_is_named_with_the_command_that_installs_it(tiny_pair, tmp_path, monkeypatch):
    quantised.int4(tiny_pair.target, tmp_path / "int4")
    monkeypatch.setattr("transformers.utils.quantization_config.is_compressed_tensors_available", lambda: False)
    with pytest.raises(ConfigError, match=r"int4 needs a library .*pip install 'forerun\[quantized\]'"):
        load(tmp_path / "int4", "bf16")
