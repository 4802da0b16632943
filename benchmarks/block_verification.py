"""How many more drafted tokens block accepts than rejection, and what a verdict costs under each.

    python -m benchmarks.block_verification [--tokens 96]

At temperature 1, on random laws and on the bundled pair, uncompiled. Counted is how many tokens a rule accepts on
average given a proposal and the target's laws, so that the rules' own noise falls out; both judge the same proposals.
Half of the pair's texts go on by the verdicts of rejection, half by those of block.
"""

import argparse
import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate, product
from operator import mul
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.pair import SUPPORT, Pair, Text
from forerun.engine import torch_setup
from forerun.engine.cores import num_cores
from forerun.sampling.draw import draw_sparse, truncate
from forerun.sampling.processors import Processors
from forerun.types import Proposal, SamplingParams, Verdict, Verification
from target_service.rules import LawAt, block
from target_service.verifier import Verifier

KS = (2, 4, 8)
DISTANCES = (0.1, 0.3, 0.6, 1.0)
NUM_RANDOM, RANDOM_VOCAB = 2000, 1000
SAMPLED = SamplingParams()
RULES = (Verification.REJECTION, Verification.BLOCK)
TIMED_TOP_P = (1.0, 0.95)
PROMPTS = (
    "List three facts about the Moon.",
    "Write a short poem about rain on a tin roof.",
    "Write a Python function that reverses a linked list.",
    "Translate to French: The cat sleeps on the chair.",
    "Explain why the sky is blue.",
    "What is 17 times 23? Show the steps.",
    "Give me a recipe for pancakes.",
    "How does a bicycle stay upright?",
    "What is the difference between a virus and a bacterium?",
    "Summarise the plot of Romeo and Juliet.",
    "Give five tips for better sleep.",
    "Write a letter that asks a neighbour to turn the music down.",
)


def expected(law_at: LawAt, proposal: Proposal) -> tuple[float, float]:
    """How many tokens rejection and block accept on average, given the proposal."""
    drafted = enumerate(zip(proposal.tokens, proposal.laws, strict=True))
    chances = (min(block.ratio(law_at(i), q, token), 1.0) for i, (token, q) in drafted)
    return sum(accumulate(chances, mul)), sum(block.weigh(law_at, proposal).reach[1:])


def on_random_laws(k: int, distance: float) -> dict[str, float]:
    """The target's logits are normal; the draft's are those and `distance` times as much noise."""
    rng, processors = np.random.default_rng(k), Processors(SAMPLED, 0)
    accepted = []
    for _ in range(NUM_RANDOM):
        logits, noise = 3 * rng.normal(size=(2, k, RANDOM_VOCAB)).astype(np.float32)
        p = [processors.law(row, ()) for row in logits]
        laws = tuple(truncate(processors.law(row, ()), SUPPORT) for row in logits + distance * noise)
        tokens = tuple(draw_sparse(law, rng.random()) for law in laws)
        accepted.append(expected(p.__getitem__, Proposal(0, tokens, laws)))
    return compared(*np.mean(accepted, axis=0))


class Judge:
    """Judges rounds by both rules: `accepted` has both averages of each round, `verdict_s` CPU times."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self.accepted: dict[tuple[int, Verification], list[tuple[float, float]]] = defaultdict(list)
        self.verdict_s: dict[tuple[float, Verification], list[float]] = defaultdict(list)

    def verdict(self, text: Text, follows: Verification, proposal: Proposal, logits: np.ndarray) -> Verdict:
        """The verdict by which the text goes on."""
        processors = Processors(SAMPLED, text.num_prompt_tokens)
        law_at = functools.cache(lambda i: processors.law(logits[i, : self._vocab_size], text.ids))
        seen = self.accepted[text.seed, follows]
        seen.append(expected(law_at, proposal))
        for top_p in TIMED_TOP_P:
            for rule in RULES[:: 1 if len(seen) % 2 else -1]:
                self._timed(text, SamplingParams(top_p=top_p, verification=rule), proposal, logits)
        return self._timed(text, SamplingParams(verification=follows), proposal, logits)

    def _timed(self, text: Text, params: SamplingParams, proposal: Proposal, logits: np.ndarray) -> Verdict:
        verifier = Verifier(params, text.num_prompt_tokens, text.seed, 0, self._vocab_size)
        verifier.usable(proposal)
        started_s = time.thread_time()
        verdict = verifier.verify(text.ids, proposal, logits)
        self.verdict_s[params.top_p, params.verification].append(time.thread_time() - started_s)
        return verdict


def on_the_pair(pair: Pair, k: int, num_tokens: int) -> Iterator[tuple[str, Any]]:
    """Writes every prompt's answer twice, by either rule, up to num_tokens or its end."""
    running = {(seed, rule): pair.text(prompt, seed) for rule in RULES for seed, prompt in enumerate(PROMPTS)}
    judge = Judge(pair.vocab_size)
    while running:
        rounds = pair.rounds(list(running.values()), k)
        for ((seed, rule), text), (proposal, logits) in zip(list(running.items()), rounds, strict=True):
            verdict = judge.verdict(text, rule, proposal, logits)
            new = [*proposal.tokens[: verdict.num_accepted], verdict.token]
            text.ids += new
            if pair.eos_id in new or len(text.ids) >= text.num_prompt_tokens + num_tokens:
                del running[seed, rule]
    yield from summary(judge)


def summary(judge: Judge) -> Iterator[tuple[str, Any]]:
    """What both rules accept over all rounds and text by text, and what their verdicts cost."""
    everywhere = np.concatenate(list(judge.accepted.values()))
    yield "same rounds", {"rounds": len(everywhere), **compared(*everywhere.mean(axis=0))}
    sums = np.array([np.sum(rounds, axis=0) for rounds in judge.accepted.values()])
    yield "same rounds, text by text", report.paired_ratio(sums[:, 1].tolist(), sums[:, 0].tolist())
    for top_p in TIMED_TOP_P:
        yield (
            f"ms a verdict, top_p {top_p}",
            {rule.value: round(1e3 * statistics.fmean(judge.verdict_s[top_p, rule]), 2) for rule in RULES},
        )


def compared(rejection: float, by_block: float) -> dict[str, float]:
    """Accepted tokens a round under each rule; the ratio of those, and of all tokens that a round gives."""
    return {
        "rejection": round(float(rejection), 3),
        "block": round(float(by_block), 3),
        "ratio": round(float(by_block / rejection), 3),
        "ratio of tokens": round(float((1 + by_block) / (1 + rejection)), 3),
    }


def measure(num_tokens: int) -> Iterator[tuple[str, Any]]:
    """All figures of this benchmark."""
    for k, distance in product(KS, DISTANCES):
        yield f"random laws, K = {k}, distance {distance}", on_random_laws(k, distance)
    pair = Pair(SAMPLED)
    for k in KS:
        yield from ((f"pair, K = {k}, {name}", figure) for name, figure in on_the_pair(pair, k, num_tokens))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=96)
    arguments = parser.parse_args()
    torch_setup.prepare(num_cores())
    figures: dict[str, Any] = {}
    for name, figure in measure(arguments.tokens):
        print(f"{name}: {figure}", flush=True)
        figures[name] = figure
    report.save("block_verification", figures)


if __name__ == "__main__":
    main()
