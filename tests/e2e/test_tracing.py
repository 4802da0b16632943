"""Three processes that export to one real OTLP receiver: a trace per request, metrics that move, logs without text."""

import json
import re
import urllib.request

import openai
import pytest

from tests.support.otlp import otlp_receiver
from tests.support.ports import free_ports
from tests.support.processes import ROOT, Gateway

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
MESSAGES = [{"role": "user", "content": "the stone is another"}]
CHAT = {"model": "tiny-target", "messages": MESSAGES, "max_tokens": 40, "extra_body": {"ignore_eos": True}}
DOCS = ROOT / "docs/tracing.md"
FLAGS = ("--precision", "fp32", "--threads", "1")


class Traced:
    """Services with their receiver; `ask` leaves one trace and returns its request tree when it is complete."""

    def __init__(self, receiver, gateway, metrics_urls):
        self.receiver, self.gateway = receiver, gateway
        self.metrics_urls = {"gateway": f"{gateway.url}/metrics", **metrics_urls}
        self.client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)

    def ask(self, number, speculative=None, **fields):
        """A chat as the child of a client's span; the trace id is TRACE_ID with `number` as its end."""
        trace_id = TRACE_ID[:-4] + f"{number:04x}"
        headers = {"traceparent": f"00-{trace_id}-{SPAN_ID}-00"}
        extra = {"ignore_eos": True, **({"speculative": speculative} if speculative else {})}
        answer = self.client.chat.completions.create(**{**CHAT, "extra_body": extra, **fields}, extra_headers=headers)
        return answer, self.tree(trace_id)

    def tree(self, trace_id):
        """The request's tree once every verify and propose of its rounds has come."""
        self.receiver.wait_for(lambda spans: _is_complete(spans, trace_id), timeout_s=20)
        (tree,) = self.receiver.trees(trace_id)
        return tree

    def samples(self, service):
        """Name and labels → value of one scrape."""
        with urllib.request.urlopen(self.metrics_urls[service], timeout=10) as scrape:
            lines = scrape.read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def _is_complete(spans, trace_id):
    """All but the propose spans of proposals that were there ahead, for the draft may hear of the text's end first."""
    mine = [span for span in spans if span.trace_id == trace_id]
    rounds = [span for span in mine if span.name == "forerun.round"]
    drafted = {span.span_id for span in rounds if span.attributes.get("forerun.num_draft_tokens")}
    asked = {
        span.span_id
        for span in rounds
        if span.span_id in drafted
        and span.attributes["forerun.drafter"] == "service"
        and not span.attributes["forerun.drafted_ahead"]
    }
    alone = {span.span_id for span in rounds if "forerun.grant" in span.attributes}
    verified, proposed = (
        {span.parent_id for span in mine if span.name == name} for name in ("forerun.verify", "forerun.propose")
    )
    return any(span.parent_id == SPAN_ID for span in mine) and asked <= proposed and drafted | alone <= verified


@pytest.fixture(scope="module")
def traced(fleet, tiny_pair):
    ports = dict(zip(("target", "draft"), free_ports(2), strict=True))
    with otlp_receiver() as receiver:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        target = fleet.start(
            "target_service", "--model", tiny_pair.target, *FLAGS, "--metrics-port", ports["target"], environ=environ
        )
        draft = fleet.start(
            "draft_service", "--model", tiny_pair.draft, "--target-model", tiny_pair.target, *FLAGS,
            "--metrics-port", ports["draft"], environ=environ,
        )  # fmt: skip
        addresses = target.ready().address, (draft.ready().address,)
        gateway = Gateway(tiny_pair.target, *addresses, environ=environ).ready()
        try:
            yield Traced(receiver, gateway, {name: f"http://127.0.0.1:{port}/metrics" for name, port in ports.items()})
        finally:
            gateway.kill()
            gateway.close()


def test_one_trace_holds_the_request_its_rounds_and_what_draft_and_target_did(traced):
    answer, tree = traced.ask(1, {"num_draft_tokens": 3}, temperature=0.0)
    request = tree.span
    assert (request.name, request.service, request.parent_id) == ("chat tiny-target", "forerun-gateway", SPAN_ID)
    attributes = request.attributes
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == attributes["gen_ai.response.model"] == "tiny-target"
    assert attributes["gen_ai.request.max_tokens"] == 40
    assert attributes["gen_ai.response.id"] == answer.id
    assert attributes["gen_ai.response.finish_reasons"] == ["length"]
    assert attributes["gen_ai.usage.input_tokens"] == answer.usage.prompt_tokens
    assert attributes["gen_ai.usage.output_tokens"] == answer.usage.completion_tokens == 40

    rounds = [child for child in tree.children if child.span.attributes.get("forerun.num_draft_tokens")]
    speculative = answer.speculative
    assert len(rounds) == speculative["num_drafts"] > 0
    assert _total(rounds, "forerun.num_draft_tokens") == speculative["num_draft_tokens"]
    assert _total(rounds, "forerun.num_accepted_tokens") == speculative["num_accepted_tokens"] > 0
    for child in rounds:
        services = {grandchild.span.name: grandchild.span.service for grandchild in child.children}
        assert services.pop("forerun.propose", "") in ("forerun-draft", "" if _is_ahead(child) else "forerun-draft")
        assert services == {"forerun.verify": "forerun-target"} and len(child.children) <= 2
        assert child.span.attributes["forerun.target_wait_s"] > 0
        assert child.span.attributes["forerun.draft_wait_s"] > 0
        assert child.span.attributes["forerun.choice"] == 0


def _is_ahead(tree):
    return tree.span.attributes.get("forerun.drafted_ahead", False)


def test_tokens_that_the_target_makes_alone_are_rounds_of_k_0_with_its_grant(traced):
    answer, tree = traced.ask(2, {"enabled": False}, temperature=0.0)
    assert all(child.names() == ("forerun.round", [("forerun.verify", [])]) for child in tree.children)
    assert {child.span.attributes["forerun.num_draft_tokens"] for child in tree.children} == {0}
    assert all(child.span.attributes["forerun.grant"] >= 0 for child in tree.children)
    assert _total(tree.children, "forerun.num_tokens") == answer.usage.completion_tokens == 40
    assert len(tree.children) < 12


def test_every_step_is_linked_to_the_messages_that_it_served(traced):
    _, tree = traced.ask(3, {"num_draft_tokens": 3}, temperature=0.0)
    served = {
        (part.span.trace_id, part.span.span_id)
        for child in tree.children
        for part in child.children
        if part.span.name == "forerun.verify" or not _is_ahead(child)  # what is there already takes no step
    }
    spans = traced.receiver.wait_for(
        lambda spans: served <= {link for span in spans if span.name == "forerun.step" for link in span.links}, 20
    )
    steps = [span for span in spans if span.name == "forerun.step" and span.links & served]
    assert {span.service for span in steps} == {"forerun-draft", "forerun-target"}
    assert all(span.attributes["forerun.num_rows"] >= 1 and span.parent_id == "" for span in steps)
    for span in (span for span in tree.walk() if span.name == "forerun.propose"):
        mine = [step for step in steps if (span.trace_id, span.span_id) in step.links]
        assert len(mine) <= 2 * 4  # K steps and the prefill of what is new, and the same ahead of the verdict


def test_choices_of_a_request_share_its_trace(traced):
    _, tree = traced.ask(4, {"num_draft_tokens": 2}, n=3, seed=1)
    assert {child.span.attributes["forerun.choice"] for child in tree.children} == {0, 1, 2}


def test_spans_have_the_attributes_that_the_docs_name(traced):
    """Every documented attribute of a round and below is seen, and none that is not documented."""
    documented = _documented()
    for number, speculative in ((7, {"num_draft_tokens": 3}), (8, {"enabled": False})):
        traced.ask(number, speculative, temperature=0.7, top_p=0.9, seed=4, n=2, presence_penalty=0.1)
    spans = traced.receiver.wait_for(lambda spans: any(span.name == "forerun.step" for span in spans))
    for kind, attributes in documented.items():
        seen = {name for span in spans if _kind(span) == kind for name in span.attributes}
        assert seen <= attributes
        assert kind.startswith("{") or seen == attributes


def _documented():
    """Kind of span → attributes, from the table of docs/tracing.md."""
    table = re.findall(r"^\| `([^`]+)` \| (?:server|internal) \| (.+) \|$", DOCS.read_text(), re.MULTILINE)
    return {name: set(re.findall(r"`([^`]+)`", attributes)) for name, attributes in table}


def _kind(span):
    return span.name if span.name.startswith("forerun.") else "{operation} {model}"


def test_metrics_of_all_three_move_under_their_names(traced):
    before = {service: traced.samples(service) for service in traced.metrics_urls}
    answer, _ = traced.ask(5, {"num_draft_tokens": 3}, temperature=0.0)
    after = {service: traced.samples(service) for service in traced.metrics_urls}

    def moved(service, name):
        return after[service][name] - before[service].get(name, 0.0)

    speculative, prefix = answer.speculative, "forerun_spec_decode_num_"
    assert moved("gateway", f"{prefix}drafts_total") == speculative["num_drafts"]
    assert moved("gateway", f"{prefix}draft_tokens_total") == speculative["num_draft_tokens"]
    assert moved("gateway", f"{prefix}accepted_tokens_total") == speculative["num_accepted_tokens"]
    positions = [moved("gateway", f'{prefix}accepted_tokens_per_pos_total{{position="{i}"}}') for i in range(3)]
    assert sum(positions) == speculative["num_accepted_tokens"]
    assert positions == sorted(positions, reverse=True)
    assert moved("gateway", "forerun_generation_tokens_total") == 40
    assert moved("gateway", 'forerun_request_success_total{finished_reason="length"}') == 1
    labels = (
        'error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="forerun",gen_ai_request_model="tiny-target"'
    )
    assert moved("gateway", f"gen_ai_server_request_duration_seconds_count{{{labels}}}") == 1
    assert moved("gateway", "forerun_time_to_first_token_seconds_count") == 1
    assert moved("target", "forerun_generation_tokens_total") >= 40
    assert moved("draft", "forerun_generation_tokens_total") >= speculative["num_draft_tokens"]
    for service in ("target", "draft"):
        assert moved(service, "forerun_step_duration_seconds_count") > 0
        assert 0 <= after[service]["forerun_kv_cache_usage_perc"] <= 1
    for service in after:
        assert after[service]["forerun_num_requests_running"] == 0
        assert any(name.startswith(f'forerun_build_info{{service="{service}"') for name in after[service])


def test_a_request_leaves_one_json_line_with_its_trace_and_nothing_of_its_text(traced):
    answer, tree = traced.ask(6, temperature=0.0)
    assert answer.choices[0].message.content
    traced.gateway.until_logged(answer.id)
    lines = [json.loads(line) for line in traced.gateway.log().splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line.get("request_id") == answer.id]
    assert (line["trace_id"], line["span_id"]) == (tree.span.trace_id, tree.span.span_id)
    assert (line["num_generated_tokens"], line["finish_reasons"], line["status"]) == (40, ["length"], 200)
    for text in (MESSAGES[0]["content"], answer.choices[0].message.content):
        assert text not in traced.gateway.log()


def _total(children, attribute):
    return sum(child.span.attributes[attribute] for child in children)
