"""The cost model's prediction beside the measurement, for the bundled pair.

    python -m benchmarks.model [--rounds 6] [--tokens 128]

Draft and target on a core of their own each. The model is fitted on bare rounds (benchmarks/bare_rounds.py); the loop's
own rounds say how many tokens a round gave and how many proposals were there ahead of the verdict. Goal: within 10 %.
"""

import argparse
import statistics
from typing import Any

import uvloop

from benchmarks import bare_rounds, report
from benchmarks.coordinated import RULES, Loop, chat_prompts, pinned, replicas, started
from forerun.cost.rounds import CostModel

KS = (1, 2, 4, 8)


async def measure(target: str, draft: str, num_rounds: int, num_tokens: int) -> dict[str, Any]:
    """Every K without drafting ahead, and with it."""
    prompts = chat_prompts("bundled")
    model = await bare_rounds.measure(draft, target, prompts[0])
    print(model, flush=True)
    figures: dict[str, Any] = {}
    async with replicas(target, draft, "bundled") as (targets, drafts):
        loops = {(k, mode): Loop(targets, drafts, mode) for k in KS for mode in ("off", "on")}
        alone = Loop(targets, drafts, "off")
        for turn in range(-1, num_rounds):
            prompt = prompts[turn % len(prompts)]
            await alone.run(prompt, RULES["greedy"], 0, 0, num_tokens)
            for (k, _), loop in loops.items():
                await loop.run(prompt, RULES["greedy"], 0, k, num_tokens)
            if turn < 0:
                for each in (alone, *loops.values()):
                    each.speeds.clear()
    figures["K = 0"] = row(model, statistics.median(alone.speeds), 1.0, 0, 0.0)
    for (k, mode), loop in loops.items():
        seen = loop.figures()
        found = row(model, seen["tokens_per_s"], 1 + seen["accepted_per_round"], k, seen["hit_rate"])
        figures[f"K = {k}, ahead {mode}"] = found
    for name, found in figures.items():
        print(f"{name}: {found}", flush=True)
    return figures


def row(model: CostModel, measured: float, tokens_a_round: float, k: int, hit_rate: float) -> dict[str, float]:
    """Prediction and measurement of one setting, tokens/s."""
    predicted = model.tokens_per_s(tokens_a_round, k, hit_rate)
    return {
        "tokens_a_round": round(tokens_a_round, 2),
        "hit_rate": hit_rate,
        "predicted": round(predicted, 1),
        "measured": round(measured, 1),
        "measured_over_predicted": round(measured / predicted, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=128)
    arguments = parser.parse_args()
    with started("draft_service", 0) as draft, started("target_service", 1) as target, pinned(0):
        figures = uvloop.run(measure(target, draft, arguments.rounds, arguments.tokens))
    report.save("model", figures)


if __name__ == "__main__":
    main()
