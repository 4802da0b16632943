"""The most replicas that a fleet may have find room on the workers, and each model on its replica's GPUs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from forerun.cluster.plan import PoolPlan
from scripts.k8s_check import code
from scripts.k8s_check.manifests import Manifest, Pod, of_kind, pods, title
from scripts.k8s_check.programs import fleets
from scripts.k8s_check.quantity import amount
from scripts.k8s_check.rules.fitting import GPU, lack_of_room, model_facts, models_fetched
from scripts.k8s_check.rules.ray_edges import WORKER


def faults(manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    """Replicas that would wait for ever, or run out of memory."""
    nodes = [pod for pod in pods(manifests) if pod.on_ray and pod.component == WORKER]
    plans = [plan for _, plan in fleets(manifests, root)]
    for name, rays_name in (("cpu", "CPU"), (GPU, "GPU")):
        wanted = sum(plan.most * plan.num_ranks * plan.bundle.get(rays_name, 0) for plan in plans)
        there = sum(node.replicas * _limit(node, name) for node in nodes)
        if wanted > there:
            yield f"fleet: its most replicas take {wanted:g} {name}, the workers have {there:g}"
    yield from _growth(manifests)
    for plan in plans:
        yield from (f"fleet: {plan.name}s: {fault}" for fault in _model(plan, nodes, manifests, root))


def _growth(manifests: Sequence[Manifest]) -> Iterator[str]:
    for cluster in of_kind(manifests, "RayCluster"):
        for group in cluster["spec"].get("workerGroupSpecs") or []:
            there, most = group.get("replicas", 1), group.get("maxReplicas", 1)
            if most > there and not cluster["spec"].get("enableInTreeAutoscaling"):
                yield f"{title(cluster)}/{group['groupName']}: nobody adds workers to the {there}, up to {most}"


def _model(plan: PoolPlan, nodes: Sequence[Pod], manifests: Sequence[Manifest], root: Path) -> Iterator[str]:
    config = code.settings(plan.name, plan.module_args[1:], {})
    fetched, known = models_fetched(manifests, root), model_facts(root)
    for node in nodes:
        source = fetched.get((node.where, config.model))
        if source is None:
            yield f"no init step of {node.where} fetches {config.model}"
        elif plan.gpus:
            yield from lack_of_room(config, known[Path(source).name], plan.gpus * plan.num_ranks)


def _limit(node: Pod, name: str) -> float:
    return sum(amount(found["resources"]["limits"].get(name, "0")) for found in node.containers)
