"""A real Ray cluster on this machine, and `forerun ray up` in a process of its own on it."""

import os
import time
import urllib.request
from contextlib import contextmanager

from tests.support.ports import free_ports
from tests.support.processes import TINY, Process

START_S = 120.0
NAMESPACE = "fleet"
TINY_ARGS = " ".join(TINY[:4])
ENVIRON = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_worker_prestart": "0", "RAY_AUTH_MODE": "disabled"}


@contextmanager
def ray_cluster(num_cpus):
    """The `ray` module, connected; nothing of the cluster is left afterwards."""
    import ray

    os.environ |= ENVIRON
    ray.init(
        "local",
        num_cpus=num_cpus,
        namespace=NAMESPACE,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
        configure_logging=False,
    )
    try:
        yield ray
    finally:
        ray.shutdown()


class Up(Process):
    """`forerun ray up`; a second one with the same port may follow one that is gone."""

    def __init__(self, ray, model, *flags, port=None):
        self.port = port or free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        address = ray.get_runtime_context().gcs_address
        super().__init__(
            "forerun.cli", "ray", "up", "--address", address, "--namespace", NAMESPACE, "--model", model,
            "--registry-port", self.port, "--target-args", TINY_ARGS, *flags,
            environ=ENVIRON,
        )  # fmt: skip

    def listed(self, pool):
        """The addresses of a pool; none where nobody answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/{pool}", timeout=5) as answer:
                return answer.read().decode().split()
        except OSError:
            return []

    def until(self, there, pool="targets"):
        """The addresses, as soon as `there` holds of them."""
        deadline = time.monotonic() + START_S
        while not there(addresses := self.listed(pool)):
            self.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{pool}: {addresses}\n{self.log()[-4000:]}")
            time.sleep(0.1)
        return addresses


def actors(ray, service):
    """The actors of a service's ranks by name."""
    return {name: ray.get_actor(name) for name in ray.util.list_named_actors() if f"-{service}-" in name}
