"""The pods of the CPU overlay behind locks, as processes: what manifests say starts, answers its probes and serves."""

import os
import urllib.request

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forerun.models import fetch
from forerun.models.cache_folder import cache_folder
from scripts.k8s_check.programs import programs
from scripts.k8s_check.promql import read
from scripts.k8s_check.render import render
from scripts.k8s_check.rules.metrics import expressions, jobs
from scripts.k8s_check.rules.probes import PROBES
from tests.support.certificates import Authority
from tests.support.ports import free_ports
from tests.support.processes import ROOT, START_S, Process

MODULES = {"target": "target_service", "draft": "draft_service", "gateway": "gateway"}
KEY = "sk-one-aaaaaaaaaaaa"
PORT_FLAGS = {
    "gateway": {"http": "--http-port", "grpc": "--grpc-port"},
    "draft": {"grpc": "--port", "metrics": "--metrics-port", "health": "--health-port"},
    "target": {"grpc": "--port", "metrics": "--metrics-port", "health": "--health-port"},
}


def render_locked(folder):
    """The CPU overlay with both components of locks, as an operator would write it."""
    k8s = os.path.relpath(ROOT / "k8s", folder)
    lines = [
        "apiVersion: kustomize.config.k8s.io/v1beta1",
        "kind: Kustomization",
        f"resources: [{k8s}/overlays/cpu]",
        f"components: [{k8s}/components/api-keys, {k8s}/components/mtls]",
    ]
    (folder / "kustomization.yaml").write_text("\n".join(lines))
    return render(folder)


class Cluster:
    """A folder a pod in place of its volumes and its image, free ports in place of the pods' own addresses."""

    def __init__(self, folder, pair):
        folder.joinpath("overlay").mkdir()
        self.manifests = render_locked(folder / "overlay")
        self.programs = programs(self.manifests, ROOT)
        self.containers = {program.name: program.container for program in self.programs if program.serves}
        self.folder, self.ca = folder, Authority(folder)
        self.ports = {name: dict(zip(PORT_FLAGS[name], free_ports(3), strict=False)) for name in MODULES}
        self.processes = {}
        for name in MODULES:
            self._prepare(name, pair)
        self.processes = {name: self._start(name) for name in MODULES}
        for process in self.processes.values():
            process.until_logged('"serving"')

    def place(self, name, text):
        """Where a path of a pod lies here; anything else stays."""
        return str(self.folder / name) + text if text.startswith("/") else text

    def _prepare(self, name, pair):
        """The image's models, the Secrets, then the init steps as they are written."""
        image, secrets = self.folder / name / "opt/models", self.folder / name / "etc/forerun"
        image.mkdir(parents=True)
        for model, source in (("SmolLM2-135M-Instruct", pair.target), ("draft-smollm2-135m", pair.draft)):
            (image / model).symlink_to(source)
            config = fetch.FetchConfig(model=str(source), into=str(self.folder / name / "once" / model))
            (image / f"{model}.sha256").write_text(fetch.write_list(fetch.fetch(config, None)))
        (secrets / "api-keys").mkdir(parents=True)
        (secrets / "api-keys/keys").write_text(KEY + "\n")
        (secrets / "tls").mkdir()
        files = self.ca.files(name)
        for source, file in ((files.cert, "tls.crt"), (files.key, "tls.key"), (files.ca, "ca.crt")):
            (secrets / "tls" / file).symlink_to(source)
        for program in self.programs:
            if program.pod.component == name and program.name == "fetch":
                assert fetch.main([self.place(name, word) for word in program.argv]) == 0

    def _start(self, name):
        program = next(program for program in self.programs if program.name == name)
        environ = {key: self.place(name, value) for key, value in program.environ.items()}
        del environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
        environ["FORERUN_CACHE"] = str(cache_folder("native").parent)  # what was compiled here before is not again
        flags = [word for face, port in self.ports[name].items() for word in (PORT_FLAGS[name][face], port)]
        if name == "gateway":
            for peer in ("target", "draft"):
                flags += [f"--{peer}", f"dns:///localhost:{self.ports[peer]['grpc']}", f"--{peer}-tls-name", peer]
        return Process(MODULES[name], *flags, environ=environ)

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, tiny_pair):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), tiny_pair)
    yield cluster
    cluster.close()


def probed(cluster, name, probe):
    """What kubelet would hear."""
    numbers = {port["containerPort"]: port["name"] for port in cluster.containers[name]["ports"]}
    if "httpGet" in probe:
        port = cluster.ports[name][probe["httpGet"]["port"]]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{probe['httpGet']['path']}", timeout=START_S) as answer:
            return answer.status == 200
    port = cluster.ports[name][numbers[probe["grpc"]["port"]]]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        asked = health_pb2.HealthCheckRequest(service=probe["grpc"]["service"])
        return health_pb2_grpc.HealthStub(channel).Check(asked, timeout=START_S).status == 1


@pytest.mark.parametrize("name", MODULES)
def test_every_probe_is_answered(cluster, name):
    for kind in PROBES:
        assert probed(cluster, name, cluster.containers[name][kind]), kind


def test_clients_with_a_key_are_served_by_all_three(cluster):
    url = f"http://127.0.0.1:{cluster.ports['gateway']['http']}/v1/completions"
    body = {"model": "SmolLM2-135M-Instruct", "prompt": [1, 5, 9, 30], "max_tokens": 12, "ignore_eos": True}
    body["speculative"] = {"num_draft_tokens": 3}
    assert httpx.post(url, json=body, timeout=60).status_code == 401
    answer = httpx.post(url, json=body, timeout=60, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 12


def test_every_series_that_is_asked_for_is_in_a_scrape(cluster):
    faces = {"gateway": "http", "draft": "metrics", "target": "metrics"}
    scraped = {name: scrape(cluster.ports[name][face]) for name, face in faces.items()}
    asked = {
        (job, selector.name)
        for _, expression in expressions(cluster.manifests)
        for selector in read(expression).selectors
        for job in jobs(selector)
        if job in scraped and selector.name != "up"
    }
    assert len(asked) > 20
    assert {(job, series) for job, series in asked if family(series) not in scraped[job]} == set()


def scrape(port):
    """The families that a process exposes."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=START_S) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split()[2] for line in lines if line.startswith("# TYPE")}


def family(series):
    for suffix in ("_bucket", "_sum", "_count"):
        series = series.removesuffix(suffix)
    return series


@pytest.mark.parametrize("name", ["gateway", "draft", "target"])
def test_sigterm_ends_each_in_order(cluster, name):
    """Last, since it ends them."""
    assert cluster.processes[name].terminate() == 0
