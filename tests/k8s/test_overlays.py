"""Every overlay is right, and has what an operator expects of it."""

import shutil

import pytest

from scripts.k8s_check import __main__ as command
from scripts.k8s_check.check import RULES, faults
from scripts.k8s_check.manifests import of_kind, pods
from scripts.k8s_check.programs import services
from scripts.k8s_check.render import RenderError, overlays, render
from tests.k8s import test_edges, test_pods, test_ray, test_start, test_watching
from tests.k8s.conftest import ROOT
from tests.support.documents import blocks, read

NAMES = [folder.name for folder in overlays(ROOT)]


def test_there_are_the_overlays_that_the_documents_name():
    assert {"cpu", "hopper", "keda", "ray"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_overlay_has_no_fault(rendered, root, name):
    assert faults(rendered(name), root) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_has_something_to_look_at(rendered, root, name):
    manifests = rendered(name)
    models = {"ray-head", "ray-worker"} if name == "ray" else {"draft", "target"}
    assert {pod.component for pod in pods(manifests)} == {"gateway", "collector", *models}
    assert {program.name for program, _ in services(manifests, root)} >= {"gateway"}
    for kind in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "Service"):
        assert of_kind(manifests, kind), kind


def test_the_command_tells_of_faults_and_fails(tmp_path, capsys):
    (tmp_path / "k8s" / "overlays" / "cpu").mkdir(parents=True)
    (tmp_path / "k8s" / "overlays" / "cpu" / "kustomization.yaml").write_text("resources: [absent.yaml]\n")
    assert command.main(tmp_path) == 1
    assert "absent.yaml" in capsys.readouterr().out


def test_kubectl_refuses_an_unknown_field_of_a_kustomization(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resource: []\n")
    with pytest.raises(RenderError, match="resource"):
        render(tmp_path)


@pytest.mark.parametrize("name", ["cpu", "ray"])
def test_the_overlay_that_the_document_shows_brings_every_image_from_the_operators_registry(tmp_path, name):
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    mine = tmp_path / "k8s" / "overlays" / "mine"
    mine.mkdir()
    (shown,) = blocks(read("operations.md"), "yaml")
    (mine / "kustomization.yaml").write_text(shown.replace("../cpu", f"../{name}"))
    containers = [each for pod in pods(render(mine)) for each in (*pod.containers, *pod.init_containers)]
    ours = {each["image"] for each in containers if "forerun/" in each["image"]}
    assert ours
    assert all(image.startswith("REGISTRY/forerun/") for image in ours)


def test_every_rule_has_a_negative_control():
    files = (test_edges, test_pods, test_ray, test_start, test_watching)
    controls = [control for file in files for control in file.BREAKAGES]
    assert {rule.faults for rule, *_ in controls} == set(RULES)
