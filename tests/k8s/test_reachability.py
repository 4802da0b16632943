"""Reachability under NetworkPolicies is what Kubernetes' documentation of them says."""

import pytest

from scripts.k8s_check.network import Edge, Peer, inward, outward
from scripts.k8s_check.quantity import amount
from scripts.k8s_check.selecting import selects

POD = Peer("pod", "ours", {"app": "pod"}, {"team": "us"}, {"web": 80})
MATE = Peer("mate", "ours", {"app": "mate"}, {"team": "us"})
NAMESAKE = Peer("namesake", "theirs", {"app": "mate"}, {"team": "them"})
OUTSIDE = Peer("outside", ip="203.0.113.1")
INSIDE = Peer("inside", ip="10.0.0.1")
PEERS = (POD, MATE, NAMESAKE, OUTSIDE, INSIDE)
PORTS = [("TCP", 80), ("TCP", 81), ("UDP", 80)]
MATES = {"podSelector": {"matchLabels": {"app": "mate"}}}
THEM = {"namespaceSelector": {"matchLabels": {"team": "them"}}}


def policy(spec, namespace="ours"):
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"podSelector": {}} | spec}


def callers(*policies):
    """name:port of whoever may speak TCP to the pod."""
    found = inward([policy(spec) for spec in policies], [POD], PEERS, [("TCP", 80), ("TCP", 81)])
    return {f"{edge.source}:{edge.port}" for edge in found}


EVERYBODY = {f"{peer.name}:{port}" for peer in PEERS if peer is not POD for port in (80, 81)}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"policyTypes": ["Egress"]}, EVERYBODY),  # says nothing of this direction
        ({"policyTypes": ["Ingress"]}, set()),
        ({}, set()),  # ingress is meant where nothing is said
        ({"podSelector": {"matchLabels": {"app": "mate"}}}, EVERYBODY),  # selects another
        ({"ingress": [{}]}, EVERYBODY),
        ({"ingress": [{"from": [MATES]}]}, {"mate:80", "mate:81"}),
        ({"ingress": [{"from": [{"podSelector": {}}]}]}, {"mate:80", "mate:81"}),  # its own namespace alone
        ({"ingress": [{"from": [THEM]}]}, {"namesake:80", "namesake:81"}),
        (
            {"ingress": [{"from": [{"namespaceSelector": {}}]}]},
            {f"{n}:{p}" for n in ("mate", "namesake") for p in (80, 81)},
        ),
        ({"ingress": [{"from": [MATES | THEM], "ports": [{"port": 80}]}]}, {"namesake:80"}),  # one entry: both
        ({"ingress": [{"from": [MATES, THEM], "ports": [{"port": 80}]}]}, {"mate:80", "namesake:80"}),  # two: either
        ({"ingress": [{"from": [MATES], "ports": [{"port": "web"}]}]}, {"mate:80"}),
        ({"ingress": [{"from": [MATES], "ports": [{"port": "grpc"}]}]}, set()),
        ({"ingress": [{"from": [MATES], "ports": [{"port": 80, "endPort": 81}]}]}, {"mate:80", "mate:81"}),
        ({"ingress": [{"from": [MATES], "ports": [{"protocol": "UDP", "port": 80}]}]}, set()),
        (
            {"ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 80}]}]},
            {"outside:80", "inside:80"},
        ),
        (
            {
                "ingress": [
                    {"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}], "ports": [{"port": 80}]}
                ]
            },
            {"outside:80"},
        ),
    ],
)
def test_who_may_speak_to_a_pod(spec, expected):
    assert callers(spec) == expected


def test_policies_add_up():
    first, second = {"ingress": [{"from": [MATES], "ports": [{"port": 80}]}]}, {"ingress": [{"from": [THEM]}]}
    assert callers({}, first, second) == {"mate:80", "namesake:80", "namesake:81"}


def test_a_policy_of_another_namespace_says_nothing():
    found = inward([policy({}, "theirs")], [POD], [MATE], [("TCP", 80)])
    assert found == {Edge("mate", "pod", "TCP", 80)}


def test_egress_is_judged_by_the_destinations_names_and_ports():
    locked = policy({"policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": "web"}]}]})
    assert outward([locked], [MATE], PEERS, PORTS) == {Edge("mate", "pod", "TCP", 80)}


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ["a", "b"], {"k": "a"}, True),
        ("In", ["a", "b"], {}, False),
        ("NotIn", ["a"], {"k": "b"}, True),
        ("NotIn", ["a"], {}, True),
        ("NotIn", ["a"], {"k": "a"}, False),
        ("Exists", None, {"k": ""}, True),
        ("Exists", None, {}, False),
        ("DoesNotExist", None, {}, True),
        ("DoesNotExist", None, {"k": "a"}, False),
    ],
)
def test_selectors(operator, values, labels, expected):
    assert selects({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}, labels) is expected


@pytest.mark.parametrize(
    ("text", "number"), [("500m", 0.5), ("2", 2), (4, 4), ("1Ki", 1024), ("1.5Gi", 1.5 * 2**30), ("3M", 3e6)]
)
def test_quantities(text, number):
    assert amount(text) == number


@pytest.mark.parametrize("text", ["", "Gi", "2GB", "-1"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="is no quantity"):
        amount(text)
