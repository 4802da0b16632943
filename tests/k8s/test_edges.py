"""An edge too many, an edge too few.."""

import pytest

from scripts.k8s_check.rules import network
from tests.support import manifests as at


def add_port(manifests):
    at.policy(manifests, "draft")["ingress"][0]["ports"].append({"protocol": "TCP", "port": "metrics"})


def nobody(manifests, name, side):
    at.policy(manifests, name)[side] = []


BREAKAGES = [
    (
        network,
        "cpu",
        lambda m: at.drop(m, "NetworkPolicy", "nothing"),
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
        lambda m: at.drop(m, "NetworkPolicy", "names"),
        "closed out of its source: Deployment/target → names UDP 53",
    ),
    (
        network,
        "hopper",
        lambda m: at.drop(m, "NetworkPolicy", "model-source"),
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
]


@pytest.mark.parametrize(("rule", "name", "breakage", "told"), BREAKAGES, ids=at.ids(BREAKAGES))
def test_a_broken_manifest_is_told(overlay, root, rule, name, breakage, told):
    at.assert_told(overlay(name), root, rule, breakage, told)
