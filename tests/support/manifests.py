"""Finds the part of a rendering that a test is to break."""

from scripts.k8s_check.manifests import named, of_kind
from scripts.k8s_check.rules.metrics import alerts


def find(manifests, kind, name):
    found = named(manifests, kind, name)
    assert found is not None, f"no {kind} {name}"
    return found


def drop(manifests, kind, name):
    manifests.remove(find(manifests, kind, name))


def ids(breakages):
    """Names of the cases (rule, overlay, breakage, what is told)."""
    return [f"{rule.__name__.rpartition('.')[2]}-{told}" for rule, _, _, told in breakages]


def pod(manifests, name):
    return find(manifests, "Deployment", name)["spec"]["template"]["spec"]


def container(manifests, name):
    return pod(manifests, name)["containers"][0]


def init(manifests, name):
    return pod(manifests, name)["initContainers"][0]


def settings(manifests, name):
    """The variables of a service: the ConfigMap whose name begins so."""
    starts = f"{name}-settings-"
    return next(found for found in manifests if found["metadata"]["name"].startswith(starts))["data"]


def policy(manifests, name):
    return find(manifests, "NetworkPolicy", name)["spec"]


def rule_of(manifests, alert):
    rules = (rule for found in of_kind(manifests, "PrometheusRule") for rule in alerts(found))
    return next(rule for rule in rules if rule["alert"] == alert)


def assert_told(manifests, root, rule, breakage, told):
    """Breaks the manifests; one of the rule's faults must say so in the words `told`."""
    breakage(manifests)
    found = list(rule.faults(manifests, root))
    assert any(told in fault for fault in found), found
