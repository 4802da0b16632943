"""Forerun beside transformers, vLLM, OpenVINO GenAI and llama.cpp on this machine: `make bench-peers`.

    python -m benchmarks.peers [--only NAME,…] [--batch 1,16] [--temperature 0,1] [--rounds N] [--prompts FOLDER]

Each peer is installed, pinned, into an environment of its own in the cache folder; docs/peers.md says what is compared.
Installing takes a while the first time and counts in no figure; measuring ends after --minutes with what it has.
"""

import argparse
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.peers import environments, goals, heats, idle, ours, prompts
from benchmarks.peers.models import Models, bundled_models
from benchmarks.peers.summary import REFERENCE, Summary, as_json, table
from benchmarks.peers.system import PEER_MODES, PeerMode
from benchmarks.peers.turns import Condition, Course

RESULTS = "peers"
PICTURE = Path(__file__).parent.parent.parent / "docs" / "peers.svg"


def main() -> None:
    arguments = _arguments()
    modes = [mode for mode in PEER_MODES if _wanted(mode.name, arguments.only)]
    names = [name for name in ours.NAMES if name == REFERENCE or _wanted(name, arguments.only)]
    failures = _install(modes)
    modes = [mode for mode in modes if mode.peer not in failures]
    models = bundled_models()
    course = _course(arguments, models, failures)
    with ours.serving(names) as systems:
        heats.warm_up(course, systems)
        busy = idle.busy_cores()
        print(f"our services keep {busy} cores busy while nobody asks", flush=True)
        heats.run(course, systems, modes, models)
    _report(course, modes, busy, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="systems or peers, such as vllm,openvino-int8,forerun-bf16")
    parser.add_argument("--batch", default="1,16", help="prompts answered at once")
    parser.add_argument("--temperature", default="0,1")
    parser.add_argument("--rounds", type=int, default=1, help="how often every prompt is run")
    parser.add_argument("--prompts", type=Path, default=prompts.OWN, help="folder of .jsonl: prompt or turns, category")
    parser.add_argument("--num-prompts", type=int, default=12, help="in turn from each category")
    parser.add_argument("--tokens", type=int, default=64, help="generated for each prompt")
    parser.add_argument("--minutes", type=float, default=24, help="no job begins later than this")
    parser.add_argument("--results", default=RESULTS, help="name of the file in benchmarks/results")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    return parser.parse_args()


def _wanted(name: str, only: str) -> bool:
    """Whether a comma-separated list names the system or the family it belongs to; an empty one names all."""
    return not only or any(name == part or name.startswith(f"{part}-") for part in only.split(","))


def _install(modes: list[PeerMode]) -> dict[str, str]:
    """Installs each peer that is not there yet; by name, what said no and why."""
    failures = {}
    for peer in dict.fromkeys(mode.peer for mode in modes):
        try:
            environments.interpreter(peer)
        except environments.NotInstalled as error:
            failures[peer] = f"not installed: {error}"
            print(f"{peer} is not installed: {error}", flush=True)
    return failures


def _course(arguments: argparse.Namespace, models: Models, failures: dict[str, str]) -> Course:
    conditions = [
        Condition(int(batch), float(temperature))
        for temperature in arguments.temperature.split(",")
        for batch in arguments.batch.split(",")
    ]
    chosen = prompts.read(arguments.prompts, arguments.num_prompts, models.target)
    ends = time.monotonic() + 60 * arguments.minutes
    return Course(conditions, chosen, arguments.tokens, arguments.rounds, ends, failures=failures)


def _report(course: Course, modes: list[PeerMode], busy: float, arguments: argparse.Namespace) -> None:
    summary = Summary(course.records)
    reached = goals.goals(summary)
    print("", *(table(summary, condition) for condition in summary.conditions), *reached, sep="\n")
    for name, reason in course.failures.items():
        print(f"none from {name}: {reason}")
    figures: dict[str, Any] = {
        "conditions": as_json(summary),
        "goals": goals.as_json(reached),
        "failures": course.failures,
        "idle_busy_cores": busy,
        "num_tokens": course.num_tokens,
        "peers": {peer: environments.versions(peer) for peer in sorted({mode.peer for mode in modes})},
        "records": [{**asdict(record), "condition": str(record.condition)} for record in course.records],
    }
    report.save(arguments.results, figures)
    _draw(report.RESULTS / f"{arguments.results}.json", arguments.picture)


def _draw(figures: Path, picture: Path) -> None:
    try:
        python = environments.interpreter("picture")
    except environments.NotInstalled as error:
        print(f"no picture: {error}")
        return
    subprocess.run([str(python), "-m", "benchmarks.peers.picture", str(figures), str(picture)], check=True)
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
