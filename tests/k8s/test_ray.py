"""What Ray starts is held to the same: flags inside flags, ports known as a range, files on every node."""

import tomllib

import pytest

from scripts.k8s_check.rules import hardening, images, locks, network, paths, ports, probes, ray_fitting, settings
from tests.support import manifests as at


def spec(manifests):
    return at.find(manifests, "RayCluster", "forerun")["spec"]


def head(manifests):
    return spec(manifests)["headGroupSpec"]["template"]["spec"]


def worker(manifests):
    return spec(manifests)["workerGroupSpecs"][0]["template"]["spec"]


def fleet(manifests):
    return head(manifests)["containers"][1]


def replace(manifests, old, new):
    fleet(manifests)["args"] = [word.replace(old, new) for word in fleet(manifests)["args"]]


BREAKAGES = [
    (ray_fitting, "ray", lambda m: spec(m)["workerGroupSpecs"][0].update(replicas=2), "take 6 nvidia.com/gpu"),
    (ray_fitting, "ray", lambda m: fleet(m)["args"].append("--max-targets=3"), "take 8 nvidia.com/gpu"),
    (ray_fitting, "ray", lambda m: spec(m)["workerGroupSpecs"][0].update(maxReplicas=8), "nobody adds workers to"),
    (ray_fitting, "ray", lambda m: replace(m, "--targets=2", "--targets=9"), "the workers have 96"),
    (ray_fitting, "ray", lambda m: replace(m, "--tensor-parallel=2", "--tensor-parallel=1"), "GB on GPUs, has 72"),
    (ray_fitting, "ray", lambda m: worker(m)["initContainers"].pop(0), "fetches /models/draft"),
    (settings, "ray", lambda m: replace(m, "--target-gpus", "--target-gpu"), "unrecognized arguments: --target-gpu=1"),
    (settings, "ray", lambda m: replace(m, "--precision bf16", "--precision b16"), "targets: argument --precision"),
    (settings, "ray", lambda m: replace(m, "--cache-tokens", "--cached-tokens"), "unrecognized arguments"),
    (settings, "ray", lambda m: fleet(m).update(command=["forerun", "rays", "up"]), "forerun rays up is not ours"),
    (settings, "ray", lambda m: head(m)["containers"][0].update(command=["rays"]), "rays is not ours"),
    (images, "ray", lambda m: fleet(m).update(image="forerun/ray:0.1.0"), "no target of the Dockerfile"),
    (ports, "ray", lambda m: fleet(m)["args"].append("--registry-port=50056"), "listens on {'registry': 50056}"),
    (ports, "ray", lambda m: at.drop(m, "Service", "registry"), "there is no Service for registry:50055"),
    (probes, "ray", lambda m: fleet(m)["livenessProbe"]["tcpSocket"].update(port="gcs2"), "asks port gcs2"),
    (hardening, "ray", lambda m: worker(m).pop("automountServiceAccountToken"), "service-account token"),
    (locks, "ray", lambda m: replace(m, "--tls-client-names gateway", ""), "targets: whoever has a certificate"),
    (locks, "ray", lambda m: replace(m, "target-tls", "draft-tls --tls-cert= --tls-key= --tls-ca="), "target without"),
    (paths, "ray", lambda m: replace(m, "--model=/models", "--model=/model"), "/model/target is on no volume of"),
    (
        network,
        "ray",
        lambda m: at.drop(m, "NetworkPolicy", "registry"),
        "Deployment/gateway → RayCluster/forerun TCP 50055",
    ),
    (
        network,
        "ray",
        lambda m: at.policy(m, "ray-workers")["ingress"][0]["ports"][0].update(port=30000),
        "needed by nobody: Deployment/gateway → RayCluster/forerun/hopper TCP 30000",
    ),
    (
        network,
        "ray",
        lambda m: at.policy(m, "ray")["ingress"][0].pop("from"),
        "needed by nobody: client → RayCluster/forerun",
    ),
    (
        network,
        "ray",
        lambda m: worker(m)["securityContext"].pop("sysctls"),
        "needed, and closed into its destination: Deployment/gateway → RayCluster/forerun/hopper",
    ),
]


@pytest.mark.parametrize(("rule", "name", "breakage", "told"), BREAKAGES, ids=at.ids(BREAKAGES))
def test_a_broken_manifest_is_told(overlay, root, rule, name, breakage, told):
    at.assert_told(overlay(name), root, rule, breakage, told)


def test_the_cluster_runs_the_ray_that_the_image_installs(rendered, root):
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["ray"] == [f"ray=={spec(rendered('ray'))['rayVersion']}"]
