"""The check that two parties hold the same transcript: CRC-32 over token ids as little-endian uint32."""

import zlib
from collections.abc import Sequence

import numpy as np


def transcript_hash(ids: Sequence[int], crc: int = 0) -> int:
    """CRC-32 of `ids`; given the hash `crc` of the ids before them, the hash of the whole."""
    return zlib.crc32(np.asarray(ids, dtype="<u4").tobytes(), crc)
