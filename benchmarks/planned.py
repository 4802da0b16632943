"""What `forerun plan` predicts of this machine beside what was measured: benchmarks/results/*.json.

    python -m benchmarks.planned

The constants of the devices `xeon-amx` and `epyc-eager` (forerun/planning/hardware.py) come from a few of the figures,
which are then not compared. The machine was shared: where a run's absolute speed is compared, one of its figures, the
anchor, says how much slower than quiet it was, and the others follow. Goal: within 15 %; what is not stands in OUT,
with its cause.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.report import RESULTS
from forerun.cost.pace import best_pace
from forerun.cost.rounds import CostModel, expected_tokens
from forerun.planning.formula import Formula
from forerun.planning.hardware import Device, find_device
from forerun.planning.models import find_model
from forerun.planning.shape import PRECISION_BYTES
from forerun.planning.site import Site
from forerun.planning.steps import Batch, Steps
from forerun.planning.workload import Acceptance, Workload

TOLERANCE = 0.15
OUT = {
    "engine-fp32: verify 2 rows": "one row of fp32 is another kernel (matrix times vector) than two: a jump of 1.5",
    "engine-fp32: verify 5 rows": "the same",
    "engine-fp32: verify 9 rows": "the same",
    "engine-fp32: batch 16": "the same",
    "serve: 16 streams, tokens/s": "the anchor, one stream, was measured while the machine was 14 % slower than later",
    "peers: forerun-bf16, tokens/s": "six answers of 64 tokens: trials with and without the draft are much of them",
    "ahead: coupled, 0 ms, draft's wait": "a coupled draw takes the draft longer than the largest logit of the anchor",
    "ahead: coupled, 5 ms, draft's wait": "the same",
    "ahead: coupled, 5 ms, round": "the same",
    "ahead: coupled, 5 ms, tokens/s": "the same",
}


@dataclass(frozen=True)
class Figure:
    """One of the measured figures, and its prediction."""

    name: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Of the prediction, as a share of what was measured."""
        return self.predicted / self.measured - 1


def all_figures(xeon: Device | None = None, epyc: Device | None = None) -> list[Figure]:
    """Every figure whose inputs are known; devices other than the known ones are for controls."""
    xeon, epyc = xeon or find_device("xeon-amx"), epyc or find_device("epyc-eager")
    return [
        *linear(_read("linear"), xeon),
        *(figure for precision in ("bf16", "fp32") for figure in engine(_read(f"engine-{precision}"), epyc, precision)),
        *serve(_read("serve"), xeon),
        *peers(_read("peers-own"), _read("ahead"), xeon),
        *ahead(_read("ahead")),
    ]


def linear(found: dict[str, Any], device: Device) -> Iterator[Figure]:
    """Steps in quiet moments from single products (of which 2 and 512 rows are inputs), then the medians."""
    products = found["products"]
    for ours, precision in (("bf16", "bf16"), ("our int8", "int8")):
        for rows in (5, 9, 16, 64):
            num_flops = 2.0 * products["weights"] * rows
            num_bytes = products["weights"] * PRECISION_BYTES[precision]
            seconds = device.kernel(precision).seconds(num_bytes, num_flops)
            yield Figure(f"linear: {ours}, product, {rows} rows", 1e3 * seconds, products["least ms"][ours][str(rows)])
    load = 1.0
    for quiet in ("least ms", "ms"):
        for precision in ("bf16", "int8"):
            steps = target(device, precision)
            for rows in (1, 5, 9):
                predicted = load * 1e3 * steps.seconds(Batch(1, rows, 200))
                measured = found["step"][quiet][f"{precision}, {rows} rows"]
                if quiet == "ms" and (precision, rows) == ("bf16", 1):
                    continue
                yield Figure(f"linear: {precision}, step {quiet}, {rows} rows", predicted, measured)
        load = found["step"]["ms"]["bf16, 1 rows"] / (1e3 * target(device, "bf16").seconds(Batch(1, 1, 200)))


def engine(found: dict[str, Any], device: Device, precision: str) -> Iterator[Figure]:
    """Inputs: a step of one row and chunks of 128 and 512 of both precisions, batch 16 in bf16."""
    steps, measured = target(device, precision, precision), found["step ms"]
    for rows in (2, 5, 9):
        predicted = 1e3 * steps.seconds(Batch(1, rows, 200))
        yield Figure(f"engine-{precision}: verify {rows} rows", predicted, measured[f"verify {rows} rows"])
    if precision == "fp32":
        yield Figure("engine-fp32: batch 16", 1e3 * steps.seconds(Batch(16, 1, 150)), measured["batch 16"])
    for chunk in (16, 64, 256):
        predicted = 1e3 * steps.prompt_s(chunk, 512)
        yield Figure(f"engine-{precision}: chunk of {chunk}", predicted, found["prefill chunk ms"][str(chunk)])


def serve(found: dict[str, Any], device: Device) -> Iterator[Figure]:
    """The anchor is one stream; the longest gap beside a long prompt is no mean, and is not predicted.

    Two cores serve model, gateway and client alike, so a token costs an exchange beyond its step.
    """
    steps, anchor = target(device, "bf16"), found["batch"]["one_stream_tok_s"]
    one, many = (device.trip_s + steps.seconds(batch) for batch in (Batch(1, 1, 164), Batch(16, 1, 149)))
    yield Figure("serve: 16 streams, tokens/s", anchor * 16 * one / many, found["batch"]["16_streams_tok_s"])
    yield Figure("serve: one stream, later", anchor, found["against_transformers"]["ours_tok_s"])


def peers(found: dict[str, Any], ahead_found: dict[str, Any], device: Device) -> Iterator[Figure]:
    """The anchor is bf16 alone. The draft's talent is that of ahead.json; own drafters are not in the prediction."""
    systems = found["conditions"]["batch 1, greedy"]
    alone = systems["forerun-bf16-alone"]["tokens_per_s"]["all"]
    accepted = ahead_found["greedy, 0 ms"]["synchronous"]["accepted_per_round"]
    workload = Workload(1.0, 100, 64, Acceptance((constant_acceptance(accepted, ahead_found["k"]),)), 0.0)
    quiet = {precision: speeds(device, precision, workload) for precision in ("bf16", "int8")}
    load = alone / quiet["bf16"][0]
    for name, predicted in (
        ("forerun-alone", quiet["int8"][0]),
        ("forerun-bf16", quiet["bf16"][1]),
        ("forerun", quiet["int8"][1]),
    ):
        yield Figure(f"peers: {name}, tokens/s", load * predicted, systems[name]["tokens_per_s"]["all"])


def speeds(device: Device, precision: str, workload: Workload) -> tuple[float, float]:
    """Tokens/s of one stream alone and with the bundled draft beside it, K left to the gateway."""
    steps = target(device, precision)
    draft = Steps(find_model("draft-smollm2-135m"), device, precision, "bf16")
    plain_s = device.trip_s + Formula(Site(steps, None, 0, "alone"), workload).at_load(0.0).tpot_s

    def round_s(k: int) -> float:
        tpot_s = Formula(Site(steps, draft, k, "co-located"), workload).at_load(0.0).tpot_s
        return tpot_s * workload.acceptance.num_tokens(k)

    return 1 / plain_s, max(best_pace(workload.acceptance.at, round_s, plain_s, 8).gain, 1.0) / plain_s


def ahead(found: dict[str, Any]) -> Iterator[Figure]:
    """Of the synchronous loop the first cell is the anchor; of drafting ahead each cell's synchronous loop."""
    k = found["k"]
    first = found["greedy, 0 ms"]["synchronous"]
    for cell, delay_ms in (("greedy, 0 ms", 0), ("coupled, 0 ms", 0), ("greedy, 5 ms", 5), ("coupled, 5 ms", 5)):
        synchronous, with_ahead = found[cell]["synchronous"], found[cell]["ahead"]
        if delay_ms or cell != "greedy, 0 ms":
            model = cost_model(first, k, 2 * delay_ms)
            wait_ms = first["draft_wait_ms"] + 2 * delay_ms
            yield Figure(f"ahead: {cell}, draft's wait", wait_ms, synchronous["draft_wait_ms"])
            yield from _rounds(f"ahead: {cell}", model, k, synchronous)
        model = cost_model(synchronous, k, 0)
        yield from _rounds(f"ahead: {cell}, ahead", model, k, with_ahead)
        gain = _tokens_per_s(model, k, with_ahead) / _tokens_per_s(model, k, synchronous)
        yield Figure(f"ahead: {cell}, ahead over synchronous", gain, found[cell]["ahead_over_synchronous"]["median"])


def cost_model(synchronous: dict[str, float], k: int, link_ms: float) -> CostModel:
    """A round's two parts as measured, with so much more of link."""
    verdict_s = (synchronous["round_ms"] - synchronous["draft_wait_ms"]) / 1e3
    return CostModel({k + 1: verdict_s}, synchronous["draft_wait_ms"] / 1e3 / k, link_ms / 1e3, 0.0, 0.0)


def _rounds(name: str, model: CostModel, k: int, seen: dict[str, float]) -> Iterator[Figure]:
    yield Figure(f"{name}, round", 1e3 * model.round_s(k, seen["hit_rate"]), seen["round_ms"])
    yield Figure(f"{name}, tokens/s", _tokens_per_s(model, k, seen), seen["tokens_per_s"])


def _tokens_per_s(model: CostModel, k: int, seen: dict[str, float]) -> float:
    return model.tokens_per_s(1 + seen["accepted_per_round"], k, seen["hit_rate"])


def constant_acceptance(num_accepted: float, k: int) -> float:
    """The chance of each token at which a round of k keeps so many."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, k) - 1 < num_accepted else (low, middle)
    return low


def target(device: Device, precision: str, kv_precision: str = "bf16") -> Steps:
    """The bundled target."""
    return Steps(find_model("smollm2-135m"), device, precision, kv_precision)


def table(figures: list[Figure]) -> str:
    """One line a figure."""
    lines = ["| figure | predicted | measured | error |", "|---|---|---|---|"]
    for each in figures:
        note = f" {OUT.get(each.name, 'out')}" if abs(each.error) > TOLERANCE else ""
        lines.append(f"| {each.name} | {each.predicted:.1f} | {each.measured:.1f} | {each.error:+.0%}{note} |")
    return "\n".join(lines)


def _read(name: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["figures"]
    return figures


def main() -> None:
    figures = all_figures()
    print(table(figures))
    num_within = sum(abs(each.error) <= TOLERANCE for each in figures)
    print(f"\n{num_within} of {len(figures)} within {TOLERANCE:.0%}")


if __name__ == "__main__":
    main()
