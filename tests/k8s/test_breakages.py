"""Negative controls: each rule sees the faults that it is there for, named as an operator can act on it."""

import pytest

from scripts.k8s_check import schemas
from scripts.k8s_check.rules import (
    draining,
    fitting,
    hardening,
    images,
    locks,
    metrics,
    network,
    paths,
    ports,
    probes,
    references,
    settings,
    watching,
)
from tests.support import manifests as at


def drop(manifests, kind, name):
    manifests.remove(at.find(manifests, kind, name))


def arg(manifests, name, *words):
    at.container(manifests, name)["args"] = list(words)


def panels(manifests, edit):
    """Edits the dashboard's text."""
    data = at.find(manifests, "ConfigMap", "forerun-dashboard")["data"]
    data["forerun.json"] = edit(data["forerun.json"])


def add_port(manifests):
    at.policy(manifests, "draft")["ingress"][0]["ports"].append({"protocol": "TCP", "port": "metrics"})


def nobody(manifests, name, side):
    at.policy(manifests, name)[side] = []


def secret(manifests):
    data = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"keys": "sk-1"}}
    manifests.append(data)


def keys_in_config(manifests):
    for volume in at.pod(manifests, "gateway")["volumes"]:
        if volume["name"] == "api-keys":
            del volume["secret"]
            volume["configMap"] = {"name": "models"}


BREAKAGES = [
    # settings: commands, flags, variables, values
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
    # images
    (images, "cpu", lambda m: at.container(m, "draft").update(image="forerun/drafts:0.1.0"), "no target of the Docker"),
    (images, "cpu", lambda m: at.container(m, "draft").update(image="forerun/draft:latest"), "not of version"),
    (images, "cpu", lambda m: at.container(m, "collector").update(image="otel/opentelemetry-collector"), "not pinned"),
    # ports
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
    (ports, "cpu", lambda m: drop(m, "Service", "collector"), "no Service for collector:4317"),
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
    # probes
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
    # draining
    (draining, "cpu", lambda m: at.container(m, "target").pop("lifecycle"), "preStop takes 0 s, a round up to 60"),
    (draining, "cpu", lambda m: at.settings(m, "gateway").update(FORERUN_TARGET_TIMEOUT_S="90"), "a round up to 90"),
    (draining, "cpu", lambda m: at.settings(m, "gateway").update(FORERUN_GRACE_S="3600"), "is killed after 690 s"),
    (draining, "cpu", lambda m: drop(m, "PodDisruptionBudget", "draft"), "0 PodDisruptionBudgets"),
    (
        draining,
        "cpu",
        lambda m: at.find(m, "PodDisruptionBudget", "draft")["spec"].update(selector={}),
        "2 PodDisruptionBudgets",
    ),
    (draining, "cpu", lambda m: at.find(m, "PodDisruptionBudget", "draft")["spec"].update(maxUnavailable=2), "not 2"),
    (draining, "hopper", lambda m: at.find(m, "Deployment", "target")["spec"].update(replicas=1), "may take 1 of 1"),
    (draining, "cpu", lambda m: at.pod(m, "target").pop("topologySpreadConstraints"), "not spread over"),
    # hardening
    (hardening, "cpu", lambda m: at.pod(m, "target")["securityContext"].pop("runAsNonRoot"), "may run as root"),
    (hardening, "cpu", lambda m: at.pod(m, "target")["securityContext"].pop("seccompProfile"), "no seccomp"),
    (hardening, "cpu", lambda m: at.pod(m, "target").pop("automountServiceAccountToken"), "service-account token"),
    (hardening, "cpu", lambda m: at.pod(m, "target").update(serviceAccountName="default"), "account of its own"),
    (hardening, "cpu", lambda m: at.pod(m, "target").update(hostNetwork=True), "has hostNetwork"),
    (hardening, "cpu", lambda m: at.pod(m, "target")["volumes"].append({"name": "x", "hostPath": {}}), "the host's"),
    (
        hardening,
        "cpu",
        lambda m: at.container(m, "draft")["securityContext"].pop("readOnlyRootFilesystem"),
        "can write",
    ),
    (hardening, "cpu", lambda m: at.init(m, "draft")["securityContext"].pop("allowPrivilegeEscalation"), "privileges"),
    (hardening, "cpu", lambda m: at.init(m, "draft")["securityContext"].pop("capabilities"), "has capabilities"),
    (hardening, "cpu", lambda m: at.container(m, "draft")["resources"].pop("limits"), "limits no memory"),
    # references and paths
    (references, "cpu", lambda m: drop(m, "ServiceAccount", "draft"), "there is no ServiceAccount draft"),
    (references, "hopper", lambda m: drop(m, "PersistentVolumeClaim", "models"), "no PersistentVolumeClaim models"),
    (
        references,
        "cpu",
        lambda m: at.container(m, "draft")["envFrom"][0]["configMapRef"].update(name="x"),
        "ConfigMap x",
    ),
    (references, "cpu", lambda m: at.container(m, "draft")["volumeMounts"][0].update(name="x"), "no volume x"),
    (
        references,
        "hopper",
        lambda m: at.pod(m, "gateway")["volumes"].append({"name": "x", "secret": {"secretName": "untold"}}),
        "how Secret untold is made",
    ),
    (references, "keda", lambda m: drop(m, "Deployment", "draft"), "ScaledObject/draft: there is no Deployment draft"),
    (references, "keda", lambda m: at.find(m, "Deployment", "draft")["spec"].update(replicas=2), "sets its replicas"),
    (paths, "cpu", lambda m: at.settings(m, "target").update(FORERUN_MODEL="/model/target"), "is on no volume"),
    (paths, "cpu", lambda m: at.settings(m, "target").update(FORERUN_CACHE="/models"), "/models cannot be written"),
    (paths, "cpu", lambda m: at.settings(m, "target").pop("HOME"), "HOME is not set"),
    (paths, "hopper", lambda m: at.init(m, "target")["args"].append("/etc/forerun/models/x.sha256"), "has no x.sha256"),
    # locks
    (locks, "hopper", secret, "never kept in a repository"),
    (locks, "hopper", keys_in_config, "does not come from a Secret"),
    (locks, "hopper", lambda m: at.settings(m, "target").update(HF_TOKEN="hf_1"), "HF_TOKEN stands in a manifest"),
    (locks, "hopper", lambda m: at.settings(m, "draft").update(FORERUN_TLS_CERT=""), "draft without"),
    (locks, "hopper", lambda m: at.settings(m, "draft").pop("FORERUN_TLS_CLIENT_NAMES"), "not the gateway alone"),
    # fitting
    (fitting, "cpu", lambda m: at.container(m, "target")["resources"]["requests"].update(memory="1Gi"), "of memory"),
    (fitting, "cpu", lambda m: at.settings(m, "target").update(FORERUN_CACHE_TOKENS="900000"), "of memory"),
    (fitting, "cpu", lambda m: at.settings(m, "target").pop("FORERUN_CACHE_TOKENS"), "left to chance"),
    (fitting, "cpu", lambda m: at.settings(m, "target").update(FORERUN_THREADS="8"), "8 threads on 2 cores"),
    (fitting, "cpu", lambda m: at.settings(m, "target").update(FORERUN_DEVICE="cuda"), "device cuda with 0 GPUs"),
    (fitting, "hopper", lambda m: at.settings(m, "target").update(FORERUN_PRECISION="bf16"), "GB on GPUs"),
    (fitting, "hopper", lambda m: at.pod(m, "draft").pop("nodeSelector"), "may share its GPU"),
    (fitting, "cpu", lambda m: at.pod(m, "target").pop("initContainers"), "no init step fetches /models/target"),
    (fitting, "hopper", lambda m: at.init(m, "target")["args"].__setitem__(1, "some/model"), "does not know model"),
    # network: an edge too many, an edge too few
    (
        network,
        "cpu",
        lambda m: drop(m, "NetworkPolicy", "nothing"),
        "nobody: Deployment/collector → stranger in the namespace TCP 22",
    ),
    (network, "cpu", lambda m: at.policy(m, "draft").update(ingress=[{}]), "client → Deployment/draft TCP 50051"),
    (
        network,
        "cpu",
        add_port,
        "open into its destination, and needed by nobody: Deployment/gateway → Deployment/draft TCP 9051",
    ),
    (
        network,
        "cpu",
        lambda m: at.policy(m, "gateway")["ingress"][0].update({"from": [{"namespaceSelector": {}}]}),
        "stranger elsewhere → Deployment/gateway",
    ),
    (
        network,
        "cpu",
        lambda m: at.policy(m, "target")["ingress"][0]["from"][0].update(namespaceSelector={}),
        "stranger elsewhere → Deployment/target TCP 50052",
    ),
    (network, "cpu", lambda m: at.policy(m, "draft")["egress"].append({}), "Deployment/draft → metadata service"),
    (
        network,
        "cpu",
        lambda m: nobody(m, "target", "ingress"),
        "closed into its destination: Deployment/gateway → Deployment/target TCP 50052",
    ),
    (
        network,
        "cpu",
        lambda m: nobody(m, "gateway", "egress"),
        "closed out of its source: Deployment/gateway → Deployment/draft TCP 50051",
    ),
    (
        network,
        "cpu",
        lambda m: nobody(m, "collector", "egress"),
        "closed out of its source: Deployment/collector → traces TCP 4317",
    ),
    (
        network,
        "cpu",
        lambda m: drop(m, "NetworkPolicy", "names"),
        "closed out of its source: Deployment/target → names UDP 53",
    ),
    (
        network,
        "hopper",
        lambda m: drop(m, "NetworkPolicy", "model-source"),
        "closed out of its source: Deployment/draft → model source",
    ),
    (
        network,
        "hopper",
        lambda m: at.policy(m, "model-source")["egress"][0]["to"][0]["ipBlock"]["except"].remove("169.254.0.0/16"),
        "needed by nobody: Deployment/target → metadata service TCP 443",
    ),
    (
        network,
        "hopper",
        lambda m: at.init(m, "draft")["args"].__setitem__(1, "/opt/models/draft-smollm2-135m"),
        "needed by nobody: Deployment/draft → model source TCP 443",
    ),
    # metrics and what watches
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
        "ScaledObject/draft: sequences",
    ),
    (watching, "cpu", lambda m: at.rule_of(m, "ForerunFailovers").update(alert="ForerunMoves"), "ForerunMoves: docs"),
    (watching, "cpu", lambda m: at.rule_of(m, "ForerunFailovers").update(alert="ForerunMoves"), "which is no alert"),
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


@pytest.mark.parametrize(
    ("rule", "name", "breakage", "told"),
    BREAKAGES,
    ids=[f"{rule.__name__.rpartition('.')[2]}-{told}" for rule, _, _, told in BREAKAGES],
)
def test_a_broken_manifest_is_told(overlay, root, rule, name, breakage, told):
    manifests = overlay(name)
    breakage(manifests)
    assert any(told in fault for fault in rule.faults(manifests, root)), list(rule.faults(manifests, root))


@pytest.mark.parametrize(
    ("kind", "name", "breakage", "told"),
    [
        ("Deployment", "target", lambda d: d["spec"].update(replica=2), "'replica' was unexpected"),
        ("Deployment", "target", lambda d: d["spec"].update(replicas="2"), "is not of type 'integer'"),
        ("NetworkPolicy", "target", lambda d: d["spec"].update(policyType=["Egress"]), "'policyType' was unexpected"),
        ("PodMonitor", "gateway", lambda d: d["spec"].update(joblabel="x"), "'joblabel' was unexpected"),
        ("PrometheusRule", "forerun", lambda d: d["spec"]["groups"][0]["rules"][0].update({"for": "1 m"}), "match"),
        ("ScaledObject", "target", lambda d: d["spec"]["triggers"][0]["metadata"].pop("threshold"), "required"),
        ("Service", "target", lambda d: d.update(apiVersion="v2"), "no schema for v2 Service"),
    ],
)
def test_a_misshapen_manifest_is_told(overlay, root, kind, name, breakage, told):
    manifests = overlay("keda")
    breakage(at.find(manifests, kind, name))
    assert any(told in fault for fault in schemas.faults(manifests, root)), list(schemas.faults(manifests, root))
