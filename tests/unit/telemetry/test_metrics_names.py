"""The names that dashboards read, and what moves them."""

import urllib.request

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from forerun.telemetry.exposition import render, start_metrics_server
from forerun.telemetry.metrics import GatewayMetrics, ServiceMetrics, new_registry
from forerun.telemetry.speculation_metrics import RoundSummary
from forerun.telemetry.summary import RequestSummary

GATEWAY_NAMES = {
    "forerun_ahead_hits_total",
    "forerun_ahead_proposals_total",
    "forerun_draft_fallbacks_total",
    "forerun_draft_wait_seconds",
    "forerun_drafter_accepted_tokens_total",
    "forerun_drafter_draft_tokens_total",
    "forerun_e2e_request_latency_seconds",
    "forerun_failovers_total",
    "forerun_generation_tokens_total",
    "forerun_handovers_total",
    "forerun_num_draft_tokens",
    "forerun_num_requests_queued",
    "forerun_num_requests_running",
    "forerun_num_requests_waiting",
    "forerun_overtaken_proposals_total",
    "forerun_prompt_tokens_total",
    "forerun_refused_proposals_total",
    "forerun_request_success_total",
    "forerun_round_duration_seconds",
    "forerun_spec_decode_num_accepted_tokens_per_pos_total",
    "forerun_spec_decode_num_accepted_tokens_total",
    "forerun_spec_decode_num_draft_tokens_total",
    "forerun_spec_decode_num_drafts_total",
    "forerun_time_per_output_token_seconds",
    "forerun_time_to_first_token_seconds",
    "gen_ai_server_request_duration_seconds",
    "gen_ai_server_time_per_output_token_seconds",
    "gen_ai_server_time_to_first_token_seconds",
}
SERVICE_NAMES = {
    "forerun_generation_tokens_total",
    "forerun_kv_cache_usage_perc",
    "forerun_max_sequences",
    "forerun_num_preemptions_total",
    "forerun_num_requests_running",
    "forerun_num_requests_waiting",
    "forerun_open_streams",
    "forerun_overtaken_proposals_total",
    "forerun_prefix_cache_hits_total",
    "forerun_prefix_cache_queries_total",
    "forerun_prompt_tokens_total",
    "forerun_refused_proposals_total",
    "forerun_serving",
    "forerun_step_duration_seconds",
    "forerun_step_rows",
}


@pytest.fixture
def registry():
    return CollectorRegistry()


def names(registry):
    families = text_string_to_metric_families(render(registry)[0].decode())
    all_names = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    return {name for name in all_names if not name.endswith("_created")}


def test_the_gateways_names_are_these(registry):
    GatewayMetrics(registry)
    assert names(registry) == GATEWAY_NAMES


@pytest.mark.parametrize("service", ["draft", "target"])
def test_the_services_names_are_these(registry, service):
    ServiceMetrics(registry, service)
    assert names(registry) == SERVICE_NAMES


def test_a_round_counts_its_drafts_tokens_and_accepted_positions(registry):
    metrics = GatewayMetrics(registry)
    metrics.observe_round(RoundSummary(num_draft_tokens=4, num_accepted_tokens=2, duration_s=0.03, draft_wait_s=0.001))
    metrics.observe_round(RoundSummary(num_draft_tokens=3, num_accepted_tokens=1, duration_s=0.03, draft_wait_s=0.001))
    metrics.observe_round(RoundSummary(num_draft_tokens=0, num_accepted_tokens=0, duration_s=0.03))
    prefix = "forerun_spec_decode_num_"
    assert registry.get_sample_value(prefix + "drafts_total") == 2
    assert registry.get_sample_value(prefix + "draft_tokens_total") == 7
    assert registry.get_sample_value(prefix + "accepted_tokens_total") == 3
    per_position = [
        registry.get_sample_value(prefix + "accepted_tokens_per_pos_total", {"position": str(p)}) for p in range(3)
    ]
    assert per_position == [2, 1, None]
    assert registry.get_sample_value("forerun_num_draft_tokens_bucket", {"le": "0.0"}) == 1
    assert registry.get_sample_value("forerun_round_duration_seconds_count") == 3
    assert registry.get_sample_value("forerun_draft_wait_seconds_count") == 2


def test_a_request_counts_tokens_reasons_and_latencies(registry):
    metrics = GatewayMetrics(registry)
    metrics.observe_request(
        RequestSummary(
            request_id="r",
            operation="chat",
            model="tiny",
            duration_s=0.5,
            time_to_first_token_s=0.1,
            finish_reasons=("stop", "length"),
            num_prompt_tokens=7,
            num_generated_tokens=5,
        )
    )
    labels = {
        "gen_ai_operation_name": "chat",
        "gen_ai_provider_name": "forerun",
        "gen_ai_request_model": "tiny",
    }
    assert registry.get_sample_value("forerun_prompt_tokens_total") == 7
    assert registry.get_sample_value("forerun_generation_tokens_total") == 5
    assert registry.get_sample_value("forerun_request_success_total", {"finished_reason": "length"}) == 1
    assert registry.get_sample_value("forerun_time_to_first_token_seconds_sum") == pytest.approx(0.1)
    duration = "gen_ai_server_request_duration_seconds_bucket"
    assert registry.get_sample_value(duration, {**labels, "error_type": "", "le": "0.32"}) == 0
    assert registry.get_sample_value(duration, {**labels, "error_type": "", "le": "0.64"}) == 1
    per_token = "gen_ai_server_time_per_output_token_seconds_sum"
    assert registry.get_sample_value(per_token, labels) == pytest.approx(0.1)


def test_a_failed_request_counts_under_its_error_and_not_as_a_first_token(registry):
    metrics = GatewayMetrics(registry)
    metrics.observe_request(RequestSummary("r", "chat", "tiny", 0.5, status=503, error="ServiceUnavailable"))
    body = render(registry)[0].decode()
    assert 'error_type="ServiceUnavailable"' in body
    assert "gen_ai_server_time_to_first_token_seconds_count{" not in body


def test_gauges_read_their_value_when_scraped(registry):
    running = []
    metrics = ServiceMetrics(registry, "target")
    metrics.num_requests_running.set_function(lambda: len(running))
    running.extend("ab")
    assert registry.get_sample_value("forerun_num_requests_running") == 2


def test_two_registries_in_one_process_do_not_meet():
    first, second = CollectorRegistry(), CollectorRegistry()
    ServiceMetrics(first, "draft").num_preemptions.inc()
    ServiceMetrics(second, "target")
    assert second.get_sample_value("forerun_num_preemptions_total") == 0


def test_a_scrape_over_http_has_the_steps_and_the_process():
    registry = new_registry("target")
    metrics = ServiceMetrics(registry, "target")
    metrics.observe_step(0.028, 5)
    metrics.observe_prefix(100, 64)
    server = start_metrics_server(registry, "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5) as response:
            body = response.read().decode()
    finally:
        server.close()
    assert "forerun_step_rows_sum 5.0" in body
    assert "forerun_prefix_cache_hits_total 64.0" in body
    assert 'forerun_build_info{service="target"' in body
    assert "process_resident_memory_bytes" in body
