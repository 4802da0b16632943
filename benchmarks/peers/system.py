"""What can be asked to decode: an engine in one of its modes."""

from dataclasses import dataclass
from typing import Protocol

from benchmarks.peers.job import Arrivals, Job


class Failed(Exception):
    """A job or a start that came to nothing; the text says why in a line."""


class System(Protocol):
    """Loaded, warm and idle until it is asked."""

    name: str
    max_batch: int

    def ask(self, job: Job) -> Arrivals:
        """Raises Failed; the system may be asked again where it is still there."""


@dataclass(frozen=True)
class PeerMode:
    """A peer and what it is to do: the name of its worker and requirements, and a mode of that worker's."""

    peer: str
    mode: str
    max_batch: int = 1 << 30

    @property
    def name(self) -> str:
        """As tables show it."""
        return f"{self.peer}-{self.mode}"


PEER_MODES = (
    PeerMode("transformers", "plain"),
    PeerMode("transformers", "draft", max_batch=1),
    PeerMode("transformers", "lookup", max_batch=1),
    PeerMode("vllm", "plain"),
    PeerMode("vllm", "draft"),
    PeerMode("vllm", "ngram"),
    PeerMode("openvino", "int8"),
    PeerMode("openvino", "int8-draft"),
    PeerMode("openvino", "int4"),
    PeerMode("openvino", "int4-draft"),
    PeerMode("llama", "plain"),
    PeerMode("llama", "lookup"),
    PeerMode("llama", "draft"),
)
