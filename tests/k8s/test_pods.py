"""What pods may do, need and hold: hardening, references, paths, locks, resources, an orderly end.."""

import pytest

from scripts.k8s_check.rules import draining, fitting, hardening, locks, paths, references
from tests.support import manifests as at


def secret(manifests):
    data = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"keys": "sk-1"}}
    manifests.append(data)


def keys_in_config(manifests):
    for volume in at.pod(manifests, "gateway")["volumes"]:
        if volume["name"] == "api-keys":
            del volume["secret"]
            volume["configMap"] = {"name": "models"}


BREAKAGES = [
    (draining, "cpu", lambda m: at.container(m, "target").pop("lifecycle"), "preStop takes 0 s, a round up to 60"),
    (draining, "cpu", lambda m: at.settings(m, "gateway").update(FORERUN_TARGET_TIMEOUT_S="90"), "a round up to 90"),
    (draining, "cpu", lambda m: at.settings(m, "gateway").update(FORERUN_GRACE_S="3600"), "is killed after 690 s"),
    (draining, "cpu", lambda m: at.drop(m, "PodDisruptionBudget", "draft"), "0 PodDisruptionBudgets"),
    (
        draining,
        "cpu",
        lambda m: at.find(m, "PodDisruptionBudget", "draft")["spec"].update(selector={}),
        "2 PodDisruptionBudgets",
    ),
    (draining, "cpu", lambda m: at.find(m, "PodDisruptionBudget", "draft")["spec"].update(maxUnavailable=2), "not 2"),
    (draining, "hopper", lambda m: at.find(m, "Deployment", "target")["spec"].update(replicas=1), "may take 1 of 1"),
    (draining, "cpu", lambda m: at.pod(m, "target").pop("topologySpreadConstraints"), "not spread over"),
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
    (references, "cpu", lambda m: at.drop(m, "ServiceAccount", "draft"), "there is no ServiceAccount draft"),
    (references, "hopper", lambda m: at.drop(m, "PersistentVolumeClaim", "models"), "no PersistentVolumeClaim models"),
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
    (
        references,
        "keda",
        lambda m: at.drop(m, "Deployment", "draft"),
        "ScaledObject/draft: there is no Deployment draft",
    ),
    (references, "keda", lambda m: at.find(m, "Deployment", "draft")["spec"].update(replicas=2), "sets its replicas"),
    (paths, "cpu", lambda m: at.settings(m, "target").update(FORERUN_MODEL="/model/target"), "is on no volume"),
    (paths, "cpu", lambda m: at.settings(m, "target").update(FORERUN_CACHE="/models"), "/models cannot be written"),
    (paths, "cpu", lambda m: at.settings(m, "target").pop("HOME"), "HOME is not set"),
    (paths, "hopper", lambda m: at.init(m, "target")["args"].append("/etc/forerun/models/x.sha256"), "has no x.sha256"),
    (locks, "hopper", secret, "never kept in a repository"),
    (locks, "hopper", keys_in_config, "does not come from a Secret"),
    (locks, "hopper", lambda m: at.settings(m, "target").update(HF_TOKEN="hf_1"), "HF_TOKEN stands in a manifest"),
    (locks, "hopper", lambda m: at.settings(m, "draft").update(FORERUN_TLS_CERT=""), "draft without"),
    (locks, "hopper", lambda m: at.settings(m, "draft").pop("FORERUN_TLS_CLIENT_NAMES"), "not the gateway alone"),
    (fitting, "cpu", lambda m: at.container(m, "target")["resources"]["requests"].update(memory="1Gi"), "of memory"),
    (fitting, "cpu", lambda m: at.settings(m, "target").update(FORERUN_CACHE_TOKENS="900000"), "of memory"),
    (fitting, "cpu", lambda m: at.settings(m, "target").pop("FORERUN_CACHE_TOKENS"), "left to chance"),
    (fitting, "cpu", lambda m: at.settings(m, "target").update(FORERUN_THREADS="8"), "8 threads on 2 cores"),
    (fitting, "cpu", lambda m: at.settings(m, "target").update(FORERUN_DEVICE="cuda"), "device cuda with 0 GPUs"),
    (fitting, "hopper", lambda m: at.settings(m, "target").update(FORERUN_PRECISION="bf16"), "GB on GPUs"),
    (fitting, "hopper", lambda m: at.pod(m, "draft").pop("nodeSelector"), "may share its GPU"),
    (fitting, "cpu", lambda m: at.pod(m, "target").pop("initContainers"), "no init step fetches /models/target"),
    (fitting, "hopper", lambda m: at.init(m, "target")["args"].__setitem__(1, "some/model"), "does not know model"),
]


@pytest.mark.parametrize(("rule", "name", "breakage", "told"), BREAKAGES, ids=at.ids(BREAKAGES))
def test_a_broken_manifest_is_told(overlay, root, rule, name, breakage, told):
    at.assert_told(overlay(name), root, rule, breakage, told)
