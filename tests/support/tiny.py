"""Tiny random Llama pairs, saved as real model folders, whose laws are peaked enough for a test to have power."""

from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
UNK_ID, BOS_ID, EOS_ID = 0, 1, 2
# Bytes of "é", "漢" and "😀": text whose characters span tokens.
BYTES = ("C3", "A9", "E6", "BC", "A2", "F0", "9F", "98", "80")
MERGES = (("t", "h"), ("th", "e"), ("i", "n"), ("e", "r"), (" ", "a"), ("o", "u"), ("s", "t"))
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
VOCAB_SIZES = range(32, 65)
HEAD_SCALE = 3.9  # standard deviation of the logits: laws of 1 to 1.5 nats
DRAFT_NOISE = 0.33  # of the head's own scale: total variation about 0.3


@dataclass(frozen=True)
class TinyPair:
    """Two model folders that share a tokenizer."""

    target: Path
    draft: Path


def build_pair(
    folder: Path,
    seed: int = 0,
    vocab_size: int = 64,
    max_model_len: int = 512,
    draft_max_model_len: int | None = None,
    target_padding: int = 0,
    draft_padding: int = 0,
) -> TinyPair:
    """Writes a target and a draft that is the target with a perturbed head; padding adds rows that no token has."""
    pair = TinyPair(folder / "tiny-target", folder / "tiny-draft")
    tokenizer = build_tokenizer(pieces(vocab_size))
    target = build_model(seed, vocab_size, max_model_len)
    draft = perturbed(target, seed + 1, draft_max_model_len or max_model_len)
    save(pad_vocabulary(target, vocab_size + target_padding), tokenizer, pair.target)
    save(pad_vocabulary(draft, vocab_size + draft_padding), tokenizer, pair.draft)
    return pair


def build_mismatched_pair(folder: Path, seed: int = 0) -> TinyPair:
    """A pair whose draft has two letters swapped: same size, different meaning from the first of them on."""
    pair = build_pair(folder, seed)
    swapped = list(pieces(64))
    a, b = swapped.index("a"), swapped.index("b")
    swapped[a], swapped[b] = swapped[b], swapped[a]
    build_tokenizer(tuple(swapped)).save_pretrained(pair.draft)
    return pair


def pieces(vocab_size: int) -> tuple[str, ...]:
    """The token of every id: specials, letters, space, newline, full stop, then what makes text interesting."""
    assert vocab_size in VOCAB_SIZES
    letters = tuple("abcdefghijklmnopqrstuvwxyz \n.")
    byte_tokens = tuple(f"<0x{byte}>" for byte in BYTES)
    merged = tuple(left + right for left, right in MERGES)
    return (SPECIALS + letters + byte_tokens + merged + tuple(",?!012345678-9:;'"))[:vocab_size]


def build_tokenizer(tokens: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """A byte-fallback BPE over `tokens`, with a chat template."""
    vocab = {token: token_id for token_id, token in enumerate(tokens)}
    merges = [(left, right) for left, right in MERGES if left + right in vocab]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token=SPECIALS[UNK_ID], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=SPECIALS[0], bos_token=SPECIALS[1], eos_token=SPECIALS[2]
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(seed: int, vocab_size: int, max_model_len: int) -> LlamaForCausalLM:
    """Two layers whose attention matters: the law depends on every earlier token and on its place."""
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=max_model_len,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).to(torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(0.0, _standard_deviation(name, weight), generator=generator)
    return model


def perturbed(target: LlamaForCausalLM, seed: int, max_model_len: int) -> LlamaForCausalLM:
    """A copy of `target` with noise on its head."""
    config = LlamaConfig(**{**target.config.to_dict(), "max_position_embeddings": max_model_len})
    draft = LlamaForCausalLM(config).to(torch.float32).eval()
    draft.load_state_dict(target.state_dict())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        head = draft.lm_head.weight
        head += torch.randn(head.shape, generator=generator) * head.std() * DRAFT_NOISE
    return draft


def pad_vocabulary(model: LlamaForCausalLM, num_rows: int) -> LlamaForCausalLM:
    """Adds rows to embedding and head; their logits win everywhere, so that a leak is seen at once."""
    num_new = num_rows - model.config.vocab_size
    if num_new:
        model.resize_token_embeddings(num_rows, mean_resizing=False)
        with torch.no_grad():
            model.lm_head.weight[-num_new:] = 3 * model.lm_head.weight[:num_new]
    return model


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes what a hub model's folder holds."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _standard_deviation(name: str, weight: torch.Tensor) -> float:
    fan_in = weight.shape[1]
    if name.endswith("embed_tokens.weight"):
        return 1.0
    if name.endswith("lm_head.weight"):
        return HEAD_SCALE * fan_in**-0.5
    gain = 2.0 if "q_proj" in name or "k_proj" in name else 1.5
    return gain * fan_in**-0.5
