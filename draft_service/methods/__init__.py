"""Drafting methods: where proposals come from. One file each and one line here."""

from collections.abc import Callable
from typing import Any, Protocol

from forerun.rpc.messages import DraftOpen
from forerun.serving.session import ReplyBox, Session
from forerun.types import ServiceInfo

METHODS = {
    "model": "draft_service.methods.model:create",
    "ngram": "draft_service.methods.ngram:create",
}


class Method(Protocol):
    """A way to draft: METHODS names a function (config, metrics, tracing, on_device_fault) → Method."""

    tokens: tuple[str, ...]
    """The token of every id; empty where the method needs no vocabulary."""

    def start(self) -> None:
        """Ready to serve sessions afterwards."""
        ...

    def stop(self) -> None: ...

    def heartbeat_age_s(self) -> float:
        """Seconds since the device thread last went round; 0 where there is none."""
        ...

    def info(self) -> ServiceInfo: ...

    def session(self, opened: DraftOpen, box: ReplyBox, traceparent: str | None) -> Session:
        """Raises InvalidRequest for what cannot be drafted for."""
        ...


DeviceFault = Callable[[Exception], None]
Create = Callable[[Any, Any, Any, DeviceFault], Method]
