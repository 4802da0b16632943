"""Drafting ahead of the verdict against the synchronous loop: the bundled pair, each model on a core of its own.

    python -m benchmarks.ahead [--rounds 5] [--tokens 128] [--k 4]

Real services, one thread each, draft on the first core and target on the second; the coordinator, and a relay that
delays the draft's link, run in this process beside the draft. Every prompt is answered with and without drafting ahead
in turn; speed is that of all tokens after the first. A hit is a proposal that needed no asking.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import uvloop

from benchmarks import report
from benchmarks.coordinated import RULES, Loop, chat_prompts, pinned, replicas, started
from benchmarks.relay import relay
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.types import SamplingParams, Verification
from gateway.ahead import AheadMode
from gateway.replicas import Replicas

DELAYS_S = (0.0, 0.002, 0.005)  # one way
MODES: tuple[AheadMode, ...] = ("off", "on")


async def cell(
    targets: Replicas[TargetClient], drafts: Replicas[DraftClient], prompts: Sequence[tuple[int, ...]],
    params: SamplingParams, arguments: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    """Both loops on the same prompts in turn."""
    loops = {mode: Loop(targets, drafts, mode) for mode in MODES}
    num_changed = 0
    for turn in range(arguments.rounds):
        prompt = prompts[turn % len(prompts)]
        answers = [await loops[m].run(prompt, params, turn, arguments.k, arguments.tokens) for m in MODES]
        num_changed += params.verification is Verification.MATCH and answers[0].ids != answers[1].ids
    return {
        "ahead_over_synchronous": report.paired_ratio(loops["on"].speeds, loops["off"].speeds),
        "synchronous": loops["off"].figures(),
        "ahead": loops["on"].figures(),
        "texts_changed": num_changed,
    }


async def measure(target: str, draft: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Every rule over every delay."""
    prompts = chat_prompts("bundled")
    figures: dict[str, Any] = {"k": arguments.k or "auto"}
    for delay_s in arguments.delays:
        async with relay(draft, delay_s) as far, replicas(target, far, "bundled") as (targets, drafts):
            for rule in arguments.rules:
                found = await cell(targets, drafts, prompts, RULES[rule], arguments)
                figures[f"{rule}, {1e3 * delay_s:g} ms"] = found
                print(f"{rule}, {1e3 * delay_s:g} ms: {found}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="prompts of each cell")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--k", type=int, default=None, help="fixed K; the gateway chooses where it is not given")
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--delays", nargs="+", type=float, default=DELAYS_S, help="seconds, one way")
    parser.add_argument("--save", default="ahead", help="name of the results; empty saves none")
    arguments = parser.parse_args()
    with started("draft_service", 0) as draft, started("target_service", 1) as target, pinned(0):
        figures = uvloop.run(measure(target, draft, arguments))
    if arguments.save:
        report.save(arguments.save, figures)


if __name__ == "__main__":
    main()
