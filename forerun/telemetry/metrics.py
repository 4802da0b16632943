"""Every Prometheus instrument, once. Names follow vLLM's with the prefix forerun_, which dashboards already read.

The gen_ai_server_* histograms are OpenTelemetry's GenAI metrics as Prometheus spells them: one scrape has everything.
A service's gauges read their value when scraped: `metrics.num_requests_running.set_function(lambda: len(running))`.
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

import forerun
from forerun.telemetry import buckets
from forerun.telemetry.latency_metrics import LatencyMetrics
from forerun.telemetry.speculation_metrics import RoundSummary, SpeculationMetrics
from forerun.telemetry.summary import RequestSummary


def new_registry(service: str) -> CollectorRegistry:
    """A registry that knows this process (memory, CPU, open files) and the service's name and version."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    info = Gauge("forerun_build_info", "Always 1.", ("service", "version"), registry=registry)
    info.labels(service, forerun.__version__).set(1)
    return registry


class GatewayMetrics:
    """What the gateway counts: requests, tokens, rounds, and what went wrong with peers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.num_requests_running = Gauge(
            "forerun_num_requests_running", "Requests between first and last token.", registry=registry
        )
        self.num_requests_waiting = Gauge(
            "forerun_num_requests_waiting", "Requests accepted that have no token yet.", registry=registry
        )
        self.num_requests_queued = Gauge(
            "forerun_num_requests_queued", "Requests that wait here until targets have a place.", registry=registry
        )
        self.tokens = TokenMetrics(registry)
        self.speculation = SpeculationMetrics(registry)
        self.latency = LatencyMetrics(registry)
        self.request_success = Counter(
            "forerun_request_success", "Choices that ended well.", ("finished_reason",), registry=registry
        )
        self.failovers = Counter("forerun_failovers", "Sequences moved to another target replica.", registry=registry)
        self.handovers = Counter(
            "forerun_handovers", "Sequences moved off a target replica that drains.", registry=registry
        )

    def observe_round(self, summary: RoundSummary) -> None:
        """Counts one round; a round without proposal is no draft."""
        self.speculation.observe(summary)

    def observe_inter_token(self, seconds: float) -> None:
        """Counts the time between two tokens of one choice."""
        self.latency.inter_token.observe(seconds)

    def observe_request(self, summary: RequestSummary) -> None:
        """Counts a request that ended, well or not."""
        self.tokens.prompt.inc(summary.num_prompt_tokens)
        self.tokens.generation.inc(summary.num_generated_tokens)
        for reason in summary.finish_reasons:
            self.request_success.labels(reason).inc()
        self.latency.observe(summary)


class TokenMetrics:
    """Tokens in and out."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.prompt = Counter("forerun_prompt_tokens", "Prompt tokens.", registry=registry)
        self.generation = Counter("forerun_generation_tokens", "Generated tokens.", registry=registry)


class ServiceMetrics:
    """What a draft or target counts. `service` is "draft" or "target" and only colours the help texts."""

    def __init__(self, registry: CollectorRegistry, service: str) -> None:
        self.serving = Gauge("forerun_serving", f"1 while this {service} serves, else 0.", registry=registry)
        self.open_streams = Gauge("forerun_open_streams", f"Streams open at this {service}.", registry=registry)
        self.max_sequences = Gauge(
            "forerun_max_sequences", f"Sequences in one batch of this {service}, at most.", registry=registry
        )
        self.num_requests_running = Gauge(
            "forerun_num_requests_running", f"Sequences in this {service}'s batch.", registry=registry
        )
        self.num_requests_waiting = Gauge(
            "forerun_num_requests_waiting", f"Sequences that wait for this {service}.", registry=registry
        )
        self.kv_cache_usage = Gauge(
            "forerun_kv_cache_usage_perc", "Share of KV blocks in use, 1 is all.", registry=registry
        )
        self.prefix_cache_queries = Counter(
            "forerun_prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", registry=registry
        )
        self.prefix_cache_hits = Counter(
            "forerun_prefix_cache_hits", "Prompt tokens found in the prefix cache.", registry=registry
        )
        self.prompt_tokens = Counter("forerun_prompt_tokens", "Prompt tokens of opened sequences.", registry=registry)
        self.generation_tokens = Counter(
            "forerun_generation_tokens", "Tokens that went out in verdicts or proposals.", registry=registry
        )
        self.num_preemptions = Counter(
            "forerun_num_preemptions", "Sequences whose blocks were taken away.", registry=registry
        )
        self.overtaken_proposals = Counter(
            "forerun_overtaken_proposals", "Messages superseded before they were served.", registry=registry
        )
        self.refused_proposals = Counter(
            "forerun_refused_proposals", "Proposals that could not be used.", ("reason",), registry=registry
        )
        self._step_duration = Histogram(
            "forerun_step_duration_seconds", "One forward.", buckets=buckets.STEP_SECONDS, registry=registry
        )
        self._step_rows = Histogram(
            "forerun_step_rows", "Tokens in a forward.", buckets=buckets.STEP_ROWS, registry=registry
        )

    def observe_step(self, duration_s: float, num_rows: int) -> None:
        """Counts one forward."""
        self._step_duration.observe(duration_s)
        self._step_rows.observe(num_rows)

    def observe_prefix(self, num_prompt_tokens: int, num_cached_tokens: int) -> None:
        """Counts a sequence that was opened and how much of its prompt the prefix cache held."""
        self.prompt_tokens.inc(num_prompt_tokens)
        self.prefix_cache_queries.inc(num_prompt_tokens)
        self.prefix_cache_hits.inc(num_cached_tokens)
