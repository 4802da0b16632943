"""docs/metrics.md names what the services count: no metric less, none more, with their types and labels."""

import re

import promql_parser
import pytest
from prometheus_client import CollectorRegistry

from forerun.telemetry.metrics import GatewayMetrics, ServiceMetrics, new_registry
from tests.support.documents import blocks, names, read, tables

TEXT = read("metrics.md")
SUFFIXES = ("_bucket", "_sum", "_count")


def defined(registry):
    """Name → (type, labels) of all that a registry holds."""
    found = {}
    for collector in registry._collector_to_names:
        for family in collector.collect():
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = getattr(collector, "_labelnames", None)
            found[name] = (family.type, set(family.samples[0].labels if labels is None else labels))
    return found


def documented(heading):
    """The same, of the table under a heading."""
    (rows,) = [rows for above, rows in tables(TEXT) if above == heading and "labels" in rows[0]]
    return {names(row["name"])[0]: (row["type"], set(names(row["labels"]))) for row in rows}


def of(metrics, *arguments):
    registry = CollectorRegistry()
    metrics(registry, *arguments)
    return defined(registry)


def test_the_gateways_metrics_are_those_of_the_document():
    assert documented("Gateway") == of(GatewayMetrics)


@pytest.mark.parametrize("service", ["draft", "target"])
def test_a_services_metrics_are_those_of_the_document(service):
    assert documented("Draft and target") == of(ServiceMetrics, service)


def test_what_every_process_tells_is_in_the_document():
    assert documented("Every process") == defined(new_registry("gateway"))


def test_the_text_and_its_queries_name_no_other_metric():
    known = {*of(GatewayMetrics), *of(ServiceMetrics, "target"), *defined(new_registry("target"))}
    series = known | {name + suffix for name in known for suffix in SUFFIXES}
    told = set(re.findall(r"\b(?:forerun|gen_ai_server)_[a-z0-9_]+\b", TEXT))
    assert told <= series


def test_every_query_can_be_read():
    queries = blocks(TEXT, "promql")
    assert queries
    for query in queries:
        promql_parser.parse(query)
