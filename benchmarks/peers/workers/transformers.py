"""transformers' generate: alone, with an assistant model, with prompt lookup."""

import time
from typing import Any

import torch
from transformers import AutoModelForCausalLM, StoppingCriteriaList

from benchmarks.peers.job import Arrivals, Job
from benchmarks.peers.workers.serving import NUM_ASSISTANT_TOKENS, Answer, Setting, serve


class Clock:
    """A stopping criterion that never stops and notes the text's length after each step."""

    def __init__(self, num_prompt_tokens: int) -> None:
        self.pieces: list[tuple[float, int]] = []
        self._len = num_prompt_tokens

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.pieces.append((time.perf_counter(), input_ids.shape[1] - self._len))
        self._len = input_ids.shape[1]
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


def load(setting: Setting) -> Answer:
    torch.set_num_threads(setting.threads)
    model = AutoModelForCausalLM.from_pretrained(setting.target, dtype=torch.bfloat16)
    options = _options(setting)

    @torch.inference_mode()
    def answer(job: Job) -> Arrivals:
        longest = max(map(len, job.prompts))
        padded = torch.tensor([[0] * (longest - len(ids)) + list(ids) for ids in job.prompts])
        mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in job.prompts])
        clock = Clock(longest)
        sampling = {"temperature": job.temperature, "top_k": 0, "top_p": 1.0} if job.temperature else {}
        model.generation_config.eos_token_id = None
        model.generate(
            padded,
            attention_mask=mask,
            max_new_tokens=job.num_tokens,
            do_sample=bool(job.temperature),
            pad_token_id=0,
            stopping_criteria=StoppingCriteriaList([clock]),
            **sampling,
            **options,
        )
        return [clock.pieces for _ in job.prompts]

    return answer


def _options(setting: Setting) -> dict[str, Any]:
    if setting.mode == "plain":
        return {}
    if setting.mode == "lookup":
        return {"prompt_lookup_num_tokens": NUM_ASSISTANT_TOKENS}
    assistant = AutoModelForCausalLM.from_pretrained(setting.draft, dtype=torch.bfloat16)
    assistant.generation_config.num_assistant_tokens = NUM_ASSISTANT_TOKENS
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    return {"assistant_model": assistant}


if __name__ == "__main__":
    serve(load)
