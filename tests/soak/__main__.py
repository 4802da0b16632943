"""Minutes of mixed load while services are killed, drained and stopped: nothing lost, changed, leaked or grown.

    python -m tests.soak [--minutes 10] [--clients 10] [--fault-every-s 4] [--seed 0]

Tiny models in real processes: two targets and two drafts behind one gateway. Of each kind one is never killed, so that
its memory can be followed. Every finished text is compared with the target's own, made before the first fault.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import report
from tests.soak.gauges import growth, held, left_after
from tests.soak.house import House
from tests.soak.load import Tally, client
from tests.soak.requests import fill_in, kinds
from tests.support.generate import gateway_stub
from tests.support.tiny import build_pair

MAX_GROWTH = 1.05
SAMPLE_S = 2.0


async def soak(house, minutes, num_clients, fault_every_s, seed):
    """Figures of the whole run."""
    tally, samples, every_kind = Tally(), {name: [] for name in house.steady}, kinds(seed)
    async with gateway_stub(house.gateway.address) as stub:
        await fill_in(stub, every_kind)
        before = {name: held(process) for name, process in house.steady.items()}
        load = [asyncio.create_task(client(stub, every_kind, seed + i, tally)) for i in range(num_clients)]
        trouble = asyncio.create_task(house.trouble(seed, fault_every_s))
        ends = time.monotonic() + 60 * minutes
        while time.monotonic() < ends:
            await asyncio.sleep(SAMPLE_S)
            for task in (trouble, *load):
                if task.done():
                    task.result()
            for name, process in house.steady.items():
                samples[name].append(held(process)["memory"])
        for task in (trouble, *load):
            task.cancel()
        await asyncio.gather(trouble, *load, return_exceptions=True)
    await house.settle()
    left = await left_after(house)
    after = {name: held(process) for name, process in house.steady.items()}
    return {
        "minutes": minutes,
        "faults": house.num_faults,
        **{outcome: tally[outcome] for outcome in ("finished", "left", "lost", "late", "changed")},
        "errors": dict(tally.errors),
        "memory_growth": {name: round(growth(values), 3) for name, values in samples.items()},
        "files_more": {name: after[name]["files"] - before[name]["files"] for name in after},
        "threads_more": {name: after[name]["threads"] - before[name]["threads"] for name in after},
        "still_held": left,
    }


def faults_of(figures):
    """What of the figures must not be."""
    wrong = [f"{figures[name]} texts {name}" for name in ("lost", "late", "changed") if figures[name]]
    wrong += [f"memory of the {n} grew to {g}" for n, g in figures["memory_growth"].items() if g > MAX_GROWTH]
    wrong += [f"{n} open files more in the {name}" for name, n in figures["files_more"].items() if n > 8]
    wrong += [f"{name} still holds {what}" for name, what in figures["still_held"].items()]
    if not figures["finished"] or not figures["faults"]:
        wrong.append("nothing was tried")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--fault-every-s", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        house = House(build_pair(Path(folder)))
        try:
            figures = asyncio.run(
                soak(house, arguments.minutes, arguments.clients, arguments.fault_every_s, arguments.seed)
            )
        finally:
            house.close()
    for name, value in figures.items():
        print(f"{name}: {value}")
    report.save("soak", figures)
    if wrong := faults_of(figures):
        sys.exit("; ".join(wrong))


if __name__ == "__main__":
    main()
