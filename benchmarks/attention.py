"""What a layer's attention costs in paged_cpu and in paged_native, in the shapes of SmolLM2-135M.

Both take turns step by step, each over the caches of all layers, which no core's own cache holds; ratios are of paired
steps. `OMP_WAIT_POLICY=PASSIVE python -m benchmarks.attention [threads]` runs as the services do.
"""

import os
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks import report
from forerun.engine import attention
from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment
from forerun.engine.cores import num_cores

NUM_HEADS, KV_HEADS, HEAD_DIM, BLOCK_SIZE = 9, 3, 64, 16
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
OPTIONS = AttentionOptions(HEAD_DIM**-0.5)
BACKENDS = ("paged_cpu", "paged_native")

Shapes = list[tuple[int, int]]
"""(query_len, context_len) of each sequence."""

ONE: dict[str, Shapes] = {f"{q} rows, context {c}": [(q, c)] for c in (200, 1000, 4000) for q in (1, 5, 9)}
MANY: dict[str, Shapes] = {f"16 sequences, {q} rows each": [(q, c) for c in range(60, 252, 12)] for q in (1, 5)}
PREFILL: dict[str, Shapes] = {f"prefill 512, context {c}": [(512, c)] for c in (512, 4000)}


class Layers:
    """Queries and the caches of a model's layers, one set of blocks for all backends."""

    def __init__(self, shapes: Shapes, dtype: torch.dtype, num_layers: int) -> None:
        self.segments: list[Segment] = []
        num_rows = num_blocks = 0
        for query_len, context_len in shapes:
            table = range(num_blocks, num_blocks + -(-context_len // BLOCK_SIZE))
            self.segments.append(Segment(num_rows, query_len, context_len, table))
            num_rows, num_blocks = num_rows + query_len, num_blocks + len(table)
        size = (2, num_blocks, BLOCK_SIZE, KV_HEADS, HEAD_DIM)
        self.caches = [LayerCache(*torch.randn(size).to(dtype)) for _ in range(num_layers)]
        self.query = torch.randn(num_rows, NUM_HEADS, HEAD_DIM).to(dtype)

    def step(self, backend: attention.AttentionBackend) -> float:
        """Microseconds a layer, the plan shared out among all."""
        start = time.perf_counter()
        plan = backend.plan(self.segments, BLOCK_SIZE, torch.device("cpu"))
        for cache in self.caches:
            backend.attend(self.query, cache, plan, OPTIONS)
        return 1e6 * (time.perf_counter() - start) / len(self.caches)


def measure(dtype: torch.dtype) -> Iterator[tuple[str, Any]]:
    """Case by case: microseconds a layer, and how many times the reference's time is ours."""
    for cases, num_layers, num_rounds in ((ONE, 30, 40), (MANY, 30, 20), (PREFILL, 4, 9)):
        for name, shapes in cases.items():
            layers = Layers(shapes, dtype, num_layers)
            engines = {backend: attention.create(backend) for backend in BACKENDS}
            times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
            for _ in range(num_rounds + 2):
                for backend, engine in engines.items():
                    times[backend].append(layers.step(engine))
            counted = {backend: values[2:] for backend, values in times.items()}
            yield (
                name,
                {
                    "us a layer": {backend: round(statistics.median(values), 1) for backend, values in counted.items()},
                    "paged_cpu / paged_native": report.paired_ratio(*counted.values()),
                },
            )


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else num_cores()
    torch.set_num_threads(threads)
    figures: dict[str, Any] = {
        "threads": threads,
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", ""),
        "load average before": round(os.getloadavg()[0], 1),
    }
    for precision, dtype in DTYPES.items():
        figures[precision] = {}
        for name, figure in measure(dtype):
            print(f"{precision}, {name}: {figure}", flush=True)
            figures[precision][name] = figure
    report.save("attention", figures)


if __name__ == "__main__":
    main()
