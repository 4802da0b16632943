"""A target and a draft of stated speed and skill behind the gateway's own loop, in virtual time (virtual_time.run).

Each device serves all its streams in shared steps, as the engine does. Texts and what the draft knows of them are
functions of the place, so that every K meets the same text and two runs differ by what is compared alone.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

from prometheus_client import CollectorRegistry

from forerun.telemetry.metrics import GatewayMetrics
from gateway.coordinator import Coordinator, CoordinatorSettings
from gateway.replica import Replica
from tests.support.coordinating import Collector, request
from tests.support.simulated_cores import Cores
from tests.support.simulated_devices import DraftDevice, TargetDevice

GOOD = (0.9, 0.88, 0.86, 0.85)  # P(accepted | all before it were), by position; the last one goes on
BAD = (0.35, 0.3, 0.25, 0.2)
PROMPT_LEN = 20


def uniform(*key):
    """A number in [0, 1) that belongs to `key`."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest()) / 2**64


def skill(table):
    """Accepts by the position in the proposal alone."""
    return lambda stream, place, index: table[min(index, len(table) - 1)]


GOOD_SKILL = skill(GOOD)


def changing(before, after, place_of_change):
    """Two skills, one up to a place in the text, one from there."""
    return lambda *where: (before if where[1] < place_of_change else after)(*where)


def never_ends_early(survival, num_tokens):
    """A draft that does not know when it is unsure."""
    return 1.0


def never_repeating(stream, place):
    """A text without a token twice."""
    return 1000 + place


@dataclass
class World:
    """Seconds of a target step over m rows: step_s up to flat_rows, row_s more for each beyond; of a draft step over m
    sequences at time t: draft_s(m, t). Links by their round trip, with up to jitter_s more a message; steps vary by a
    share `noise` in either direction. skill(stream, place, index) is the chance that a drafted token at a place of a
    text, index tokens into its proposal, is the target's; outlook(survival, num_tokens) what a draft says of the chance
    of its next token, whose num_tokens so far are right with chance `survival`. While draft and target both work, each
    takes `crowding` times as long: 1 on devices of their own.
    """

    step_s: float = 0.012
    flat_rows: int = 4
    row_s: float = 0.00036
    draft_step_s: float = 0.0014
    draft_row_s: float = 0.00004
    target_rtt_s: float = 0.0004
    draft_rtt_s: float = 0.0004
    jitter_s: float = 0.0002
    noise: float = 0.3
    skill: Callable = GOOD_SKILL
    outlook: Callable = never_ends_early
    text: Callable = never_repeating
    draft_slows: tuple = (1e9, 1.0)  # from when on, and by how much
    crowding: float = 1.0
    seed: int = 0
    with_draft: bool = True
    settings: dict = field(default_factory=dict)

    def __post_init__(self):
        self.cores = Cores(self.crowding)

    def target_s(self, rows):
        return self.step_s + self.row_s * max(rows - self.flat_rows, 0)

    def draft_s(self, sequences, now):
        since, factor = self.draft_slows
        return (self.draft_step_s + self.draft_row_s * (sequences - 1)) * (factor if now >= since else 1.0)

    def knows(self, stream, place, index):
        """Whether the draft guesses this token right; the same for every K."""
        return uniform(self.seed, stream, place) < self.skill(stream, place, index)


class _Client:
    address = name = "simulated"

    def __init__(self, device):
        self.open = device.open


class _Replicas:
    def __init__(self, device):
        self.all = [Replica(_Client(device))]
        self.all[0].healthy = True

    def pick(self, key, excluded=()):
        return self.all[0]

    def failed(self, replica, error):
        raise AssertionError(error)


class House:
    """A coordinator over one world; `prompt` tells the streams apart by its first token."""

    def __init__(self, world):
        self.world, self.registry = world, CollectorRegistry()
        self.target, self.draft = TargetDevice(world), DraftDevice(world)
        self.coordinator = Coordinator(
            _Replicas(self.target),
            _Replicas(self.draft) if world.with_draft else None,
            GatewayMetrics(self.registry),
            settings=CoordinatorSettings(**world.settings),
        )

    async def generate(self, stream, num_tokens, k, sink=None):
        """One choice to its end; its stats."""
        prompt = (stream, *(self.world.text(stream, place) for place in range(1, PROMPT_LEN)))
        return await self.coordinator.run(request(num_tokens, k, prompt), sink or Collector())


@dataclass
class Outcome:
    """Seconds a token of the last choice and of all but the first, and what the last one's draft did."""

    token_s: float
    later_token_s: float
    stats: object


async def generate(world, num_tokens=1000, k=None, num_choices=1):
    """Generates choices one after another on one coordinator; the last one's Outcome."""
    house, loop, token_s = House(world), asyncio.get_running_loop(), []
    for stream in range(num_choices):
        started, sink = loop.time(), Collector()
        stats = await house.generate(stream, num_tokens, k, sink)
        assert sink.tokens == [world.text(stream, PROMPT_LEN + i) for i in range(num_tokens)]
        token_s.append((loop.time() - started) / num_tokens)
    return Outcome(token_s[-1], fmean(token_s[1:] or token_s), stats)


async def speed(world, num_streams, k=None, start_s=0.0, window_s=10.0):
    """Tokens/s of num_streams endless texts together, in the window_s after the first start_s seconds."""
    house, counts = House(world), []
    sinks = [Collector() for _ in range(num_streams)]
    texts = [asyncio.create_task(house.generate(i, 10**6, k, sink)) for i, sink in enumerate(sinks)]
    for seconds in (start_s, window_s):
        await asyncio.sleep(seconds)
        counts.append(sum(len(sink.tokens) for sink in sinks))
    assert not any(text.done() for text in texts), [text.exception() for text in texts if text.done()]
    for text in texts:
        text.cancel()
    await asyncio.gather(*texts, return_exceptions=True)
    return (counts[1] - counts[0]) / window_s
