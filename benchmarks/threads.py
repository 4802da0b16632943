"""How many threads a step should have, and how long they should look out for work before they sleep.

The target alone and the pair on one machine. Every setting has services of its own, which take turns; ratios are of
paired answers, to how `forerun up` runs them: as many threads a step as pay, which look out for work 2000 times and
then sleep.
`python -m benchmarks.threads [rounds]`
"""

import asyncio
import contextlib
import statistics
import sys
from typing import Any

import httpx

from benchmarks import report
from benchmarks.streams import stream
from benchmarks.trio import running
from forerun.bench.prompts import PROMPTS
from forerun.engine.cores import num_cores

AS_SERVED = "as served"
ALL = {"FORERUN_THREADS": str(num_cores())}
SETTINGS: dict[str, dict[str, str]] = {
    AS_SERVED: {},
    "no looks": {"GOMP_SPINCOUNT": "0"},
    "all cores": ALL,
    "all cores, OpenMP's own waiting": {**ALL, "OMP_WAIT_POLICY": "", "KMP_BLOCKTIME": ""},
}
RUNS = {"target alone": False, "pair": True}
NUM_TOKENS = 128


def body(prompt: str, speculates: bool) -> dict[str, Any]:
    return {
        "model": "SmolLM2-135M-Instruct",
        "prompt": prompt,
        "max_tokens": NUM_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "speculative": {"enabled": speculates},
    }


async def tokens_per_s(client: httpx.AsyncClient, url: str, request: dict[str, Any]) -> float:
    """Of one answer after its first chunk."""
    timed = await stream(client, url, request)
    return (timed.num_tokens - 1) / (timed.arrivals[-1] - timed.arrivals[0])


async def measure(urls: dict[str, str], rounds: int) -> dict[str, Any]:
    rates: dict[str, dict[str, list[float]]] = {run: {name: [] for name in urls} for run in RUNS}
    async with httpx.AsyncClient(timeout=300) as client:
        for turn in range(rounds + 1):
            for run, speculates in RUNS.items():
                for name, url in urls.items():
                    rate = await tokens_per_s(client, url, body(PROMPTS[turn % len(PROMPTS)], speculates))
                    if turn:
                        rates[run][name].append(rate)
    return {
        run: {
            name: {
                "tok_s": round(statistics.median(values), 1),
                "to as served": report.paired_ratio(values, of_run[AS_SERVED]),
            }
            for name, values in of_run.items()
        }
        for run, of_run in rates.items()
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(running(environ=environ)).url for name, environ in SETTINGS.items()}
        figures = asyncio.run(measure(urls, rounds))
    for run, of_run in figures.items():
        for name, figure in of_run.items():
            print(f"{run}, {name}: {figure}")
    report.save("threads", figures)


if __name__ == "__main__":
    main()
