"""A draft that begins as an earlier one, its new layers silent at first."""

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from forerun.errors import ConfigError
from forerun.training.growth import grow
from forerun.training.surgery import with_layers
from tests.unit.training.texts import CPU

IDS = torch.tensor([[5, 6, 7, 8, 9, 10]])
SIZES = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES, intermediate_size=48, num_key_value_heads=2, tie_word_embeddings=True)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def earlier(target, tmp_path_factory):
    """A draft of two layers that are no longer the target's, saved without the embedding; and its folder."""
    folder, module = tmp_path_factory.mktemp("earlier"), with_layers(target, (0, 3), CPU)
    own = {name: weight for name, weight in module.named_parameters() if "embed" not in name}
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in own.values():
            weight.add_(0.1 * torch.randn_like(weight))
    module.save_pretrained(folder, state_dict=own)
    return module, folder


def logits(module):
    with torch.no_grad():
        return module(IDS).logits


@pytest.mark.parametrize("layers", [(0, 3), (0, 1, 3), (0, 1, 2, 3)])
def test_it_says_what_the_earlier_one_says_however_many_layers_are_put_between(target, earlier, layers):
    module, folder = earlier
    grown = with_layers(target, layers, CPU)
    assert not torch.allclose(logits(grown), logits(module), atol=1e-3)
    grow(grown, folder)
    assert torch.allclose(logits(grown), logits(module), atol=1e-5)


def test_the_new_layers_learn(target, earlier):
    grown = with_layers(target, (0, 1, 3), CPU)
    grow(grown, earlier[1])
    grown(IDS, labels=IDS).loss.backward()
    gradients = {name: weight.grad for name, weight in grown.named_parameters() if ".1." in name}
    assert all(gradient.abs().sum() > 0 for name, gradient in gradients.items() if name.endswith("o_proj.weight"))


def test_an_earlier_draft_that_does_not_fit_is_refused(target, earlier, tmp_path):
    with pytest.raises(ConfigError, match="2 layers, more than the 1"):
        grow(with_layers(target, (0,), CPU), earlier[1])
    with pytest.raises(ConfigError, match="no folder of a draft"):
        grow(with_layers(target, (0, 3), CPU), tmp_path)
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 2}')
    with pytest.raises(ConfigError, match="no weights that can be read"):
        grow(with_layers(target, (0, 3), CPU), tmp_path)
    other = GPT2Config(vocab_size=40, n_embd=32, n_layer=4, n_head=4)
    AutoModelForCausalLM.from_config(other).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="does not fit"):
        grow(with_layers(tmp_path, (0, 1, 3), CPU), earlier[1])
