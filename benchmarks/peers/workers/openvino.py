"""OpenVINO GenAI's continuous batching over weights that optimum-intel quantises: alone, and with a draft."""

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai

from benchmarks.peers.job import Arrivals, Job
from benchmarks.peers.workers.serving import NUM_ASSISTANT_TOKENS, Answer, Setting, serve

WEIGHTS = {
    "int8": ("--weight-format", "int8"),
    # Groups must divide the layers' widths, which are multiples of 64 here.
    "int4": ("--weight-format", "int4", "--sym", "--group-size", "64", "--ratio", "1.0"),
}
CACHE_GB = 1


def load(setting: Setting) -> Answer:
    weights, _, drafts = setting.mode.partition("-")
    properties: dict[str, Any] = {"INFERENCE_NUM_THREADS": setting.threads}
    if drafts:
        draft = exported(setting.draft, "int8", setting.folder)
        properties["draft_model"] = openvino_genai.draft_model(str(draft), "CPU", **properties)
    scheduling = openvino_genai.SchedulerConfig()
    scheduling.cache_size = CACHE_GB
    target = exported(setting.target, weights, setting.folder)
    pipeline = openvino_genai.ContinuousBatchingPipeline(str(target), scheduling, "CPU", properties)

    def answer(job: Job) -> Arrivals:
        handles = [
            pipeline.add_request(index, openvino.Tensor(np.array([ids], np.int64)), _generation(job, bool(drafts)))
            for index, ids in enumerate(job.prompts)
        ]
        arrivals: Arrivals = [[] for _ in handles]
        while pipeline.has_non_finished_requests():
            pipeline.step()
            now = time.perf_counter()
            for handle, pieces in zip(handles, arrivals, strict=True):
                while handle.can_read():
                    pieces.append((now, sum(len(output.generated_ids) for output in handle.read().values())))
        return arrivals

    return answer


def _generation(job: Job, drafts: bool) -> Any:
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos = job.num_tokens, True
    if job.temperature:
        config.do_sample, config.temperature, config.top_p, config.top_k = True, job.temperature, 1.0, 1 << 20
    if drafts:
        config.num_assistant_tokens = NUM_ASSISTANT_TOKENS
    return config


def exported(source: Path, weights: str, folder: Path) -> Path:
    """The model in OpenVINO's own format, converted once."""
    key = hashlib.sha256(f"{source.resolve()} {WEIGHTS[weights]}".encode()).hexdigest()[:12]
    result = folder / f"{key}-{weights}"
    if not result.is_dir():
        unfinished = result.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        command = (str(Path(sys.executable).with_name("optimum-cli")), "export", "openvino", "--model", str(source))
        task = ("--task", "text-generation-with-past", *WEIGHTS[weights])
        subprocess.run([*command, *task, str(unfinished)], check=True)
        unfinished.rename(result)
    return result


if __name__ == "__main__":
    serve(load)
