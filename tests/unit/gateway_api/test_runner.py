"""What a run asks the coordinator for, and when it tells what came."""

import asyncio

from gateway.api.limits import Limits
from gateway.api.requests import Requests
from gateway.api.runner import Run
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator, hashed
from tests.support.virtual_time import run

TEXT, MODEL = byte_text(), byte_model()
REQUESTS = Requests(TEXT, MODEL, Limits())


def completion(**body):
    return REQUESTS.completion({"model": "tiny", **body})


def running(coordinator, job):
    return Run(coordinator, TEXT, job, lambda index, num_tokens: None)


async def noise_of(**body):
    """(seed, choice) of every request that the coordinator gets."""
    coordinator = FakeCoordinator(hashed(200))
    async with running(coordinator, completion(max_tokens=2, **body)) as made:
        await made.whole()
    return [(request.seed, request.choice) for request in coordinator.requests]


def test_equal_prompts_without_a_seed_share_no_noise():
    for body in ({"prompt": ["x"] * 8}, {"prompt": ["x"] * 4, "n": 2}):
        assert len(set(run(noise_of(**body)))) == 8


def test_with_a_seed_every_prompt_is_drawn_as_if_it_were_alone():
    assert sorted(run(noise_of(prompt=["x", "y"], n=2, seed=7))) == [(7, 0), (7, 0), (7, 1), (7, 1)]


class OpenOnce:
    """A gate that lets one verdict pass."""

    def __init__(self):
        self._is_open = True

    async def wait(self):
        if not self._is_open:
            await asyncio.Event().wait()
        self._is_open = False


def test_a_prompt_without_laws_does_not_wait_for_them():
    """The only token of a prompt has no law, and one verdict is enough to begin."""

    async def first_piece():
        job = completion(prompt=[[5]], echo=True, logprobs=1, max_tokens=3, stream=True)
        async with running(FakeCoordinator(lambda request: [65, 66, 67], gate=OpenOnce()), job) as made:
            async with asyncio.timeout(5):
                return await anext(made.pieces()), made.prompt_logprobs(0)

    piece, laws = run(first_piece())
    assert (piece.token_ids, laws) == ((65,), ())
