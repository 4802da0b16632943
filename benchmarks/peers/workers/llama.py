"""llama.cpp through llama-cpp-python: its C interface for plain decoding, its Llama class for prompt lookup."""

import ctypes
import itertools
import time
from typing import Any

import llama_cpp
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from benchmarks.peers.job import Arrivals, Job
from benchmarks.peers.workers.serving import MAX_BATCH, MAX_LEN, NUM_ASSISTANT_TOKENS, Answer, Setting, serve

MAX_STEP = 512  # tokens of one llama_decode


def load(setting: Setting) -> Answer:
    return Plain(setting).answer if setting.mode == "plain" else _lookup(setting)


class Plain:
    """One context for up to MAX_BATCH sequences, a sampler each."""

    def __init__(self, setting: Setting) -> None:
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model = llama_cpp.llama_model_load_from_file(str(setting.gguf).encode(), model_params)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_seq_max = MAX_LEN * MAX_BATCH // 4, MAX_STEP, MAX_BATCH
        params.n_threads = params.n_threads_batch = setting.threads
        params.kv_unified = True
        self._context = llama_cpp.llama_init_from_model(model, params)
        self._batch = llama_cpp.llama_batch_init(MAX_STEP, 0, 1)

    def answer(self, job: Job) -> Arrivals:
        """Prefills prompt by prompt, then decodes all together."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)
        samplers = [_sampler(job.temperature, seed) for seed in range(len(job.prompts))]
        last: list[int] = []
        for sequence, ids in enumerate(job.prompts):
            for start in range(0, len(ids), MAX_STEP):
                piece = ids[start : start + MAX_STEP]
                self._decode([(token, start + i, sequence) for i, token in enumerate(piece)], only_last=True)
            last.append(self._sample(samplers[sequence], -1))
        arrivals: Arrivals = [[(time.perf_counter(), 1)] for _ in job.prompts]
        for step in range(job.num_tokens - 1):
            self._decode([(token, len(job.prompts[i]) + step, i) for i, token in enumerate(last)], only_last=False)
            last = [self._sample(sampler, i) for i, sampler in enumerate(samplers)]
            now = time.perf_counter()
            for pieces in arrivals:
                pieces.append((now, 1))
        for sampler in samplers:
            llama_cpp.llama_sampler_free(sampler)
        return arrivals

    def _decode(self, rows: list[tuple[int, int, int]], only_last: bool) -> None:
        """One forward over (token, position, sequence) rows."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence) in enumerate(rows):
            batch.token[i], batch.pos[i] = token, position
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
            batch.logits[i] = not only_last or i == len(rows) - 1
        if status := llama_cpp.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode: {status}")

    def _sample(self, sampler: Any, row: int) -> int:
        return int(llama_cpp.llama_sampler_sample(sampler, self._context, ctypes.c_int32(row)))


def _sampler(temperature: float, seed: int) -> Any:
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    if temperature:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_temp(temperature))
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_dist(seed))
    else:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_greedy())
    return chain


def _lookup(setting: Setting) -> Answer:
    threads = {"n_threads": setting.threads, "n_threads_batch": setting.threads}
    lookup = LlamaPromptLookupDecoding(num_pred_tokens=NUM_ASSISTANT_TOKENS)
    llama = llama_cpp.Llama(str(setting.gguf), n_ctx=MAX_LEN, draft_model=lookup, verbose=False, **threads)

    def answer(job: Job) -> Arrivals:
        (ids,) = job.prompts
        tokens = llama.generate(list(ids), temp=job.temperature, top_k=0, top_p=1.0, min_p=0.0)
        return [[(time.perf_counter(), 1) for _ in itertools.islice(tokens, job.num_tokens)]]

    return answer


if __name__ == "__main__":
    serve(load)
