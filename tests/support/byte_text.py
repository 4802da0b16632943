"""A byte-level tokenizer that needs no model: every byte is a token, some merges span characters."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from gateway.api.chat_template import ChatTemplate
from gateway.api.limits import ModelInfo
from gateway.text import Text

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "w"), ("t", "h")]


def byte_tokenizer() -> Tokenizer:
    """256 bytes, the merges above, then <|endoftext|>, <|im_start|> and <|im_end|>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *("".join(merge) for merge in MERGES)]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    return tokenizer


def byte_text(template: str | None = TEMPLATE) -> Text:
    """The text side of a model with that tokenizer."""
    return Text(byte_tokenizer(), ChatTemplate(template, {"eos_token": "<|im_end|>"}) if template else None)


def byte_model(max_model_len: int = 256) -> ModelInfo:
    """The model that goes with it; its EOS is <|im_end|>."""
    tokenizer = byte_tokenizer()
    eos = tokenizer.token_to_id("<|im_end|>")
    return ModelInfo(("tiny", "alias"), tokenizer.get_vocab_size(), max_model_len, (eos,))
