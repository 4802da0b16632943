"""Alerts, panels and autoscalers that would be empty or unexplained.."""

import pytest

from scripts.k8s_check.rules import metrics, watching
from tests.support import manifests as at


def panels(manifests, edit):
    """Edits the dashboard's text."""
    data = at.find(manifests, "ConfigMap", "forerun-dashboard")["data"]
    data["forerun.json"] = edit(data["forerun.json"])


BREAKAGES = [
    (metrics, "cpu", lambda m: at.rule_of(m, "ForerunCacheFull").update(expr="avg(forerun_kv("), "ForerunCacheFull"),
    (
        metrics,
        "cpu",
        lambda m: at.rule_of(m, "ForerunCacheFull").update(expr='avg(forerun_kv_cache_usage_perc{job="gateway"}) > 1'),
        "gateway has no forerun_kv_cache_usage_perc",
    ),
    (
        metrics,
        "cpu",
        lambda m: at.rule_of(m, "ForerunFailovers").update(expr='increase(forerun_failovers{job="gateway"}[5m]) > 1'),
        "gateway has no forerun_failovers",
    ),
    (
        metrics,
        "cpu",
        lambda m: at.rule_of(m, "ForerunCacheFull").update(expr="forerun_kv_cache_usage_perc"),
        "which job",
    ),
    (
        metrics,
        "cpu",
        lambda m: at.rule_of(m, "ForerunFailovers").update(
            expr='sum by (model) (forerun_failovers_total{job="gateway"})'
        ),
        "has the label model",
    ),
    (
        metrics,
        "cpu",
        lambda m: at.rule_of(m, "ForerunFailovers").update(
            expr='forerun_draft_fallbacks_total{job="gateway", reason=~"late|tardy"}'
        ),
        "no reason is ever 'tardy'",
    ),
    (
        metrics,
        "cpu",
        lambda m: at.rule_of(m, "ForerunFailovers").update(expr='forerun_failovers_total{job="gateway", to="x"}'),
        "has no label to",
    ),
    (
        metrics,
        "cpu",
        lambda m: panels(m, lambda text: text.replace("forerun_ahead_hits_total", "x_total")),
        "no x_total",
    ),
    (
        metrics,
        "keda",
        lambda m: at.find(m, "ScaledObject", "draft")["spec"]["triggers"][0]["metadata"].update(query="x"),
        "ScaledObject/draft: streams",
    ),
    (watching, "cpu", lambda m: at.rule_of(m, "ForerunFailovers").update(alert="ForerunMoves"), "ForerunMoves: docs"),
    (watching, "cpu", lambda m: at.rule_of(m, "ForerunFailovers").pop("labels"), "severity"),
    (
        watching,
        "cpu",
        lambda m: panels(m, lambda text: text.replace("_per_pos_total", "_total")),
        "acceptance by position",
    ),
    (watching, "cpu", lambda m: panels(m, lambda text: text.replace('"x": 8', '"x": 0')), "overlap"),
    (
        watching,
        "cpu",
        lambda m: at.container(m, "collector")["ports"][0].update(containerPort=4318),
        "its container declares 4318",
    ),
]


@pytest.mark.parametrize(("rule", "name", "breakage", "told"), BREAKAGES, ids=at.ids(BREAKAGES))
def test_a_broken_manifest_is_told(overlay, root, rule, name, breakage, told):
    at.assert_told(overlay(name), root, rule, breakage, told)


def test_an_explanation_without_an_alert_is_told(overlay, root, tmp_path):
    text = (root / "docs" / "operations.md").read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "operations.md").write_text(text + "\n### ForerunMoves\nNothing.\n")
    (tmp_path / "k8s").symlink_to(root / "k8s")
    assert list(watching.faults(overlay("cpu"), tmp_path)) == [
        "docs/operations.md explains ForerunMoves, which is no alert"
    ]
