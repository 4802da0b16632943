"""Stock lm-eval against the pair, with speculation and without it: the same scores and the same answers.

    python -m benchmarks.clients.scored [--tasks forerun_facts,forerun_answers]

Any task of the harness may be named whose data set can be loaded; those of benchmarks/clients/tasks need no internet.
The services run uncompiled in fp32, where no text depends on what else is in a batch.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.peers.environments import interpreter, versions
from benchmarks.trio import running
from forerun.models.bundled import NAME
from forerun.models.resolve import resolve

TASKS = Path(__file__).parent / "tasks"
TOLERANCE = 1e-3
EXACT = ("--precision", "fp32", "--compile", "off")


def evaluate(url: str, tasks: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The harness's results, and by question all that the model said."""
    options = {
        "model": NAME,
        "base_url": f"{url}/v1/completions",
        "tokenizer_backend": "huggingface",
        "tokenizer": str(resolve("bundled")),
        "num_concurrent": "4",
        "max_length": "2048",
    }
    command = [str(interpreter("lm-eval")), "-m", "lm_eval", "--model", "local-completions", "--tasks", tasks]
    command += ["--model_args", ",".join(f"{name}={value}" for name, value in options.items())]
    command += ["--include_path", str(TASKS), "--output_path", str(folder), "--log_samples"]
    subprocess.run(command, check=True, cwd=TASKS.parents[2])
    (results,) = folder.rglob("results_*.json")
    scores = {
        task: {name: value for name, value in result.items() if isinstance(value, float)}
        for task, result in json.loads(results.read_text())["results"].items()
    }
    lines = [line for path in sorted(folder.rglob("samples_*.jsonl")) for line in path.read_text("utf-8").split("\n")]
    samples = [json.loads(line) for line in lines if line]
    return scores, {f"{s['doc_hash']} {s['prompt_hash']}": s["filtered_resps"] for s in samples}


def alike(one: Any, other: Any) -> bool:
    """Equal but for the last digits of log-probabilities, which vary with what else is in a batch."""
    if isinstance(one, list):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    try:
        return math.isclose(float(one), float(other), abs_tol=TOLERANCE)
    except ValueError:
        return bool(one == other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", default="forerun_facts,forerun_answers")
    arguments = parser.parse_args()
    scores, samples = {}, {}
    for name, num_draft_tokens in {"with speculation": "4", "without": "0"}.items():
        with (
            running(EXACT, {"FORERUN_NUM_DRAFT_TOKENS": num_draft_tokens}) as trio,
            tempfile.TemporaryDirectory() as folder,
        ):
            scores[name], samples[name] = evaluate(trio.url, arguments.tasks, Path(folder))
            print(f"{name}: {scores[name]}", flush=True)
    with_it, without = samples.values()
    changed = sum(not alike(with_it[question], said) for question, said in without.items())
    print(f"samples {len(without)}, changed {changed}")
    report.save(
        "lm-eval",
        {"client": versions("lm-eval"), "scores": scores, "samples": len(without), "samples_changed": changed},
    )
    if changed or len({json.dumps(score) for score in scores.values()}) > 1:
        sys.exit("speculation changed what the harness saw")


if __name__ == "__main__":
    main()
