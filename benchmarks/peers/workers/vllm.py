"""vLLM's engine for CPUs, stepped in this process: alone, with a draft model, with n-grams."""

import time
from typing import Any

from vllm import LLM, SamplingParams

from benchmarks.peers.job import Arrivals, Job
from benchmarks.peers.workers.serving import MAX_BATCH, MAX_LEN, NUM_ASSISTANT_TOKENS, Answer, Setting, serve


def load(setting: Setting) -> Answer:
    engine = LLM(
        str(setting.target),
        dtype="bfloat16",
        max_model_len=MAX_LEN,
        max_num_seqs=MAX_BATCH,
        speculative_config=_speculation(setting),
    ).llm_engine

    def answer(job: Job) -> Arrivals:
        params = SamplingParams(max_tokens=job.num_tokens, temperature=job.temperature, ignore_eos=True)
        names = [str(index) for index in range(len(job.prompts))]
        arrivals: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
        lengths = dict.fromkeys(names, 0)
        for name, ids in zip(names, job.prompts, strict=True):
            engine.add_request(name, {"prompt_token_ids": list(ids)}, params)
        while engine.has_unfinished_requests():
            for output in engine.step():
                name, length, now = output.request_id, len(output.outputs[0].token_ids), time.perf_counter()
                if length > lengths[name]:
                    arrivals[name].append((now, length - lengths[name]))
                    lengths[name] = length
        return list(arrivals.values())

    return answer


def _speculation(setting: Setting) -> dict[str, Any] | None:
    if setting.mode == "plain":
        return None
    if setting.mode == "ngram":
        return {
            "method": "ngram",
            "num_speculative_tokens": NUM_ASSISTANT_TOKENS,
            "prompt_lookup_max": 4,
            "prompt_lookup_min": 2,
        }
    return {"method": "draft_model", "model": str(setting.draft), "num_speculative_tokens": NUM_ASSISTANT_TOKENS}


if __name__ == "__main__":
    serve(load)
