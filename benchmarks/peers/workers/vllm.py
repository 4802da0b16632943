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
        arrivals: dict[str, list[tuple[float, int]]] = {}
        lengths: dict[str, int] = {}
        for index, ids in enumerate(job.prompts):
            added = engine.add_request(str(index), {"prompt_token_ids": list(ids)}, params)
            arrivals[added], lengths[added] = [], 0
        while engine.has_unfinished_requests():
            for output in engine.step():
                length, now = len(output.outputs[0].token_ids), time.perf_counter()
                if length > lengths[output.request_id]:
                    arrivals[output.request_id].append((now, length - lengths[output.request_id]))
                    lengths[output.request_id] = length
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
