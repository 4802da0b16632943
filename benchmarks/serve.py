"""The target alone, through the gateway: 16 streams against one, the gap that a long prompt tears, and transformers.

python benchmarks/serve.py [--rounds 5]

In bf16, which transformers has too, compiled as it is served by default.
"""

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
from typing import Any

import httpx

from benchmarks import report
from benchmarks.streams import Timed, stream, tokens_per_s
from benchmarks.trio import running

NUM_STREAMS = 16
NUM_TOKENS = 128
LONG_PROMPT, LONG_PROMPTS = 4000, 5
BEFORE_S = 8
NUM_COUNTED = 800


def body(num_prompt_tokens: int, num_tokens: int, seed: int) -> dict[str, Any]:
    """A completion of random ids with speculation off."""
    ids = [random.Random(seed).randrange(1000, 20000) for _ in range(num_prompt_tokens)]
    return {
        "model": "SmolLM2-135M-Instruct",
        "prompt": ids,
        "max_tokens": num_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "speculative": {"enabled": False},
    }


async def batch_ratio(client: httpx.AsyncClient, url: str, rounds: int) -> dict[str, Any]:
    """Decoding rates of one stream and of 16, run in turn."""
    one, many = [], []
    for turn in range(rounds):
        one.append(await tokens_per_s(client, url, [body(100, NUM_TOKENS, seed=1000 + turn)]))
        bodies = [body(40 + 6 * i, NUM_TOKENS, seed=100 * turn + i) for i in range(NUM_STREAMS)]
        many.append(await tokens_per_s(client, url, bodies))
    return {
        "one_stream_tok_s": round(statistics.median(one), 1),
        "16_streams_tok_s": round(statistics.median(many), 1),
        "ratio": report.paired_ratio(many, one),
    }


async def long_prompt_gap(client: httpx.AsyncClient, url: str, turn: int) -> dict[str, float]:
    """Four streams run; a 4,000-token prompt arrives. Their gaps while it is prefilled over their median gap before.

    They count aloud: every token is text at once, where half a character would be held back. `control` is the longest
    gap of as many, before the prompt arrived: what this machine does anyway.
    """
    loop = asyncio.get_running_loop()
    streams = [asyncio.create_task(stream(client, url, counting(10 * turn + i))) for i in range(4)]
    await asyncio.sleep(2)
    settled = loop.time()
    await asyncio.sleep(BEFORE_S)
    arrived = loop.time()
    await stream(client, url, body(LONG_PROMPT, 2, seed=99 + turn))
    done = loop.time()
    timed: list[Timed] = await asyncio.gather(*streams)
    before = [b - a for t in timed for a, b in _pairs(t) if settled <= a and b < arrived]
    during = [b - a for t in timed for a, b in _pairs(t) if arrived <= a and b <= done]
    usual = statistics.median(before)
    return {
        "prefill_s": round(done - arrived, 1),
        "usual_ms": round(1000 * usual, 1),
        "median": round(statistics.median(during) / usual, 2),
        "p99": round(statistics.quantiles(during, n=100)[-1] / usual, 2),
        "longest": round(max(during) / usual, 2),
        "control": round(max(before) / usual, 2),
    }


def counting(seed: int) -> dict[str, Any]:
    """A long stream of plain numbers."""
    start = 100 * seed
    prompt = "Count: " + ", ".join(str(start + i) for i in range(20)) + ","
    return {**body(1, NUM_COUNTED, seed), "prompt": prompt}


def _pairs(timed: Timed) -> list[tuple[float, float]]:
    return list(zip(timed.arrivals, timed.arrivals[1:], strict=False))


async def against_transformers(client: httpx.AsyncClient, url: str, rounds: int) -> dict[str, Any]:
    """One stream against transformers' generate in a process of its own, in turn, same weights, precision, prompt."""
    generate = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "benchmarks.hf_generate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert generate.stdin and generate.stdout
    ours, theirs = [], []
    for turn in range(rounds + 1):
        request = body(100, NUM_TOKENS, seed=2000 + turn)
        ours.append(await tokens_per_s(client, url, [request]))
        generate.stdin.write(" ".join(map(str, request["prompt"])) + f" {NUM_TOKENS}\n")
        generate.stdin.flush()
        theirs.append(float(await asyncio.to_thread(generate.stdout.readline)))
    generate.stdin.close()
    return {
        "ours_tok_s": round(statistics.median(ours[1:]), 1),
        "transformers_generate_tok_s": round(statistics.median(theirs[1:]), 1),
        "ratio": report.paired_ratio(ours[1:], theirs[1:]),
    }


async def measure(url: str, rounds: int) -> dict[str, Any]:
    """All figures of this benchmark."""
    async with httpx.AsyncClient() as client:
        await stream(client, url, body(64, 32, seed=1))
        figures: dict[str, Any] = {"batch": await batch_ratio(client, url, rounds)}
        print(figures["batch"])
        gaps = [await long_prompt_gap(client, url, turn) for turn in range(LONG_PROMPTS)]
        figures["long_prompt_gaps_over_usual"] = gaps
        print(gaps)
        figures["against_transformers"] = await against_transformers(client, url, rounds)
        print(figures["against_transformers"])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with running(("--precision", "bf16")) as trio:
        figures = asyncio.run(measure(trio.url, arguments.rounds))
    report.save("serve", figures)


if __name__ == "__main__":
    main()
