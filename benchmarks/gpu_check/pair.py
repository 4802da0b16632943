"""The pair in one process: the 8B-shaped FP8 target behind a draft of set acceptance that costs a tenth of its step."""

import hashlib
import time
from collections.abc import Iterator

from benchmarks.gpu_check.check import MEASURED, Finding, Place, judged
from benchmarks.gpu_check.world import RandomTarget, fp8_target

ACCEPTANCES = (0.6, 0.8, 0.9)
DRAFT_COST = 0.1
MOST_DRAFTED = 8
MARGIN = 0.25
"""Logits by which the pass over K + 1 rows and the one over 1 may disagree about the largest."""

MOST_LOOKED_AT = 8


def check(place: Place) -> Iterator[Finding]:
    """Plain greedy decoding, then speculation over the very text that it gave, then the tokens on which they differ."""
    num_tokens = 24 if place.is_rehearsal else 128
    target = fp8_target(place)
    prompt = target.random_tokens(100)
    _decode(target, prompt, 8)
    text, plain_s = _decode(target, prompt, num_tokens)
    step_s = plain_s / len(text)
    yield Finding(f"{target.backend}: greedy alone", MEASURED, f"{1 / step_s:.0f} tokens/s", 1 / step_s)
    flips: set[int] = set()
    verify_s = {k: _verify_s(target, prompt, text, k) for k in range(1, MOST_DRAFTED + 1)}
    for acceptance in ACCEPTANCES:
        k, promise = max(((k, _gain(k, acceptance, verify_s[k], step_s)) for k in verify_s), key=lambda pair: pair[1])
        taken_s, differing = _speculate(target, prompt, text, k, acceptance, step_s)
        flips |= differing
        gain = plain_s / taken_s
        figure = f"{gain:.2f}x with K = {k}; the cost model says {promise:.2f}x"
        yield Finding(f"a draft that is right {acceptance:.0%} of the time", MEASURED, figure, gain)
    yield _near_ties(target, prompt, text, sorted(flips))


def _decode(target: RandomTarget, prompt: list[int], num_tokens: int) -> tuple[list[int], float]:
    """The greedy text, and the seconds that all of it but the first token took."""
    sequence = target.open(prompt, target.vocab_size)
    text = target.choose(sequence)
    start = time.perf_counter()
    while len(text) < num_tokens + 1:
        sequence.tokens.append(text[-1])
        text += target.choose(sequence)
    taken_s = time.perf_counter() - start
    target.close(sequence)
    return text[:-1], taken_s


def _speculate(
    target: RandomTarget, prompt: list[int], text: list[int], k: int, acceptance: float, step_s: float
) -> tuple[float, set[int]]:
    """Seconds for the text, and the places at which the target chose another token. What is committed is the text."""
    sequence = target.open([*prompt, text[0]], target.vocab_size)
    target.choose(sequence)
    flips, done = set[int](), 1
    start = time.perf_counter()
    while done < len(text):
        known = text[done : done + k]
        num_right = next((i for i in range(len(known)) if _errs(done + i, acceptance)), len(known))
        wrong = [(token + 1) % target.vocab_size for token in known[num_right : num_right + 1]]
        _spend(DRAFT_COST * step_s * len(known))
        chosen = target.choose(sequence, [*known[:num_right], *wrong, *known[num_right + 1 :]])
        real = text[done : done + num_right + 1]
        flips |= {done + i for i, token in enumerate(real) if chosen[i] != token}
        target.commit(sequence, len(prompt) + done + num_right, real[num_right:])
        done += len(real)
    taken_s = time.perf_counter() - start
    target.close(sequence)
    return taken_s, flips


def _verify_s(target: RandomTarget, prompt: list[int], text: list[int], k: int, repeats: int = 5) -> float:
    """Seconds of one verification, the host's work with it."""
    sequence = target.open([*prompt, text[0]], target.vocab_size)
    target.choose(sequence)
    start = time.perf_counter()
    for _ in range(repeats):
        target.choose(sequence, text[1 : k + 1])
        target.commit(sequence, len(prompt) + 1, ())
    taken_s = (time.perf_counter() - start) / repeats
    target.close(sequence)
    return taken_s


def _gain(k: int, acceptance: float, verify_s: float, step_s: float) -> float:
    """Tokens of a round over its cost, in plain steps."""
    num_tokens = (1 - acceptance ** (k + 1)) / (1 - acceptance)
    return num_tokens * step_s / (k * DRAFT_COST * step_s + verify_s)


def _near_ties(target: RandomTarget, prompt: list[int], text: list[int], flips: list[int]) -> Finding:
    """Random weights make near ties common; anything else must not differ."""
    worst = 0.0
    for place in flips[:MOST_LOOKED_AT]:
        tokens = [*prompt, *text[:place]]
        rows = target.logits([*tokens, *text[place : place + 4]], 5)
        alone = target.logits(tokens, 1)[0]
        other = int(rows[0].argmax())
        worst = max(worst, float(alone.max() - alone[other]))
    figure = f"{len(flips)} of {len(text)} places, off by at most {worst:.2g} logits, {MARGIN} allowed"
    return judged("greedy text verified against itself differs at", worst <= MARGIN, figure, float(len(flips)))


def _errs(place: int, acceptance: float) -> bool:
    digest = hashlib.blake2b(str(place).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >= acceptance * 2**64


def _spend(duration_s: float) -> None:
    end = time.perf_counter() + duration_s
    while time.perf_counter() < end:
        pass
