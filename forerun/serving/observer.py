"""What a service's device thread tells the outside: step metrics and step spans."""

from typing import Protocol, cast

from opentelemetry.trace import Span

from forerun.engine.loop import EngineLoop
from forerun.engine.owner import StepReport
from forerun.engine.scheduler import Scheduler
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import StepTracer


class Traced(Protocol):
    """An owner of a sequence that has a span for the message it is serving, ended where the step answered it."""

    span: Span


class StepObserver:
    """Called by the device thread after every step."""

    def __init__(self, metrics: ServiceMetrics, tracer: StepTracer) -> None:
        self._metrics = metrics
        self._tracer = tracer
        self._scheduler: Scheduler | None = None
        self._num_preemptions = 0  # that were counted

    def on_step(self, step: StepReport) -> None:
        """Counts and, where one of the served messages is traced, records the step."""
        self._metrics.observe_step(step.step_s, step.num_rows)
        contexts = [cast(Traced, owner).span.get_span_context() for owner in step.owners]
        if any(context.trace_flags.sampled for context in contexts):
            self._tracer.on_step(step.start_ns, step.end_ns, step.num_rows, len(step.owners), contexts)
        if self._scheduler is not None and self._scheduler.num_preemptions > self._num_preemptions:
            self._metrics.num_preemptions.inc(self._scheduler.num_preemptions - self._num_preemptions)
            self._num_preemptions = self._scheduler.num_preemptions

    def watch(self, loop: EngineLoop) -> None:
        """Lets the gauges read the loop's state when they are scraped."""
        pool, scheduler = loop.table.pool, loop.scheduler
        self._scheduler = scheduler
        # What is drafted ahead on the chance gives way to anybody: it is no load.
        self._metrics.num_requests_running.set_function(
            lambda: sum(s.num_due > 0 and not s.expendable for s in list(scheduler.running))
        )
        self._metrics.num_requests_waiting.set_function(lambda: scheduler.num_queued)
        self._metrics.kv_cache_usage.set_function(lambda: 1 - pool.num_free / pool.num_blocks)
