"""Randomness as a pure function of a key and a place: Philox4x64-10, read at random (docs/noise.md has golden vectors).

A key belongs to (seed, choice, purpose); whoever holds it can draw for that purpose and no other.
"""

import enum
import hashlib
import struct
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Purpose = Literal["draft", "target", "match"]
RawArray = npt.NDArray[np.uint64]

DOMAIN = b"forerun/v1"
KEY_BYTES = 16
_DROPPED_BITS = 11  # of 64, so that 53 remain: a double holds them exactly
_UNIT = 2.0**-53
_EMPTY_BUFFER = 4


class Lane(enum.IntEnum):
    """What a uniform is for; lanes are independent of each other. DRAFT is read under the draft's key."""

    DRAFT = 0
    ACCEPTANCE = 1
    TARGET = 2


def derive_key(seed: int, choice: int, purpose: Purpose) -> bytes:
    """Returns the 16 bytes of (seed as uint64, choice as uint32, purpose); one key tells nothing of another."""
    packed = struct.pack("<QI", seed & (2**64 - 1), choice & (2**32 - 1))
    return hashlib.sha256(DOMAIN + packed + purpose.encode("ascii")).digest()[:KEY_BYTES]


class KeyedNoise:
    """Philox under one key, its outputs addressed by (position, base_len, lane). Not for two threads at once."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a noise key has {KEY_BYTES} bytes, not {len(key)}")
        words = np.frombuffer(key, dtype="<u8").astype(np.uint64)
        self._philox = np.random.Philox(key=words)
        self._counter = np.zeros(4, dtype=np.uint64)
        self._state: Any = {**self._philox.state, "buffer_pos": _EMPTY_BUFFER}
        self._state["state"] = {"counter": self._counter, "key": words}

    def raw(self, size: int, position: int, base_len: int = 0, lane: int = 0) -> RawArray:
        """Returns outputs 0 .. size-1 `[size] uint64` of the place; a shorter call gives a prefix of a longer one."""
        self._seek(position, base_len, lane)
        return self._philox.random_raw(size)

    def uniform(self, position: int, base_len: int, lane: Lane) -> float:
        """Returns the first output of the place as a multiple of 2^-53 in [0, 1)."""
        self._seek(position, base_len, lane)
        return (int(self._philox.random_raw()) >> _DROPPED_BITS) * _UNIT

    def _seek(self, position: int, base_len: int, lane: int) -> None:
        counter = self._counter
        counter[0], counter[1], counter[2], counter[3] = 0, position, base_len, lane
        self._philox.state = self._state


class DraftNoise:
    """What a draft may know under rejection: the draft lane of every place. `key` is derive_key(…, "draft")."""

    def __init__(self, key: bytes) -> None:
        self._noise = KeyedNoise(key)

    def draft(self, position: int, base_len: int) -> float:
        """The uniform that drafts the token at `position` of a proposal that follows base_len tokens."""
        return self._noise.uniform(position, base_len, Lane.DRAFT)


class TargetNoise:
    """All lanes of the rejection rule; only the target holds it."""

    def __init__(self, seed: int, choice: int) -> None:
        self._draft = DraftNoise(derive_key(seed, choice, "draft"))
        self._target = KeyedNoise(derive_key(seed, choice, "target"))

    def draft(self, position: int, base_len: int) -> float:
        """What the draft drew the token at `position` with."""
        return self._draft.draft(position, base_len)

    def acceptance(self, position: int, base_len: int) -> float:
        """The uniform that decides whether the drafted token at `position` is accepted."""
        return self._target.uniform(position, base_len, Lane.ACCEPTANCE)

    def target(self, position: int, base_len: int) -> float:
        """The uniform that draws the recovered or bonus token at `position`."""
        return self._target.uniform(position, base_len, Lane.TARGET)


class MatchNoise:
    """One raw value per (position, token id), shared by draft and target. `key` is derive_key(…, "match")."""

    def __init__(self, key: bytes) -> None:
        self._noise = KeyedNoise(key)

    def raw(self, position: int, num_ids: int) -> RawArray:
        """Returns the noise of ids 0 .. num_ids-1 at `position`, `[num_ids] uint64`."""
        return self._noise.raw(num_ids, position)
