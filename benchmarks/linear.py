"""bf16, int8 and int4: single products by rows, whole compiled steps, and what it does to the model's answers.

Runs that are compared take turns; ratios are of paired runs. Least times are what the machine can do when it is quiet.
`python -m benchmarks.linear [threads]`
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoTokenizer

from benchmarks import report
from forerun.bench.prompts import PROMPTS
from forerun.engine import aot, attention, compiled, torch_setup
from forerun.engine.block_pool import BlockPool
from forerun.engine.compiled import PACKAGE, Recipe
from forerun.engine.cores import num_cores
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.quant import bf16, int4, int8, native_linear
from forerun.engine.runner import Runner
from forerun.engine.scheduler import Slice
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from forerun.models.resolve import resolve

WIDTH, INNER, NUM_PAIRS = 576, 1536, 12  # products of the bundled model's shape, more weights than a cache holds
ROWS = (2, 5, 9, 16, 64, 512)
VERIFIED = (1, 5, 9)
CONTEXT = 200
ROUNDS = 60
ANSWER = 96
NUM_BLOCKS, BLOCK_SIZE = 256, 16
KINDS: dict[str, Callable[[nn.Linear], nn.Module]] = {
    "inductor bf16": lambda linear: linear,
    "our bf16": bf16.native,
    "inductor int8": int8.plain,
    "our int8": int8.native,
    "our int4": int4.native,
}


class Products(nn.Module):
    """Products one after the other, widening and narrowing."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        shapes = NUM_PAIRS * [(WIDTH, INNER), (INNER, WIDTH)]
        linears = (nn.Linear(*shape, bias=False, dtype=torch.bfloat16).requires_grad_(False) for shape in shapes)
        self.layers = nn.ModuleList(KINDS[kind](linear) for linear in linears)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            rows = layer(rows)
        return rows


class Engine:
    """The engine's own parts without its thread, over a compiled model."""

    def __init__(self, folder: Path, precision: str, threads: int) -> None:
        loaded = compiled.load(Recipe(folder, precision, threads))
        cpu = torch.device("cpu")
        cache = KvCache(KvShape.of(loaded.config, loaded.dtype), NUM_BLOCKS, BLOCK_SIZE, cpu)
        self._runner = Runner(loaded, cache, attention.create("paged_native"), cpu)
        self._table = SequenceTable(BlockPool(NUM_BLOCKS, BLOCK_SIZE), "model")
        self._sequence = Sequence([])

    def rows(self, ids: list[int], num_rows: int) -> np.ndarray:
        """Logits `[num_rows, V] float32` after the last num_rows of the ids."""
        self._table.commit(self._sequence, 0, ids)
        self._table.truncate(self._sequence, len(ids))
        self._table.demand(self._sequence, num_rows)
        self._table.reserve(self._sequence, self._sequence.goal)
        logits = self._runner.run([Slice(self._sequence, self._sequence.num_due)])
        self._sequence.num_computed = self._sequence.goal
        return logits


def interleaved(runs: dict[Any, Callable[[], object]], num_rounds: int) -> dict[Any, list[float]]:
    """Seconds of every run, once a round, after two rounds that do not count."""
    times: dict[Any, list[float]] = {name: [] for name in runs}
    for _ in range(num_rounds + 2):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: values[2:] for name, values in times.items()}


def packaged(kind: str, folder: Path) -> Callable[[torch.Tensor], torch.Tensor]:
    """The products as the engine compiles them."""
    path = folder / kind.replace(" ", "-") / PACKAGE
    path.parent.mkdir()
    free = torch.export.Dim("rows", min=2, max=1 << 20)
    with torch.no_grad():
        example = torch.zeros(5, WIDTH, dtype=torch.bfloat16)
        aot.package(torch.export.export(Products(kind), (example,), dynamic_shapes=({0: free},)), path)
    loaded: Callable[[torch.Tensor], torch.Tensor] = torch._inductor.aoti_load_package(str(path))
    return loaded


def products() -> dict[str, Any]:
    num_weights = 2 * NUM_PAIRS * WIDTH * INNER
    figures: dict[str, Any] = {"weights": num_weights}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        calls = {kind: packaged(kind, Path(folder)) for kind in KINDS}
        inputs = {rows: torch.randn(rows, WIDTH, dtype=torch.bfloat16) for rows in ROWS}
        runs = {
            (kind, rows): lambda call=call, rows=rows: call(inputs[rows])
            for rows in ROWS
            for kind, call in calls.items()
        }
        times = interleaved(runs, ROUNDS)
    figures["least ms"] = {kind: {rows: _ms(min(times[kind, rows])) for rows in ROWS} for kind in KINDS}
    for kind in ("inductor bf16", "our bf16", "inductor int8", "our int4"):
        ratios = {rows: report.paired_ratio(times[kind, rows], times["our int8", rows]) for rows in ROWS}
        figures[f"{kind} / our int8"] = ratios
    return figures


def steps(engines: dict[str, Engine]) -> dict[str, Any]:
    ids = np.random.default_rng(0).integers(5, 40_000, CONTEXT).tolist()
    for engine in engines.values():
        engine.rows(ids, 1)
    runs = {
        (precision, rows): lambda engine=engine, rows=rows: engine.rows(ids, rows)
        for rows in VERIFIED
        for precision, engine in engines.items()
    }
    times = interleaved(runs, ROUNDS)
    return {
        "ms": {f"{precision}, {rows} rows": _ms(statistics.median(v)) for (precision, rows), v in times.items()},
        "least ms": {f"{precision}, {rows} rows": _ms(min(v)) for (precision, rows), v in times.items()},
        **{
            f"{one} / {other}": {rows: report.paired_ratio(times[one, rows], times[other, rows]) for rows in VERIFIED}
            for one, other in (("bf16", "int8"), ("int8", "int4"))
        },
        **{
            f"{name}, to 1 row": {rows: report.paired_ratio(times[name, rows], times[name, 1]) for rows in VERIFIED[1:]}
            for name in ("int8", "int4")
        },
    }


def quality(engines: dict[str, Engine], folder: Path) -> dict[str, Any]:
    """Along bf16's own greedy answers: how often the others would go on alike, and how surprised each is."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    alike = {precision: list[bool]() for precision in engines}
    surprise = {precision: list[float]() for precision in engines}
    for prompt in PROMPTS:
        chat = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        prompt_len = len(ids)
        while len(ids) < prompt_len + ANSWER and ids[-1] != tokenizer.eos_token_id:
            ids = [*ids, int(engines["bf16"].rows(ids, 1)[0].argmax())]
        answer = np.array(ids[prompt_len:])
        logits = {name: engine.rows(ids, len(answer) + 1)[:-1] for name, engine in engines.items()}
        for precision, rows in logits.items():
            alike[precision] += (rows.argmax(1) == logits["bf16"].argmax(1)).tolist()
            laws = torch.from_numpy(rows).double().log_softmax(1)
            surprise[precision] += (-laws[torch.arange(len(answer)), answer]).tolist()
    perplexity = {name: round(float(np.exp(np.mean(values))), 4) for name, values in surprise.items()}
    same = {precision: round(float(np.mean(values)), 4) for precision, values in alike.items()}
    return {"tokens": len(alike["bf16"]), "same greedy token": same, "perplexity": perplexity}


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else num_cores()
    torch_setup.prepare(threads)
    native_linear.register()
    folder = resolve("bundled")
    figures: dict[str, Any] = {"threads": threads}
    engines = {precision: Engine(folder, precision, threads) for precision in ("bf16", "int8", "int4")}
    for name, measure in {
        "step": lambda: steps(engines),
        "answers": lambda: quality(engines, folder),
        "products": products,
    }.items():
        figures[name] = measure()
        print(f"{name}: {figures[name]}", flush=True)
    report.save("linear", figures)


if __name__ == "__main__":
    main()
