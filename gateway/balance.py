"""Which replica a new sequence goes to: the one that its prompt sticks to, unless that has more than its share."""

import hashlib
import statistics
from collections.abc import Sequence
from math import ceil
from typing import Protocol, TypeVar

import numpy as np

STICKY_TOKENS = 64  # prompts that share these (and the salt) go to one replica, whose prefix cache knows them
BOUND = 1.25  # times its share of all sequences that a replica may have


class Busy(Protocol):
    """A replica as the balance sees it; step_s None is unknown."""

    @property
    def address(self) -> str: ...

    @property
    def num_running(self) -> float: ...

    @property
    def step_s(self) -> float | None: ...


B = TypeVar("B", bound=Busy)


def sticky_key(prompt: Sequence[int], cache_salt: str) -> bytes:
    """Equal for prompts of one salt that begin alike."""
    return cache_salt.encode() + b"\0" + np.asarray(prompt[:STICKY_TOKENS], "<u4").tobytes()


def choose(key: bytes, replicas: Sequence[B]) -> B | None:
    """The first replica with room, in the order in which `key` prefers them; None where there is no replica.

    Consistent hashing with bounded loads (arXiv 1608.01350) over rendezvous hashing: a replica may hold BOUND times its
    share, rounded up, of the sequences that run anywhere and the new one. Shares go by speed: one whose steps take
    twice as long gets half. So a replica that is lost or added moves only prompts of its own, and gateways that know
    the same replicas agree without a word.
    """
    ranked = sorted(replicas, key=lambda replica: _score(replica.address, key), reverse=True)
    speeds = _speeds(ranked)
    total = BOUND * (sum(replica.num_running for replica in ranked) + 1)
    for replica, speed in zip(ranked, speeds, strict=True):
        if replica.num_running < ceil(total * speed / sum(speeds)):
            return replica
    return min(ranked, key=lambda replica: replica.num_running, default=None)


def _speeds(replicas: Sequence[Busy]) -> list[float]:
    """One over the step's time; where that is unknown, as fast as the others."""
    known = [replica.step_s for replica in replicas if replica.step_s]
    usual_s = statistics.median(known) if known else 1.0
    return [1 / (replica.step_s or usual_s) for replica in replicas]


def _score(address: str, key: bytes) -> bytes:
    return hashlib.blake2b(address.encode() + b"\0" + key, digest_size=8).digest()
