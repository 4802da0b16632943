"""The draft as llama.cpp reads it: a GGUF file in 8 bits with the target's tokenizer and embedding."""

import hashlib
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors

_WEIGHTS = "model.safetensors"
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_EMBEDDING = "token_embd.weight"


def written(draft: Path, target: Path, folder: Path) -> Path:
    """The file for the draft in the Hugging Face folder `draft`, written once; `target` is a GGUF file."""
    data = (draft / _WEIGHTS).read_bytes()
    path = folder / f"draft-{hashlib.sha256(data).hexdigest()[:12]}.gguf"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        _write(unfinished, json.loads((draft / "config.json").read_text()), data, gguf.GGUFReader(target))
        unfinished.rename(path)
    return path


def _write(path: Path, config: dict[str, Any], data: bytes, target: Any) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    for field in target.fields.values():
        if field.name.startswith("tokenizer."):
            inner = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    (embedding,) = (tensor for tensor in target.tensors if tensor.name == _EMBEDDING)
    writer.add_tensor(_EMBEDDING, embedding.data, raw_dtype=embedding.tensor_type)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for name, tensor in safetensors.deserialize(data):
        if name != "model.embed_tokens.weight":
            _add(writer, _gguf_name(name), _float32(tensor), heads)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    """model.layers.3.mlp.up_proj.weight is blk.3.ffn_up.weight."""
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, *module, _ = name.split(".")
    return f"blk.{layer}.{_NAMES['.'.join(module)]}.weight"


def _float32(tensor: dict[str, Any]) -> np.ndarray:
    if tensor["dtype"] != "BF16":
        raise ValueError(f"weights in {tensor['dtype']} where BF16 was expected")
    high = np.frombuffer(tensor["data"], np.uint16).astype(np.uint32) << 16
    return high.view(np.float32).reshape(tensor["shape"])


def _add(writer: Any, name: str, weights: np.ndarray, heads: dict[str, int]) -> None:
    if weights.ndim == 1:
        writer.add_tensor(name, weights)
        return
    if num_heads := heads.get(name.split(".")[-2]):
        weights = _interleaved(weights, num_heads)
    packed = gguf.quants.quantize(np.ascontiguousarray(weights), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)


def _interleaved(weights: np.ndarray, num_heads: int) -> np.ndarray:
    """Rotary pairs side by side, as llama.cpp turns them; Hugging Face has them half a head apart."""
    halves = weights.reshape(num_heads, 2, weights.shape[0] // num_heads // 2, weights.shape[1])
    return halves.swapaxes(1, 2).reshape(weights.shape)
