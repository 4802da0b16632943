"""A real OTLP gRPC trace receiver on a free port, and the trees of what it received."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass(frozen=True)
class ReceivedSpan:
    """One exported span; ids are lower-case hex, parent_id is empty for a root. links: (trace_id, span_id) pairs."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    dropped_links: int
    attributes: dict[str, Any] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    links: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Tree:
    """A span and its children, oldest first."""

    span: ReceivedSpan
    children: tuple["Tree", ...]

    def names(self) -> Any:
        """The shape as nested (name, [children]) pairs."""
        return (self.span.name, [child.names() for child in self.children])

    def walk(self) -> Iterator[ReceivedSpan]:
        """This span, then all below it."""
        yield self.span
        for child in self.children:
            yield from child.walk()


class OtlpReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Collects spans until closed; `endpoint` is what OTEL_EXPORTER_OTLP_ENDPOINT should say."""

    def __init__(self) -> None:
        self._spans: list[ReceivedSpan] = []
        self._changed = threading.Condition()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.endpoint = f"http://127.0.0.1:{port}"

    def Export(self, request: Any, context: Any) -> Any:
        """The one method of OTLP's TraceService."""
        with self._changed:
            self._spans.extend(_spans_of(request))
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All received so far."""
        with self._changed:
            return list(self._spans)

    def named(self, name: str) -> list[ReceivedSpan]:
        """Those of one name."""
        return [span for span in self.spans if span.name == name]

    def wait_for(self, predicate: Callable[[list[ReceivedSpan]], bool], timeout_s: float = 10.0) -> list[ReceivedSpan]:
        """Blocks until the predicate holds of all received spans; AssertionError, listing them, when it never does."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self._spans), timeout_s):
                names = [f"{span.service}/{span.name}" for span in self._spans]
                raise AssertionError(f"not received within {timeout_s} s; received {names}")
            return list(self._spans)

    def trees(self, trace_id: str) -> list[Tree]:
        """The trees of one trace; a span whose parent was not received (a client's, say) is a root."""
        return trees(self.spans, trace_id)

    def close(self) -> None:
        """Stops listening."""
        self._server.stop(None).wait()


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A receiver for the time of a `with` block."""
    receiver = OtlpReceiver()
    try:
        yield receiver
    finally:
        receiver.close()


def trees(spans: list[ReceivedSpan], trace_id: str) -> list[Tree]:
    """The spans of one trace as trees, roots and children by start time."""
    mine = sorted((span for span in spans if span.trace_id == trace_id), key=lambda span: span.start_ns)
    known = {span.span_id for span in mine}

    def build(span: ReceivedSpan) -> Tree:
        return Tree(span, tuple(build(child) for child in mine if child.parent_id == span.span_id))

    return [build(span) for span in mine if span.parent_id not in known]


def _spans_of(request: Any) -> Iterator[ReceivedSpan]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            yield from (_span(span, resource) for span in scope.spans)


def _span(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        service=resource.get("service.name", ""),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=span.status.code,
        dropped_links=span.dropped_links_count,
        attributes=_attributes(span.attributes),
        resource=resource,
        links=frozenset((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
