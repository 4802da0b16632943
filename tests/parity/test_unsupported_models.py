"""A model whose cache could not be truncated, shared or batched is refused at start, and the layer is named."""

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from forerun.engine import model
from forerun.engine.model import check_supported
from forerun.errors import ConfigError
from tests.parity import families
from tests.parity.paged import Paged, load

SSM = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 8, "mamba_d_ssm": 64}


def config_of(kind, **options):
    return CONFIG_MAPPING[kind](**{**families.SHAPE, **options})


def saved(tmp_path, config):
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("mamba", {}, "layer 0 of mamba"),
        ("qwen3_next", {"num_hidden_layers": 4}, "layer 0 of qwen3_next is 'linear_attention'"),
        ("lfm2", {"layer_types": ["full_attention", "conv", "conv"]}, "layer 1 of lfm2 is 'conv'"),
        ("llama4_text", {"layer_types": ["full_attention", "full_attention", "chunked_attention"]}, "layer 2"),
        ("t5", {}, "encoder-decoder"),
        ("bart", {}, "encoder-decoder"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "'dynamic'"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "later tokens"),
    ],
)
def test_a_config_is_refused_naming_what_is_wrong(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        check_supported(config_of(kind, **options))


def test_longrope_is_refused():
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    config = config_of("phi3", original_max_position_embeddings=64, rope_parameters=rope)
    with pytest.raises(ConfigError, match="longrope"):
        check_supported(config)


@pytest.mark.parametrize("family", list(families.FAMILIES))
def test_families_that_are_served_are_not_refused(tmp_path, family):
    Paged(load(families.build(tmp_path, family)))


def test_layers_with_a_recurrent_state_beside_their_attention_are_refused(tmp_path, monkeypatch):
    folder = saved(tmp_path, config_of("falcon_h1", **SSM))
    with pytest.raises(ConfigError, match="layer 0 of falcon_h1 is 'hybrid'"):
        load(folder)
    monkeypatch.setattr(model, "check_supported", lambda config: None)
    with pytest.raises(ConfigError, match=r"recurrent state in model\.layers\.0"):
        load(folder)


def test_a_model_whose_attention_bypasses_the_cache_is_refused(tmp_path):
    config = CONFIG_MAPPING["bloom"](vocab_size=64, hidden_size=32, n_layer=2, n_head=4)
    with pytest.raises(ConfigError, match=r"bloom|paged"):
        Paged(load(saved(tmp_path, config)))


def test_keys_and_values_of_different_widths_are_refused(tmp_path):
    options = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
    config = config_of("deepseek_v3", **options, first_k_dense_replace=3, n_routed_experts=4, n_group=1, topk_group=1)
    with pytest.raises(ConfigError, match="layer 0 of deepseek_v3"):
        Paged(load(saved(tmp_path, config)))


def test_an_attention_that_looks_both_ways_is_refused(tiny_pair):
    loaded = load(tiny_pair.target)
    loaded.forward.module.model.layers[1].self_attn.is_causal = False
    with pytest.raises(ConfigError, match="layer 1 looks at later tokens"):
        Paged(loaded)


def test_a_folder_that_lacks_a_weight_is_refused_naming_it(tiny_pair, tmp_path):
    module = AutoModelForCausalLM.from_pretrained(tiny_pair.target)
    state = {name: value for name, value in module.state_dict().items() if "layers.1.mlp.up" not in name}
    module.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ConfigError, match=r"lacks the weights model\.layers\.1\.mlp\.up_proj\.weight"):
        load(tmp_path)


def test_an_unknown_precision_is_refused_listing_the_known_ones(tiny_pair):
    with pytest.raises(ConfigError, match="bf16, fp32"):
        load(tiny_pair.target, "fp7")
