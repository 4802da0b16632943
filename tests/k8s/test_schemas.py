"""A manifest that Kubernetes or an operator of custom resources would refuse, or read otherwise, is told."""

import pytest

from scripts.k8s_check import schemas
from tests.support import manifests as at


@pytest.mark.parametrize(
    ("kind", "name", "breakage", "told"),
    [
        ("Deployment", "target", lambda d: d["spec"].update(replica=2), "'replica' was unexpected"),
        ("Deployment", "target", lambda d: d["spec"].update(replicas="2"), "is not of type 'integer'"),
        ("NetworkPolicy", "target", lambda d: d["spec"].update(policyType=["Egress"]), "'policyType' was unexpected"),
        ("PodMonitor", "gateway", lambda d: d["spec"].update(joblabel="x"), "'joblabel' was unexpected"),
        ("PrometheusRule", "gateway", lambda d: d["spec"]["groups"][0]["rules"][0].update({"for": "1 m"}), "match"),
        ("ScaledObject", "target", lambda d: d["spec"]["triggers"][0]["metadata"].pop("threshold"), "required"),
        ("Service", "target", lambda d: d.update(apiVersion="v2"), "no schema for v2 Service"),
    ],
)
def test_a_misshapen_manifest_is_told(overlay, root, kind, name, breakage, told):
    manifests = overlay("keda")
    breakage(at.find(manifests, kind, name))
    assert any(told in fault for fault in schemas.faults(manifests, root)), list(schemas.faults(manifests, root))
