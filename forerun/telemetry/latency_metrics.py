"""Seconds as a client feels them, under vLLM's names and under OpenTelemetry's GenAI names in Prometheus' spelling."""

from prometheus_client import CollectorRegistry, Histogram

from forerun.telemetry import buckets
from forerun.telemetry.semconv import PROVIDER
from forerun.telemetry.summary import RequestSummary


class LatencyMetrics:
    """Seconds as a client feels them, under vLLM's names and under OpenTelemetry's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._first = Histogram(
            "forerun_time_to_first_token_seconds", "TTFT.", buckets=buckets.FIRST_TOKEN_SECONDS, registry=registry
        )
        self.inter_token = Histogram(
            "forerun_time_per_output_token_seconds",
            "Time between tokens of one choice.",
            buckets=buckets.PER_TOKEN_SECONDS,
            registry=registry,
        )
        self._request = Histogram(
            "forerun_e2e_request_latency_seconds",
            "Whole request that ended well.",
            buckets=buckets.REQUEST_SECONDS,
            registry=registry,
        )
        self._gen_ai = GenAiMetrics(registry)

    def observe(self, summary: RequestSummary) -> None:
        """Counts one request; one that failed says nothing of latency."""
        if not summary.error:
            self._request.observe(summary.duration_s)
        if summary.time_to_first_token_s is not None:
            self._first.observe(summary.time_to_first_token_s)
        self._gen_ai.observe(summary)


class GenAiMetrics:
    """gen_ai.server.request.duration, .time_to_first_token and .time_per_output_token with their standard buckets."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
        self._duration = Histogram(
            "gen_ai_server_request_duration_seconds",
            "Whole request; error_type is empty where it ended well.",
            (*labels, "error_type"),
            buckets=buckets.GEN_AI_DURATION,
            registry=registry,
        )
        self._first = Histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "Time to the first token of a request that ended well.",
            labels,
            buckets=buckets.GEN_AI_FIRST_TOKEN,
            registry=registry,
        )
        self._per_token = Histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Mean time per token after the first of a request that ended well.",
            labels,
            buckets=buckets.GEN_AI_PER_TOKEN,
            registry=registry,
        )

    def observe(self, summary: RequestSummary) -> None:
        """Counts one request."""
        labels = (summary.operation, PROVIDER, summary.model)
        self._duration.labels(*labels, summary.error).observe(summary.duration_s)
        if summary.error:
            return
        if summary.time_to_first_token_s is not None:
            self._first.labels(*labels).observe(summary.time_to_first_token_s)
        if summary.time_per_output_token_s is not None:
            self._per_token.labels(*labels).observe(summary.time_per_output_token_s)
