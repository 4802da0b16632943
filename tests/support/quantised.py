"""Quantised checkpoints of a tiny model, written by hand as their formats say, and what their weights mean."""

import json
import shutil

import gguf
import torch
from safetensors.torch import load_file, save_file

E4M3 = torch.float8_e4m3fn
GROUP = 16


def weights_of(folder):
    """Name → tensor of a model folder."""
    return load_file(folder / "model.safetensors")


def is_linear(name):
    """Of the weights that such checkpoints quantise: a layer's projections, not embedding, head or norms."""
    return "proj" in name


def rewrite(source, folder, convert, description):
    """A copy of the model folder `source`; convert(weight) → {suffix: tensor} and the bf16 weight that it means.

    Returns the meant weights by name.
    """
    shutil.copytree(source, folder)
    stored, meant = {}, {}
    for name, weight in weights_of(source).items():
        if not is_linear(name):
            stored[name] = meant[name] = weight
            continue
        parts, meant[name] = convert(weight.float())
        stem = name.removesuffix("weight")
        stored |= {stem + suffix: part.contiguous() for suffix, part in parts.items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": description}))
    return meant


def int4(source, folder):
    """compressed-tensors, pack-quantized: symmetric int4 in groups of 16, the commonest W4A16."""
    weights = {
        "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP, "dynamic": False,
    }  # fmt: skip
    return rewrite(source, folder, _int4, _compressed_tensors("pack-quantized", weights, None))


def fp8_by_channel(source, folder):
    """compressed-tensors, float-quantized: FP8-dynamic as llm-compressor writes it."""
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel", "dynamic": False}
    inputs = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
    return rewrite(source, folder, _by_channel, _compressed_tensors("float-quantized", weights, inputs))


def fp8_by_block(source, folder, block=16):
    """Fine-grained FP8, as DeepSeek and Qwen publish it."""
    description = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [block, block]}
    return rewrite(source, folder, lambda weight: _by_block(weight, block), description)


def q8_0(source, folder):
    """A GGUF file beside config and tokenizer: projections in Q8_0, blocks of 32 with a float16 scale.

    Returns the weights as it means them. llama.cpp orders the rows of query and key projections in its own way.
    """
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config, meant = json.loads((folder / "config.json").read_text()), {}
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    for add, value in (
        (writer.add_block_count, config["num_hidden_layers"]),
        (writer.add_context_length, config["max_position_embeddings"]),
        (writer.add_embedding_length, config["hidden_size"]),
        (writer.add_feed_forward_length, config["intermediate_size"]),
        (writer.add_head_count, config["num_attention_heads"]),
        (writer.add_head_count_kv, config["num_key_value_heads"]),
        (writer.add_layer_norm_rms_eps, config["rms_norm_eps"]),
        (writer.add_vocab_size, config["vocab_size"]),
    ):
        add(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, weight in weights_of(source).items():
        meant[name], theirs = weight.float(), names.get_name(name, try_suffixes=(".weight",))
        if not is_linear(name):
            writer.add_tensor(theirs, meant[name].numpy())
            continue
        blocks = meant[name].view(-1, 32)
        scale = (blocks.abs().amax(-1, keepdim=True) / 127).half().float()
        codes = (blocks / scale).round()
        meant[name] = (codes * scale).view(weight.shape)
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
        count = next((config[key] for part, key in heads.items() if part in name), None)
        ordered = meant[name] if count is None else _as_llama_cpp(meant[name], count)
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(theirs, gguf.quants.quantize(ordered.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


def _as_llama_cpp(weight, num_heads):
    """Rotary pairs beside each other, where transformers has halves."""
    rows, columns = weight.shape
    halves = weight.view(num_heads, 2, rows // num_heads // 2, columns)
    return halves.transpose(1, 2).reshape(rows, columns).contiguous()


def _int4(weight):
    rows, columns = weight.shape
    groups = weight.view(rows, columns // GROUP, GROUP)
    scale = (groups.abs().amax(-1) / 7).to(torch.bfloat16)
    codes = (groups / scale.float()[..., None]).round().clamp(-8, 7)
    nibbles = (codes.view(rows, columns // 8, 8) + 8).to(torch.int64)
    packed = (nibbles << (4 * torch.arange(8))).sum(-1)
    packed = torch.where(packed >= 1 << 31, packed - (1 << 32), packed).to(torch.int32)
    parts = {"weight_packed": packed, "weight_scale": scale, "weight_shape": torch.tensor([rows, columns])}
    return parts, (codes * scale.float()[..., None]).view(rows, columns)


def _by_channel(weight):
    scale = weight.abs().amax(-1, keepdim=True) / 448
    codes = (weight / scale).to(E4M3)
    return {"weight": codes, "weight_scale": scale}, codes.float() * scale


def _by_block(weight, block):
    rows, columns = weight.shape
    blocks = weight.view(rows // block, block, columns // block, block)
    scale = blocks.abs().amax((1, 3)) / 448
    codes = (blocks / scale[:, None, :, None]).to(E4M3)
    meant = (codes.float() * scale[:, None, :, None]).view(rows, columns)
    return {"weight": codes.view(rows, columns), "weight_scale_inv": scale}, meant


def _compressed_tensors(format, weights, inputs):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs, "format": format}
    return {
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }
