"""Each alert is explained, the dashboard shows what operators ask for, the collector's pipeline is whole."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from scripts.k8s_check.manifests import Manifest, named, of_kind, pods, title
from scripts.k8s_check.promql import PromqlError, read
from scripts.k8s_check.rules.metrics import alerts, expressions, panels

SHOWN = {
    "acceptance by position": "forerun_spec_decode_num_accepted_tokens_per_pos_total",
    "rounds": "forerun_round_duration_seconds_count",
    "TTFT": "forerun_time_to_first_token_seconds_bucket",
    "TPOT": "forerun_time_per_output_token_seconds_bucket",
    "K": "forerun_num_draft_tokens_sum",
    "queue": "forerun_num_requests_waiting",
    "KV use": "forerun_kv_cache_usage_perc",
}


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Alerts without a word of explanation, panels that are missing or overlap, a collector that drops spans."""
    yield from _alerts(manifests, root)
    yield from _shown(manifests)
    yield from _layout(manifests)
    yield from _collector(manifests)


def _alerts(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    operations = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^### (\w+)$", operations, re.MULTILINE))
    told = [alert for rule in of_kind(manifests, "PrometheusRule") for alert in alerts(rule)]
    for alert in told:
        name = alert.get("alert", "")
        if name not in explained:
            yield f"alert {name}: docs/operations.md does not say what it means"
        if alert.get("labels", {}).get("severity") not in ("critical", "warning"):
            yield f"alert {name}: severity is critical or warning"
        if not alert.get("annotations", {}).get("summary"):
            yield f"alert {name}: has no summary"
    files = (path.read_text(encoding="utf-8") for path in (root / "k8s").rglob("alerts*.yaml"))
    alarming = {name for text in files for name in re.findall(r"- alert: (\w+)", text)}
    for name in sorted(word for word in explained - alarming if word.startswith("Forerun")):
        yield f"docs/operations.md explains {name}, which is no alert"


def _shown(manifests: Sequence[Manifest]) -> Iterator[str]:
    read_by_panels = set()
    for where, expression in expressions(manifests):
        if where.startswith("panel"):
            try:
                read_by_panels |= {selector.name for selector in read(expression).selectors}
            except PromqlError:
                continue  # the rule of metrics tells
    for what, series in SHOWN.items():
        if series not in read_by_panels:
            yield f"no panel shows {what}: {series}"


def _layout(manifests: Sequence[Manifest]) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    ids: dict[int, str] = {}
    for panel in panels(manifests):
        name, place = panel["title"], panel["gridPos"]
        if other := ids.get(panel["id"]):
            yield f"panels {other!r} and {name!r} share an id"
        ids[panel["id"]] = name
        cells = [(x, y) for x in _span(place, "x", "w") for y in _span(place, "y", "h")]
        for other in sorted({taken[cell] for cell in cells if cell in taken}):
            yield f"panels {other!r} and {name!r} overlap"
        taken.update((cell, name) for cell in cells)


def _span(place: Manifest, start: str, length: str) -> range:
    return range(place[start], place[start] + place[length])


def _collector(manifests: Sequence[Manifest]) -> Iterator[str]:
    for pod in pods(manifests):
        if pod.component != "collector":
            continue
        volumes = {volume["configMap"]["name"] for volume in pod.spec.get("volumes") or [] if "configMap" in volume}
        for name in sorted(volumes):
            config = named(manifests, "ConfigMap", name) or {"data": {}}
            for text in config["data"].values():
                yield from (f"{title(config)}: {fault}" for fault in _pipelines(yaml.safe_load(text), pod.ports()))


def _pipelines(config: dict[str, Any], ports: dict[str, int]) -> Iterator[str]:
    for name, pipeline in config["service"]["pipelines"].items():
        for kind in ("receivers", "processors", "exporters"):
            for part in pipeline.get(kind) or []:
                if part not in (config.get(kind) or {}):
                    yield f"pipeline {name} names {part}, which {kind} do not define"
    for part in config["service"].get("extensions") or []:
        if part not in config.get("extensions", {}):
            yield f"service names {part}, which extensions do not define"
    reader = config["service"]["telemetry"]["metrics"]["readers"][0]["pull"]["exporter"]["prometheus"]
    listening = {
        "otlp": config["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"],
        "health": config["extensions"]["health_check"]["endpoint"],
        "metrics": f"{reader['host']}:{reader['port']}",
    }
    for name, address in listening.items():
        if address != f"0.0.0.0:{ports.get(name)}":
            yield f"{name} listens on {address}, its container declares {ports.get(name)}"
