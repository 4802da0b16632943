"""Tiny random checkpoints of several model families, each with what makes its attention special."""

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
FAMILIES = {
    "llama": {},
    "llama-rope-scaled": {
        "kind": "llama",
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        },
    },
    "qwen2": {},
    "qwen3": {"head_dim": 16, "layer_types": ALTERNATING, "sliding_window": 9, "use_sliding_window": True},
    "mistral": {"sliding_window": 11},
    "phi3": {"sliding_window": 10},
    "gemma2": {
        "head_dim": 8, "layer_types": ALTERNATING, "sliding_window": 12, "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0,
    },
    "gpt_oss": {
        "head_dim": 8, "layer_types": ALTERNATING, "sliding_window": 10, "num_local_experts": 4,
        "num_experts_per_tok": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
}  # fmt: skip


def build(folder, family, seed=0):
    """Saves a checkpoint whose attention is far from uniform and returns its folder."""
    options = dict(FAMILIES[family])
    config = CONFIG_MAPPING[options.pop("kind", family)](**{**SHAPE, **options})
    torch.manual_seed(seed)
    module = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.dim() >= 2 or "sinks" in name:
                gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.2
                weight.normal_(0.0, gain * weight.shape[-1] ** -0.5, generator=generator)
    module.save_pretrained(folder)
    return folder


def reference(folder):
    """transformers' own forward: token ids → logits `[length, V]`."""
    module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

    @torch.inference_mode()
    def forward(tokens):
        return module(torch.tensor([list(tokens)]), use_cache=False).logits[0].numpy()

    return forward
