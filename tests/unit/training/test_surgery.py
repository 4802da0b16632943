"""A draft begins as layers of its target, of any kind that has layers; heads that do more than multiply are seen."""

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    Qwen2Config,
)

from forerun.errors import ConfigError
from forerun.training.head import Head
from forerun.training.surgery import draft_config, with_layers
from tests.support import quantised
from tests.unit.training.texts import CPU, load

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
FAMILIES = {
    "llama": LlamaConfig(**SIZES),
    "tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SIZES),
    "gemma2": Gemma2Config(**SIZES, sliding_window=8, final_logit_softcapping=3.0),
    "cohere": CohereConfig(**SIZES, logit_scale=0.25),
    "granite": GraniteConfig(**SIZES, logits_scaling=4.0),
    "gpt2": GPT2Config(vocab_size=40, n_embd=32, n_layer=4, n_head=4, n_positions=64),
}


@pytest.fixture(scope="module", params=FAMILIES)
def target(request, tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    AutoModelForCausalLM.from_config(FAMILIES[request.param]).save_pretrained(folder)
    return folder


IDS = torch.tensor([[5, 6, 7, 8, 9, 10]])


def test_all_layers_are_the_target(target):
    with torch.no_grad():
        assert torch.allclose(with_layers(target, (0, 1, 2, 3), CPU)(IDS).logits, load(target)(IDS).logits, atol=1e-5)


@pytest.mark.parametrize("convert", [quantised.q8_0, quantised.int4, quantised.fp8_by_channel, quantised.fp8_by_block])
def test_a_quantised_target_gives_the_weights_that_it_means(tmp_path, tiny_pair, convert):
    meant = convert(tiny_pair.target, tmp_path / "quantised")
    module = with_layers(tmp_path / "quantised", (0, 1), CPU)
    state = module.state_dict()
    assert not hasattr(module.config, "quantization_config")
    for name, weight in meant.items():
        assert torch.allclose(state[name], weight.float(), rtol=1e-2, atol=1e-6), name


def test_chosen_layers_are_the_target_with_the_others_taken_out(target):
    whole = load(target)
    stack = whole.base_model.h if hasattr(whole.base_model, "h") else whole.base_model.layers
    for skipped in (2, 1):
        del stack[skipped]
    for index, layer in enumerate(stack):
        for part in layer.modules():
            if hasattr(part, "layer_idx"):
                part.layer_idx = index
    for name in ("num_hidden_layers", "n_layer"):
        if hasattr(whole.config, name):
            setattr(whole.config, name, 2)
    if getattr(whole.config, "layer_types", None):
        whole.config.layer_types = [whole.config.layer_types[index] for index in (0, 3)]
    with torch.no_grad():
        expected = whole(IDS, use_cache=False).logits
        assert torch.allclose(with_layers(target, (0, 3), CPU)(IDS).logits, expected, atol=1e-5)


def test_the_head_gives_the_models_logits(target):
    module = with_layers(target, (0, 3), CPU)
    with torch.no_grad():
        hidden = module.base_model(input_ids=IDS).last_hidden_state[0]
        assert torch.allclose(Head.of(module).logits(hidden), module(IDS).logits[0].float(), atol=1e-4)


def test_a_head_that_cannot_be_followed_is_refused(tiny_pair):
    module = with_layers(tiny_pair.target, (0,), CPU)
    forward = module.lm_head.forward
    module.lm_head.forward = lambda hidden: forward(hidden).square()
    with pytest.raises(ConfigError, match="llama"):
        Head.of(module)


def test_what_is_listed_per_layer_is_cut():
    config = Gemma2Config(**SIZES, layer_types=["sliding_attention", "full_attention"] * 2)
    cut = draft_config(config, (1, 2))
    assert cut.layer_types == ["full_attention", "sliding_attention"]
    assert cut.num_hidden_layers == 2
    assert config.num_hidden_layers == 4
