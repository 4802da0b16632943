"""transformers' generate as a peer: reads `ids… num_tokens` a line, prints decoding tokens/s a line."""

import sys
import time

import torch
from transformers import AutoModelForCausalLM

from forerun.models.resolve import resolve


class Clock:
    """A streamer that notes when each token came; generate calls it with the prompt first."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing is held back."""


def main() -> None:
    model = AutoModelForCausalLM.from_pretrained(resolve("bundled"), dtype=torch.bfloat16)
    model.generation_config.eos_token_id = None
    for line in sys.stdin:
        *ids, num_tokens = map(int, line.split())
        clock = Clock()
        with torch.inference_mode():
            model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=num_tokens,
                do_sample=False,
                pad_token_id=0,
                streamer=clock,
            )
        tokens = clock.times[1:]
        print((len(tokens) - 1) / (tokens[-1] - tokens[0]), flush=True)


if __name__ == "__main__":
    main()
