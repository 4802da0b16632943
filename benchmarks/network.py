"""The pair over slow links beside its undelayed target alone, and beside what the cost model promises.

    python -m benchmarks.network [--rounds 6] [--tokens 128] [--delays 0 0.001 0.005 0.02 0.05] [--ahead auto]

Real services, one thread each, draft on the first core and target on the second; the coordinator and a relay on either
link run in this process beside the draft. Each prompt is answered by the pair, K left to the gateway, and by the target
alone without any relay, in turn; the figure is the median of the paired ratios with a bootstrapped 95% interval. The
model is fitted on bare rounds over undelayed links, and tokens a round on rounds of fixed K there. A delay is one way.

Goals: 0.98 with any delay on the draft's link, 0.95 with any on the target's; within 15% of the promise.
"""

import argparse
import contextlib
import statistics
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import bare_rounds, report
from benchmarks.coordinated import RULES, Loop, chat_prompts, pinned, replicas, started
from benchmarks.network_plot import draw
from benchmarks.relay import Link, listening
from forerun.cost.rounds import CostModel
from gateway.ahead import AheadMode

DELAYS_S = (0.0, 0.001, 0.005, 0.02, 0.05)
BARS = {"draft": 0.98, "target": 0.95}
AGREEMENT = 0.15
NUM_WARM = 8  # answers of a cell by which the gateway learns its pair, trials without the draft included
GREEDY = RULES["greedy"]


@dataclass(frozen=True)
class Promise:
    """The cost model of an undelayed pair; survival[i] is the chance that i + 1 drafted tokens all hold."""

    model: CostModel
    survival: Sequence[float]
    plain_tokens_per_s: float

    def at(self, link: str, delay_s: float) -> tuple[float, int]:
        """Speed over the undelayed target's, and the K that gives it. A grant hides any delay from K = 0."""
        trip = f"{link}_trip_s"
        model = replace(self.model, **{trip: getattr(self.model, trip) + 2 * delay_s})
        speeds = [1.0]
        for k in range(1, len(self.survival) + 1):
            speeds.append(model.tokens_per_s(1 + sum(self.survival[:k]), k) / self.plain_tokens_per_s)
        best = max(range(len(speeds)), key=speeds.__getitem__)
        return speeds[best], best


class Bench:
    """Running services: `alone` reaches the target directly, pairs go over `links`."""

    def __init__(self, links: dict[str, Link], direct: Any, far: Any, arguments: argparse.Namespace) -> None:
        self.links, self._far, self._arguments = links, far, arguments
        self._prompts = chat_prompts("bundled")
        self.alone = Loop(*direct, "off")

    def pair(self, mode: AheadMode) -> Loop:
        """A gateway that has learnt nothing yet."""
        return Loop(*self._far, mode)

    async def promise(self, draft: str, target: str) -> Promise:
        """What the model makes of the pair without delays."""
        model = await bare_rounds.measure(draft, target, self._prompts[0], self._arguments.bare_rounds)
        fixed, k = self.pair("off"), bare_rounds.MAX_K
        for turn in range(self._arguments.rounds):
            prompt = self._prompts[turn % len(self._prompts)]
            await fixed.run(prompt, GREEDY, turn, k, self._arguments.tokens)
            await self.alone.run(prompt, GREEDY, turn, 0, self._arguments.tokens)
        num_rounds = max(fixed.count("forerun_spec_decode_num_drafts_total"), 1)
        accepted = [fixed.count_at("forerun_spec_decode_num_accepted_tokens_per_pos_total", i) for i in range(k)]
        plain = statistics.median(self.alone.speeds)
        return Promise(model, [count / num_rounds for count in accepted], plain)

    async def cell(self, link: str, delay_s: float, promise: Promise) -> dict[str, Any]:
        """One delay on one link."""
        for name, each in self.links.items():
            each.delay_s = delay_s if name == link else 0.0
        pair, num_changed = self.pair(self._arguments.ahead), 0
        self.alone.speeds.clear()
        for turn in range(-NUM_WARM, self._arguments.rounds):
            prompt = self._prompts[turn % len(self._prompts)]
            order = (pair, self.alone) if turn % 2 else (self.alone, pair)
            answers = {}
            for loop in order:
                k = None if loop is pair else 0
                answers[loop] = await loop.run(prompt, GREEDY, turn, k, self._arguments.tokens)
            num_changed += answers[pair].ids != answers[self.alone].ids
        ratio = report.paired_median(pair.speeds[NUM_WARM:], self.alone.speeds[NUM_WARM:])
        promised, k = promise.at(link, delay_s)
        return {
            "pair_over_undelayed_target": ratio,
            "goal": BARS[link],
            "promised": round(promised, 3),
            "promised_k": k,
            "measured_over_promised": round(ratio["median"] / promised, 3),
            "tokens_per_s": pair.figures()["tokens_per_s"],
            "texts_changed": num_changed,
        }


@contextlib.asynccontextmanager
async def bench(target: str, draft: str, arguments: argparse.Namespace) -> AsyncIterator[Bench]:
    """The services, each behind a link."""
    links = {"draft": Link(draft), "target": Link(target)}
    async with contextlib.AsyncExitStack() as stack:
        near = {name: await stack.enter_async_context(listening(link)) for name, link in links.items()}
        far = await stack.enter_async_context(replicas(near["target"], near["draft"], "bundled"))
        direct = await stack.enter_async_context(replicas(target, draft, "bundled"))
        yield Bench(links, direct, far, arguments)


async def measure(target: str, draft: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Every delay on either link."""
    figures: dict[str, Any] = {}
    async with bench(target, draft, arguments) as running:
        promise = await running.promise(draft, target)
        figures["survival"] = [round(chance, 3) for chance in promise.survival]
        for link in BARS:
            for delay_s in arguments.delays:
                found = await running.cell(link, delay_s, promise)
                figures[f"{link}, {1e3 * delay_s:g} ms"] = found
                print(line(link, delay_s, found), flush=True)
    return figures


def line(link: str, delay_s: float, found: dict[str, Any]) -> str:
    """A row of the table."""
    ratio = found["pair_over_undelayed_target"]
    goal = "met" if ratio["median"] >= found["goal"] else "MISSED"
    agrees = "agrees" if abs(found["measured_over_promised"] - 1) <= AGREEMENT else "DISAGREES"
    return (
        f"{link:>6} {1e3 * delay_s:5g} ms: {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}] of the "
        f"undelayed target (goal {found['goal']}: {goal}); promised {found['promised']:.3f} at K = "
        f"{found['promised_k']} ({agrees}); texts changed: {found['texts_changed']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="prompts of each cell")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--delays", nargs="+", type=float, default=DELAYS_S, help="seconds, one way")
    parser.add_argument("--ahead", choices=("auto", "on", "off"), default="off", help="the model is that of off")
    parser.add_argument("--bare-rounds", type=int, default=20, help="of each K, that the model is fitted on")
    parser.add_argument("--save", default="network", help="name of the results; empty saves and draws nothing")
    arguments = parser.parse_args()
    with started("draft_service", 0) as draft, started("target_service", 1) as target, pinned(0):
        figures = uvloop.run(measure(target, draft, arguments))
    if arguments.save:
        report.save(arguments.save, figures)
        draw(report.RESULTS / f"{arguments.save}.json", Path("docs") / f"{arguments.save}.svg")


if __name__ == "__main__":
    main()
