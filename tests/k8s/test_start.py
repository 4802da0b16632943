"""What would not start, or not be found: settings, images, ports, probes.."""

import pytest

from scripts.k8s_check.rules import images, ports, probes, settings
from tests.support import manifests as at


def arg(manifests, name, *words):
    at.container(manifests, name)["args"] = list(words)


BREAKAGES = [
    (settings, "cpu", lambda m: arg(m, "target", "--max-sequence", "8"), "unrecognized arguments: --max-sequence"),
    (settings, "cpu", lambda m: arg(m, "draft", "--precision", "fp4"), "invalid choice: 'fp4'"),
    (settings, "cpu", lambda m: at.settings(m, "target").update(FORERUN_THREAD="2"), "nothing reads FORERUN_THREAD"),
    (settings, "cpu", lambda m: at.settings(m, "target").update(FORERUN_THREADS="two"), "FORERUN_THREADS='two'"),
    (settings, "cpu", lambda m: at.settings(m, "draft").update(OTEL_EXPORTER_OTLP_ENDPONT="x"), "OTLP_ENDPONT"),
    (settings, "cpu", lambda m: at.settings(m, "gateway").update(FORERUN_MAX_NUM_DRAFT_TOKENS="0"), "from 1 to"),
    (settings, "cpu", lambda m: at.settings(m, "target").pop("FORERUN_HOST"), "listens on 127.0.0.1"),
    (
        settings,
        "cpu",
        lambda m: at.init(m, "target").update(command=["forerun", "fetsch"]),
        "forerun fetsch is not ours",
    ),
    (settings, "cpu", lambda m: at.init(m, "target")["args"].append("--check"), "unrecognized arguments: --check"),
    (settings, "cpu", lambda m: at.pod(m, "target").pop("enableServiceLinks"), "enableServiceLinks"),
    (settings, "cpu", lambda m: at.settings(m, "gateway").update(FORERUN_TARGET_ADDRESSES="file:///x"), "is neither"),
    (images, "cpu", lambda m: at.container(m, "draft").update(image="forerun/drafts:0.1.0"), "no target of the Docker"),
    (images, "cpu", lambda m: at.container(m, "draft").update(image="forerun/draft:latest"), "not of version"),
    (images, "cpu", lambda m: at.container(m, "collector").update(image="otel/opentelemetry-collector"), "not pinned"),
    (ports, "cpu", lambda m: at.container(m, "target")["ports"][0].update(containerPort=50053), "listens on"),
    (ports, "cpu", lambda m: at.settings(m, "target").update(FORERUN_METRICS_PORT="9999"), "listens on"),
    (
        ports,
        "cpu",
        lambda m: at.settings(m, "gateway").update(FORERUN_DRAFT_ADDRESSES="dns:///draft:1"),
        "has no port 1",
    ),
    (
        ports,
        "cpu",
        lambda m: at.settings(m, "gateway").update(FORERUN_DRAFT_ADDRESSES="dns:///drift:50051"),
        "no Service",
    ),
    (ports, "cpu", lambda m: at.settings(m, "gateway").update(FORERUN_DRAFT_ADDRESSES="draft:50051"), "every pod's"),
    (ports, "cpu", lambda m: at.drop(m, "Service", "collector"), "no Service for collector:4317"),
    (
        ports,
        "cpu",
        lambda m: at.find(m, "Service", "gateway")["spec"]["ports"][0].update(targetPort="web"),
        "no port web",
    ),
    (ports, "cpu", lambda m: at.find(m, "Service", "target")["spec"]["ports"][0].update(port=50053), "headless"),
    (
        ports,
        "cpu",
        lambda m: at.find(m, "Service", "target")["spec"]["selector"].update({"app.kubernetes.io/component": "x"}),
        "selects no pod",
    ),
    (
        ports,
        "cpu",
        lambda m: at.find(m, "PodMonitor", "gateway")["spec"]["podMetricsEndpoints"][0].update(port="metrics"),
        "serves metrics on port http",
    ),
    (
        ports,
        "cpu",
        lambda m: at.find(m, "PodMonitor", "services")["spec"]["podMetricsEndpoints"][0].update(path="/metric"),
        "metrics are at /metrics",
    ),
    (probes, "cpu", lambda m: at.container(m, "target").pop("livenessProbe"), "has no livenessProbe"),
    (probes, "cpu", lambda m: at.container(m, "target")["livenessProbe"]["grpc"].update(port=1), "asks port 1"),
    (
        probes,
        "cpu",
        lambda m: at.container(m, "target")["livenessProbe"]["grpc"].update(service="forerun.v1.DraftService"),
        "instead of forerun.v1.TargetService",
    ),
    (
        probes,
        "cpu",
        lambda m: at.container(m, "gateway")["livenessProbe"]["httpGet"].update(path="/ready"),
        "asks for /ready instead of /health",
    ),
    (
        probes,
        "cpu",
        lambda m: at.container(m, "gateway")["readinessProbe"]["httpGet"].update(path="/readyz"),
        "/readyz, which the gateway does not serve",
    ),
    (
        probes,
        "cpu",
        lambda m: at.container(m, "gateway")["readinessProbe"].update(timeoutSeconds=5),
        "/ready may take 5",
    ),
    (probes, "cpu", lambda m: at.container(m, "draft")["startupProbe"].update(failureThreshold=3), "gives up before"),
    (
        probes,
        "hopper",
        lambda m: at.container(m, "target")["livenessProbe"]["grpc"].update(port=50052),
        "asks port 50052 instead of 50060",
    ),
]


@pytest.mark.parametrize(("rule", "name", "breakage", "told"), BREAKAGES, ids=at.ids(BREAKAGES))
def test_a_broken_manifest_is_told(overlay, root, rule, name, breakage, told):
    at.assert_told(overlay(name), root, rule, breakage, told)
