"""Refuses a pair whose token ids do not mean the same (docs/protocol.md, invariant 6)."""

from dataclasses import dataclass

from forerun.errors import ConfigError, VocabularyMismatch
from forerun.models.tokenizer_files import first_difference
from forerun.rpc.clients import Peer
from forerun.types import ServiceInfo


@dataclass(frozen=True)
class OwnVocabulary:
    """The gateway's tokenizer, against which every peer is held; `tokens` has one entry an id, padding excluded."""

    tokens: tuple[str, ...]
    fingerprint: str
    eos_token_ids: tuple[int, ...]


class PairCheck:
    """Checks a peer's Info. Agreement with the gateway is agreement of draft and target with each other.

    Every id has to be the same token for both, and special for both or for neither. Padding rows of a head do not
    count. A draft with an empty fingerprint is vocabulary-free and fits any.

    min_model_len: the context that clients were promised; a replica that comes later has to keep it.
    """

    def __init__(self, ours: OwnVocabulary, service: str) -> None:
        self._ours, self._service = ours, service
        self.min_model_len = 0

    async def __call__(self, peer: Peer, info: ServiceInfo) -> None:
        """Raises ConfigError for another kind of service, VocabularyMismatch that names the first difference."""
        if info.service != self._service:
            raise ConfigError(f"{peer.address} is a {info.service or 'nameless'} service, expected a {self._service}")
        if not info.fingerprint and self._service == "draft":
            return
        if info.vocab_size != len(self._ours.tokens) or info.fingerprint != self._ours.fingerprint:
            raise VocabularyMismatch(await self._difference(peer, info))
        if self._service == "target":
            self._check_ends(peer, info)
        if 0 < info.max_model_len < self.min_model_len:
            raise ConfigError(
                f"{self._named(peer, info)} has a context of {info.max_model_len} tokens, others {self.min_model_len}; "
                "start all with one --max-model-len"
            )

    def _check_ends(self, peer: Peer, info: ServiceInfo) -> None:
        """Texts end where the gateway's EOS ids say, which have to be the target's; where a draft's model would end
        is its own affair, for an EOS that it proposes is a token like any other.
        """
        if info.eos_token_ids and set(info.eos_token_ids) != set(self._ours.eos_token_ids):
            raise VocabularyMismatch(
                f"{self._named(peer, info)} ends texts at {sorted(info.eos_token_ids)}, "
                f"the gateway's model at {sorted(self._ours.eos_token_ids)}; serve both with one generation_config.json"
            )

    async def _difference(self, peer: Peer, info: ServiceInfo) -> str:
        difference = first_difference(self._ours.tokens, await peer.vocabulary())
        return (
            f"{self._named(peer, info)} does not share the gateway's vocabulary: "
            f"{difference or 'the special tokens differ'}; start both with models of one tokenizer"
        )

    def _named(self, peer: Peer, info: ServiceInfo) -> str:
        return f"the {self._service} {info.model!r} at {peer.address}"
