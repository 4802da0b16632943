"""The bytes that a single token stands for, which `decode` alone cannot tell."""

import json
import re

from tokenizers import Tokenizer

_BYTE_FALLBACK = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")


class TokenBytes:
    """Id → bytes, computed when first asked for. Byte-level and byte-fallback vocabularies are exact."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._added = {id: token.content for id, token in tokenizer.get_added_tokens_decoder().items()}
        decoder = json.loads(tokenizer.to_str()).get("decoder") or {}
        kinds = {part.get("type") for part in [decoder, *decoder.get("decoders", [])]}
        self._byte_level = _byte_level_alphabet() if "ByteLevel" in kinds else None
        self._metaspace = bool(kinds & {"Metaspace", "Replace"})
        self._known: dict[int, bytes] = {}
        self.longest = max((len(token.encode()) for token in tokenizer.get_vocab()), default=1)

    def __getitem__(self, token: int) -> bytes:
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = self._spell(token)
        return known

    def _spell(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].encode()
        piece = self._tokenizer.id_to_token(token)
        if piece is None:
            return b""
        if self._byte_level is not None:
            return b"".join(self._byte_level.get(char, char.encode()) for char in piece)
        if byte := _BYTE_FALLBACK.match(piece):
            return bytes([int(byte[1], 16)])
        if self._metaspace:
            return piece.replace("\u2581", " ").encode()
        return str(self._tokenizer.decode([token], skip_special_tokens=False)).encode()


def _byte_level_alphabet() -> dict[str, bytes]:
    """Returns GPT-2's table of the characters that stand for bytes in a byte-level vocabulary."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {chr(byte): bytes([byte]) for byte in visible}
    table.update({chr(256 + i): bytes([byte]) for i, byte in enumerate(hidden)})
    return table
