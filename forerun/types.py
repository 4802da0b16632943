"""Frozen values that cross the borders between rooms: sampling parameters, proposals, verdicts."""

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

UINT64_MASK = (1 << 64) - 1


class Verification(enum.Enum):
    """The rule that a proposal is verified by (docs/losslessness.md)."""

    MATCH = "match"
    REJECTION = "rejection"
    BLOCK = "block"

    @property
    def needs_laws(self) -> bool:
        """Whether tokens are drafted under the draft key and come with the laws that they were drawn from."""
        return self is not Verification.MATCH


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How logits become the law that tokens are drawn from; every default leaves the law alone.

    `stop_token_ids` have probability 0 until `min_tokens` tokens were generated.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    verification: Verification = Verification.REJECTION


@dataclass(frozen=True, slots=True)
class SparseLaw:
    """A draft's law: P(ids[i]) = weights[i] / sum(weights). ids `[S] int64`, distinct; weights `[S] int64`, all ≥ 1."""

    ids: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """K drafted tokens after the first base_len tokens; laws has one entry a token, or none under match."""

    base_len: int
    tokens: tuple[int, ...] = ()
    laws: tuple[SparseLaw, ...] = ()
    draft_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Raw log-softmax of the target: the token's own, and the most likely ids first."""

    logprob: float
    top_ids: tuple[int, ...] = ()
    top_logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first num_accepted proposed tokens and then `token` follow the first base_len tokens.

    step_s: seconds of the forward; num_rows: tokens in it; num_queued: sequences that waited meanwhile;
    refused: why the proposal was not used at all, empty if it was; queued_s: its wait for the forward to start.
    """

    base_len: int
    num_accepted: int
    token: int
    logprobs: tuple[TokenLogprobs, ...] = ()
    step_s: float = 0.0
    num_rows: int = 0
    num_queued: int = 0
    num_cached_tokens: int = 0
    refused: str = ""
    queued_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """What a draft or target says of itself (the wire's Info)."""

    service: str
    version: str
    model: str
    vocab_size: int
    fingerprint: str
    eos_token_ids: tuple[int, ...]
    max_model_len: int
    backend: str
    method: str = ""
    verifications: tuple[Verification, ...] = ()
    block_size: int = 0
    num_blocks: int = 0
    num_free_blocks: int = 0
    num_running: int = 0
    num_waiting: int = 0
    max_sequences: int = 0
