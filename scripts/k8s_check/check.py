"""All rules over all overlays."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scripts.k8s_check import schemas
from scripts.k8s_check.manifests import Manifest
from scripts.k8s_check.rules import (
    draining,
    fitting,
    hardening,
    images,
    locks,
    metrics,
    network,
    paths,
    ports,
    probes,
    ray_fitting,
    references,
    settings,
    watching,
)

Rule = Callable[[Sequence[Manifest], Path], Iterator[str]]
RULES: tuple[Rule, ...] = (
    settings.faults,
    images.faults,
    ports.faults,
    probes.faults,
    draining.faults,
    hardening.faults,
    references.faults,
    paths.faults,
    locks.faults,
    fitting.faults,
    ray_fitting.faults,
    network.faults,
    metrics.faults,
    watching.faults,
)


def faults(manifests: Sequence[Manifest], root: Path) -> list[str]:
    """What is wrong with a rendering. Rules look only at what has the right shape."""
    misshapen = list(schemas.faults(manifests, root))
    return misshapen or [fault for rule in RULES for fault in rule(manifests, root)]
