"""What text needs to know of a model folder, read from its files alone: neither torch nor transformers is loaded."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from forerun.errors import ConfigError

_SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")
_LIMIT_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


@dataclass(frozen=True)
class ModelText:
    """A model's tokenizer, chat template and limits.

    tokens: the token of every id below vocab_size ("" where the tokenizer has none), padding rows of the head excluded.
    special_tokens: bos_token, eos_token, unk_token and pad_token, where the folder names them.
    max_model_len: tokens of context, 0 without a limit. fingerprint: equal iff all ids and special ids mean the same.
    """

    tokenizer: Tokenizer
    chat_template: str | None
    special_tokens: Mapping[str, str]
    special_ids: frozenset[int]
    eos_token_ids: tuple[int, ...]
    max_model_len: int
    tokens: tuple[str, ...] = field(repr=False)
    fingerprint: str

    @property
    def vocab_size(self) -> int:
        """Ids that the tokenizer knows: every valid id is below it."""
        return len(self.tokens)


def read_model_text(folder: Path) -> ModelText:
    """Reads tokenizer.json and the small JSON files beside it.

    Raises ConfigError, naming the file, where tokenizer.json is missing or a file cannot be read.
    """
    tokenizer = _tokenizer(folder)
    config = _json(folder / "config.json")
    settings = _json(folder / "special_tokens_map.json") | _json(folder / "tokenizer_config.json")
    special_tokens = _special_tokens(settings)
    tokens, special_ids = _tokens(tokenizer), _special_ids(tokenizer)
    return ModelText(
        tokenizer=tokenizer,
        chat_template=_chat_template(folder, settings),
        special_tokens=special_tokens,
        special_ids=special_ids,
        eos_token_ids=_eos_token_ids(folder, config, tokenizer, special_tokens),
        max_model_len=_max_model_len(config),
        tokens=tokens,
        fingerprint=_fingerprint(tokens, special_ids),
    )


def first_difference(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    """Names the first id at which two vocabularies differ; empty where they do not."""
    for token_id, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return f"id {token_id} is {our!r} here and {their!r} there"
    if len(ours) != len(theirs):
        return f"{len(ours)} tokens here and {len(theirs)} there"
    return ""


def _tokenizer(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(f"{folder} has no tokenizer.json; save the model's fast tokenizer into it")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(f"{path} cannot be read as a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} should hold a JSON object")
    return content


def _tokens(tokenizer: Tokenizer) -> tuple[str, ...]:
    ids = {token_id: token for token, token_id in tokenizer.get_vocab(with_added_tokens=True).items()}
    return tuple(ids.get(token_id, "") for token_id in range(max(ids) + 1))


def _special_ids(tokenizer: Tokenizer) -> frozenset[int]:
    added = tokenizer.get_added_tokens_decoder()
    return frozenset(token_id for token_id, token in added.items() if token.special)


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    values = {name: settings.get(name) for name in _SPECIAL_NAMES}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in values.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _eos_token_ids(
    folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer, special_tokens: Mapping[str, str]
) -> tuple[int, ...]:
    text_config = config.get("text_config") or {}
    generation = _json(folder / "generation_config.json")
    for source in (generation, config, text_config):
        value = source.get("eos_token_id")
        if value is not None:
            return tuple(sorted(set(value if isinstance(value, list) else [value])))
    token_id = tokenizer.token_to_id(special_tokens.get("eos_token", ""))
    return () if token_id is None else (token_id,)


def _max_model_len(config: Mapping[str, Any]) -> int:
    for source in (config, config.get("text_config") or {}):
        for name in _LIMIT_NAMES:
            if isinstance(source.get(name), int):
                return int(source[name])
    return 0


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _fingerprint(tokens: tuple[str, ...], special_ids: frozenset[int]) -> str:
    content = json.dumps([tokens, sorted(special_ids)], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()
