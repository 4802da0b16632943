"""Shapes and devices: known numbers, folders, and what is refused."""

import json

import numpy as np
import pytest

from forerun.errors import ConfigError
from forerun.models.bundled import bundled_draft
from forerun.planning.hardware import find_device
from forerun.planning.models import KNOWN, find_model
from forerun.planning.shape import from_config
from forerun.planning.steps import Batch, Steps


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-3.2-1b", 1.236),
        ("llama-3.1-8b", 8.03),
        ("llama-3.3-70b", 70.55),
        ("llama-3.1-405b", 405.85),
        ("qwen3-32b", 32.76),
        ("qwen3-30b-a3b", 30.53),
        ("mixtral-8x7b", 46.7),
        ("smollm2-135m", 0.1345),
    ],
)
def test_known_models_have_the_weights_that_their_cards_say(name, billions):
    assert find_model(name).num_params / 1e9 == pytest.approx(billions, rel=0.002)


def test_keys_and_values_of_a_token():
    assert find_model("llama-3.3-70b").kv_bytes("bf16") == 2 * 80 * 8 * 128 * 2
    assert find_model("llama-3.3-70b").kv_bytes("fp8") == 2 * 80 * 8 * 128


def test_a_folder_is_read_as_the_known_shape_of_its_model():
    read, known = find_model(str(bundled_draft())), find_model("draft-smollm2-135m")
    assert (read.num_params, read.head_params) == (known.num_params, known.head_params)
    assert read.head_params == 8192 * 576, "its head has only the rows of vocab.npy"


def test_few_rows_wake_few_experts_and_many_all():
    shape = find_model("qwen3-30b-a3b")
    dense = shape.layer_params + shape.head_params
    assert shape.weights_read(1) == pytest.approx(dense + 8 * shape.expert_params)
    assert shape.weights_read(1000) == pytest.approx(shape.num_params - shape.input_params, rel=1e-6)


def test_a_config_that_is_not_understood_is_refused_by_field(tmp_path):
    with pytest.raises(ConfigError, match="kv_lora_rank"):
        from_config("deepseek", {**KNOWN["llama-3.1-8b"], "kv_lora_rank": 512})
    with pytest.raises(ConfigError, match="lacks hidden_size"):
        from_config("odd", {key: value for key, value in KNOWN["llama-3.1-8b"].items() if key != "hidden_size"})
    with pytest.raises(ConfigError, match=r"no config\.json"):
        find_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        find_model(str(tmp_path))
    with pytest.raises(ConfigError, match=r"llama-3\.3-70b"):
        find_model("gpt-9")


def test_a_nested_text_config_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"text_config": KNOWN["llama-3.1-8b"]}))
    np.save(tmp_path / "vocab.npy", np.arange(1000))
    assert find_model(str(tmp_path)).head_params == 1000 * 4096


def test_weights_that_do_not_fit_are_refused_with_what_would():
    with pytest.raises(ConfigError, match="1 x l4 have 24 GB"):
        Steps(find_model("llama-3.3-70b"), find_device("l4"), "fp8", "bf16")


def test_a_precision_that_a_device_lacks_is_refused():
    with pytest.raises(ConfigError, match="a10 has no products in fp8; it has bf16, int8"):
        Steps(find_model("llama-3.2-1b"), find_device("a10"), "fp8", "bf16")


def test_given_figures_stand_in_for_known_ones():
    device = find_device("l4", bandwidth_gb_s=250, tflops=60, memory_gb=20, usd_per_h=0.0)
    assert (device.kernel("bf16").bandwidth, device.kernel("fp8").flops) == (250e9, 60e12)
    assert (device.memory, device.usd_per_h) == (20e9, 0.0)
    with pytest.raises(ConfigError, match="memory of l4 is -1"):
        find_device("l4", memory_gb=-1)
    with pytest.raises(ConfigError, match="xeon-amx"):
        find_device("tpu")


def test_a_step_costs_what_it_reads_and_two_devices_share_it():
    steps = Steps(find_model("llama-3.1-8b"), find_device("h100"), "bf16", "bf16")
    reading_s = steps.shape.weights_read(1) * 2 / (0.8 * 3.35e12)
    assert steps.seconds(Batch(1)) == pytest.approx(reading_s + steps.device.step_s)
    assert steps.seconds(Batch(1, 5)) == pytest.approx(steps.seconds(Batch(1))), "five rows read no more than one"
    assert steps.seconds(Batch(4000)) > 1.5 * steps.seconds(Batch(1))
    assert steps.seconds(Batch(0)) == 0.0
    both = Steps(steps.shape, steps.device, "bf16", "bf16", num_devices=2)
    assert reading_s / 2 < both.seconds(Batch(1)) - steps.device.step_s < reading_s
