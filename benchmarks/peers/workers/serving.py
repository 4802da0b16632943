"""What all workers share: flags, and jobs as JSON lines from stdin to stdout."""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.job import Arrivals, Job

NUM_ASSISTANT_TOKENS = 3  # suits a draft that is right about every third time
MAX_LEN = 4096
MAX_BATCH = 16

Answer = Callable[[Job], Arrivals]


@dataclass(frozen=True)
class Setting:
    """What a worker is to load. folder: where it may keep what it converts."""

    mode: str
    target: Path
    draft: Path
    gguf: Path
    folder: Path
    threads: int


def serve(load: Callable[[Setting], Answer]) -> None:
    """Loads, says so, and answers jobs until stdin ends; what the engines print goes to stderr."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        answer = load(_setting())
        print("{}", file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(_answered(answer, Job.from_json(json.loads(line)))), file=answers, flush=True)


def _answered(answer: Answer, job: Job) -> dict[str, Any]:
    try:
        return {"arrivals": answer(job)}
    except Exception as error:  # whatever an engine raises is what this mode makes of the job
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[-200:]}"}


def _setting() -> Setting:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True)
    for name in ("target", "draft", "gguf", "folder"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    return Setting(**vars(parser.parse_args()))
