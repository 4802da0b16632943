"""Every series in an alert, a panel or an autoscaler is one that the named job exposes, with labels that it has."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, of_kind, title
from scripts.k8s_check.promql import PromqlError, Query, Selector, read

JOBS = (*code.SERVICES, "collector")
SCRAPED = frozenset({"job", "namespace", "pod", "instance", "container"})  # what Prometheus adds
ANY_JOB = frozenset({"up"})
VARIABLES = {"$namespace": "forerun", "$__rate_interval": "5m"}
DASHBOARD = "grafana_dashboard"


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Expressions that Prometheus would refuse, or that would be empty for ever."""
    for where, expression in expressions(manifests):
        try:
            query = read(expression)
        except PromqlError as error:
            yield f"{where}: {error}"
            continue
        yield from (f"{where}: {fault}" for fault in _query(query, root))


def expressions(manifests: Sequence[Manifest]) -> Iterator[tuple[str, str]]:
    """(where, PromQL) of everything that asks Prometheus."""
    for rule in of_kind(manifests, "PrometheusRule"):
        for alert in alerts(rule):
            yield f"{title(rule)}: {alert.get('alert')}", alert["expr"]
    for scaled in of_kind(manifests, "ScaledObject"):
        for trigger in scaled["spec"]["triggers"]:
            yield f"{title(scaled)}: {trigger.get('name')}", trigger["metadata"]["query"]
    for panel in panels(manifests):
        for target in panel.get("targets") or []:
            yield f"panel {panel['title']!r}", _filled(target["expr"])


def alerts(rule: Manifest) -> list[Manifest]:
    """The rules of a PrometheusRule."""
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def panels(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """Every panel of every dashboard."""
    for config in of_kind(manifests, "ConfigMap"):
        if DASHBOARD in (config["metadata"].get("labels") or {}):
            for text in config["data"].values():
                yield from json.loads(text)["panels"]


def _filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def _query(query: Query, root: Path) -> Iterator[str]:
    known = set(SCRAPED)
    for selector in query.selectors:
        found = jobs(selector)
        if not found:
            yield f"{selector.name} does not say of which job, one of {', '.join(JOBS)}"
        for job in found:
            metric = None if job == "collector" else code.metrics(job).get(selector.name)
            if metric is None and selector.name not in ANY_JOB:
                yield f"{job} has no {selector.name}"
                continue
            labels = SCRAPED | (metric.labels if metric else frozenset())
            known |= labels
            for label in sorted({label for label, _, _ in selector.matchers} - labels):
                yield f"{selector.name} has no label {label}"
            for label, value in _unknown_values(selector, root):
                yield f"no {label} is ever {value!r}"
    for label in sorted(query.labels - known):
        yield f"nothing that is read has the label {label}"


def _unknown_values(selector: Selector, root: Path) -> Iterator[tuple[str, str]]:
    """Values of our own labels that no code writes; several stand in a regex between bars."""
    known = code.source_strings(root) | code.error_names()
    for label, _, values in selector.matchers:
        if label not in SCRAPED | {"le"}:
            yield from ((label, value) for value in values.split("|") if value and value not in known)


def jobs(selector: Selector) -> list[str]:
    """The jobs that a selector's matchers let through; none where it does not name them."""
    wanted = [(operator, value) for label, operator, value in selector.matchers if label == "job"]
    if not wanted:
        return []
    return [job for job in JOBS if all(_matches(operator, value, job) for operator, value in wanted)]


def _matches(operator: str, value: str, job: str) -> bool:
    if operator in ("Equal", "NotEqual"):
        return (value == job) == (operator == "Equal")
    return bool(re.fullmatch(value, job)) == (operator == "Re")
