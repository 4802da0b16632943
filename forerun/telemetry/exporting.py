"""OTLP gRPC export of spans, set up from the OTEL_* environment."""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, Tracer, TraceState
from opentelemetry.util.types import Attributes

import forerun
from forerun.errors import ConfigError

# A step serves this many sequences at most; OpenTelemetry's own limit of 128 would drop links of larger batches.
MAX_STEP_LINKS = 4096

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class LinkSampler(Sampler):
    """Records a span that links to a sampled one; leaves every other to the sampler that the operator chose."""

    def __init__(self, others: Sampler) -> None:
        self._others = others

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """See `Sampler.should_sample`."""
        if links and any(link.context.trace_flags.sampled for link in links):
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)
        return self._others.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        """See `Sampler.get_description`."""
        return f"LinkSampler{{{self._others.get_description()}}}"


@dataclass(frozen=True)
class Exporting:
    """A running export: where spans are made, what decides about them, and how it ends."""

    tracer: Tracer
    sampler: Sampler
    processor: BatchSpanProcessor
    exporter: SpanExporter

    def shutdown(self, timeout_s: float) -> None:
        """Exports what is left. It is cut after timeout_s, so that a dead collector holds nobody."""
        cut = threading.Timer(timeout_s, self.exporter.shutdown)
        cut.daemon = True
        cut.start()
        self.processor.shutdown()  # type: ignore[no-untyped-call]
        cut.cancel()


def start_exporting(service_name: str, environ: Mapping[str, str] = os.environ) -> Exporting | None:
    """Starts the export that the environment asks for; None where it names no endpoint or switches traces off."""
    if not _wanted(environ):
        return None
    _check_protocol(environ)
    # Imported here: a process that exports nothing need not load the exporter.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter()
    processor = BatchSpanProcessor(exporter)
    sampler = LinkSampler(sampler_from(environ))
    max_links = None if "OTEL_SPAN_LINK_COUNT_LIMIT" in environ else MAX_STEP_LINKS
    provider = TracerProvider(
        sampler=sampler,
        resource=_resource(service_name),
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_links=max_links),
    )
    provider.add_span_processor(processor)
    return Exporting(provider.get_tracer("forerun", forerun.__version__), sampler, processor, exporter)


def _resource(service_name: str) -> Resource:
    ours = Resource.create({"service.name": service_name, "service.version": forerun.__version__})
    # Merged once more, so that OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    return ours.merge(OTELResourceDetector().detect())


def sampler_from(environ: Mapping[str, str]) -> Sampler:
    """The sampler that OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG name; parentbased_always_on without them.

    Raises ConfigError for an unknown name or a rate outside 0..1.
    """
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() or "parentbased_always_on"
    parent_based, plain = name.startswith("parentbased_"), name.removeprefix("parentbased_")
    if plain == "traceidratio":
        root: Sampler = TraceIdRatioBased(_rate(environ.get("OTEL_TRACES_SAMPLER_ARG", "") or "1"))
    elif plain in ("always_on", "always_off"):
        root = ALWAYS_ON if plain == "always_on" else ALWAYS_OFF
    else:
        raise ConfigError(
            f"OTEL_TRACES_SAMPLER={name!r} is unknown; use [parentbased_]always_on|always_off|traceidratio"
        )
    return ParentBased(root) if parent_based else root


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0.0 <= rate <= 1.0:
        raise ConfigError(f"OTEL_TRACES_SAMPLER_ARG={text!r} is not a rate between 0 and 1")
    return rate


def _wanted(environ: Mapping[str, str]) -> bool:
    off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    off = off or environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() == "none"
    return not off and any(environ.get(name) for name in _ENDPOINTS)


def _check_protocol(environ: Mapping[str, str]) -> None:
    for name in _PROTOCOLS:
        if environ.get(name, "grpc") not in ("grpc", ""):
            raise ConfigError(f"{name}={environ[name]!r} is not supported; spans are exported by OTLP over grpc")
