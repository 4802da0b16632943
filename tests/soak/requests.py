"""What the soak's clients ask for, and what must come back."""

import random
from dataclasses import dataclass, field

from tests.support.generate import generate

NUM_KINDS = 48
MAX_PROMPT, MAX_TOKENS = 200, 220
VOCAB = range(3, 64)


@dataclass
class Kind:
    """One request: sampling by `fields`; its text is the same whenever and wherever it is asked."""

    prompt: list
    num_tokens: int
    fields: dict
    ids: list = field(default_factory=list)


def kinds(seed=0):
    """Short and long, greedy and seeded, plain and with penalties."""
    rng = random.Random(seed)
    return [
        Kind(
            prompt=rng.choices(VOCAB, k=int(4 * (MAX_PROMPT / 4) ** rng.random())),
            num_tokens=int(8 * (MAX_TOKENS / 8) ** rng.random()),
            fields=rng.choice(
                [
                    {"temperature": 0.0},
                    {"temperature": 1.0, "seed": rng.randrange(1, 2**31)},
                    {"temperature": 0.8, "top_p": 0.9, "seed": rng.randrange(1, 2**31)},
                    {"temperature": 0.0, "frequency_penalty": 0.5},
                ]
            ),
        )
        for _ in range(NUM_KINDS)
    ]


async def fill_in(stub, every_kind):
    """The reference texts: the target alone, before anything goes wrong."""
    for kind in every_kind:
        kind.ids = (await generate(stub, kind.prompt, kind.num_tokens, k=0, **kind.fields)).ids
