"""What a sequence and its peers agree on when a stream is opened; it holds for the sequence's life."""

from dataclasses import dataclass

from forerun.rpc.clients import Metadata
from forerun.rpc.messages import DraftOpen, Sampling, TargetOpen
from gateway.transcript import Transcript


@dataclass(frozen=True, slots=True)
class TargetTerms:
    """`key` is what the replica is chosen by; `timeout_s` the longest silence of a target that is well otherwise."""

    sampling: Sampling
    seed: int
    choice: int
    cache_salt: str
    num_logprobs: int | None
    num_prompt_logprobs: int | None
    key: bytes
    timeout_s: float
    metadata: Metadata = ()

    def opening(self, transcript: Transcript, with_prompt_logprobs: bool) -> TargetOpen:
        """The first message of a stream that takes over from `transcript`."""
        return TargetOpen(
            prompt=transcript.tail(0),
            num_prompt_tokens=transcript.num_prompt_tokens,
            sampling=self.sampling,
            seed=self.seed,
            choice=self.choice,
            cache_salt=self.cache_salt,
            num_logprobs=self.num_logprobs,
            num_prompt_logprobs=self.num_prompt_logprobs if with_prompt_logprobs else None,
        )


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """`needs_laws` says whether a proposal without its laws is of use; the draft never gets the seed."""

    sampling: Sampling
    noise_key: bytes
    cache_salt: str
    needs_laws: bool
    key: bytes
    metadata: Metadata = ()

    def opening(self, transcript: Transcript) -> DraftOpen:
        """The first message of a stream that joins in at `transcript`."""
        return DraftOpen(
            prompt=transcript.tail(0),
            num_prompt_tokens=transcript.num_prompt_tokens,
            sampling=self.sampling,
            noise_key=self.noise_key,
            cache_salt=self.cache_salt,
        )
