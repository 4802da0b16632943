"""llama.cpp's server engine, through xllamacpp's wheels: alone, with prompt lookup, with a draft model."""

import threading
import time
from typing import Any

import xllamacpp

from benchmarks.peers.job import Arrivals, Job
from benchmarks.peers.workers.gguf_draft import written
from benchmarks.peers.workers.serving import MAX_BATCH, MAX_LEN, NUM_ASSISTANT_TOKENS, Answer, Setting, serve

_KINDS = xllamacpp.common_speculative_type


def load(setting: Setting) -> Answer:
    server = xllamacpp.Server(_params(setting))

    def answer(job: Job) -> Arrivals:
        arrivals: Arrivals = [[] for _ in job.prompts]
        threads = [
            threading.Thread(target=_complete, args=(server, job, index, arrivals[index]))
            for index in range(len(job.prompts))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return arrivals

    return answer


def _params(setting: Setting) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(setting.gguf)
    params.n_parallel, params.n_ctx, params.kv_unified = MAX_BATCH, MAX_LEN * MAX_BATCH // 4, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setting.threads
    speculative = params.speculative
    if setting.mode == "lookup":
        speculative.types = [_KINDS.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
    elif setting.mode == "draft":
        speculative.types = [_KINDS.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        draft = speculative.draft
        draft.mparams.path = str(written(setting.draft, setting.gguf, setting.folder))
        draft.n_max = NUM_ASSISTANT_TOKENS
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = setting.threads
    return params


def _complete(server: Any, job: Job, index: int, pieces: list[tuple[float, int]]) -> None:
    request = {
        "prompt": list(job.prompts[index]),
        "max_tokens": job.num_tokens,
        "temperature": job.temperature,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": index,
        "ignore_eos": True,
        "cache_prompt": False,
        "timings_per_token": True,
        "stream": True,
    }
    errors: list[Any] = []
    num_tokens = 0

    def take(chunk: Any) -> None:
        """A chunk is text, of as many tokens as it took to be whole; its timings count those of the answer so far."""
        nonlocal num_tokens
        now = time.perf_counter()
        if "error" in chunk:
            errors.append(chunk["error"])
            return
        before, num_tokens = num_tokens, chunk.get("timings", {}).get("predicted_n", num_tokens)
        if num_tokens > before:
            pieces.append((now, num_tokens - before))

    server.handle_completions(request, take)
    if errors:
        raise RuntimeError(str(errors[0]))


if __name__ == "__main__":
    serve(load)
