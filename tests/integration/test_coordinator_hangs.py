"""Targets that hang with their connections open: nothing breaks, nothing is said."""

import asyncio

import pytest

from forerun.errors import DeadlineExceeded, ServiceUnavailable
from gateway import replicas, target_link
from tests.support.coordinating import PROMPT, Collector, house, request
from tests.support.scripted_services import ScriptedDraft, ScriptedTarget, continuation

NUM = 60
TEXT = continuation(PROMPT, NUM)
SOON_S = 5.0  # far below the minute after which a silent target is given up


@pytest.fixture(autouse=True)
def short_silence(monkeypatch):
    monkeypatch.setattr(target_link, "SILENCE_S", 0.1)
    monkeypatch.setattr(replicas, "LOOK_S", 0.3)


class Freezing(ScriptedTarget):
    """While `gate` is closed it produces nothing; while frozen it answers nobody at all, as a stopped process."""

    def __init__(self, **script):
        super().__init__(gate=asyncio.Event(), **script)
        self.awake, self.num_looks, self.on_look = asyncio.Event(), 0, lambda: None
        self.thaw()

    def freeze(self):
        """A busy machine may have been taken for a silent target before: looks count from here on."""
        self.num_looks = 0
        self.gate.clear()
        self.awake.clear()

    def thaw(self):
        self.gate.set()
        self.awake.set()

    async def Info(self, request, context):
        self.num_looks += 1
        self.on_look()
        await self.awake.wait()
        return await super().Info(request, context)


def freezing_at(num_tokens, targets):
    """A sink in whose middle the target that serves it freezes."""

    def freeze(sink):
        if len(sink.tokens) == num_tokens:
            next(target for target in targets if target.seen.num_alive).freeze()

    return Collector(on_push=freeze)


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("num_tokens", [1, 20])
async def test_a_target_that_hangs_is_left_soon_and_new_requests_go_elsewhere_at_once(k, num_tokens):
    targets = [Freezing(), Freezing()]
    sink, later = freezing_at(num_tokens, targets), Collector()
    async with house(targets, [ScriptedDraft()]) as pair, asyncio.timeout(SOON_S):
        await pair.coordinator.run(request(NUM, k), sink)
        hung = next(target for target in targets if not target.awake.is_set())
        assert sink.tokens == TEXT
        await pair.coordinator.run(request(NUM, k), later)
        assert later.tokens == TEXT
        assert len(hung.seen.opens) == 1
        assert pair.count("forerun_failovers_total") == 1
        hung.thaw()


async def test_sequences_that_notice_together_share_one_look(monkeypatch):
    monkeypatch.setattr(replicas, "PROBE_S", 60.0)
    targets = [Freezing(), Freezing()]
    sinks = [freezing_at(20, targets), *(Collector() for _ in range(20))]
    async with house(targets) as pair, asyncio.timeout(SOON_S):
        await asyncio.gather(*(pair.coordinator.run(request(200, 0), sink) for sink in sinks))
        hung = next(target for target in targets if not target.awake.is_set())
        assert all(sink.tokens == continuation(PROMPT, 200) for sink in sinks)
        assert hung.num_looks <= 1  # none where one was under way as it froze
        hung.thaw()


async def test_the_only_target_hung_is_an_error_soon_and_serves_again_when_it_is_back(monkeypatch):
    monkeypatch.setattr(replicas, "PROBE_S", 0.05)
    target, again = Freezing(), Collector()
    async with house([target]) as pair, asyncio.timeout(SOON_S):
        with pytest.raises(DeadlineExceeded, match="silent"):
            await pair.coordinator.run(request(NUM, 0), freezing_at(20, [target]))
        with pytest.raises(ServiceUnavailable, match="no target replica answers"):
            await pair.coordinator.run(request(NUM, 0), Collector())
        assert len(target.seen.opens) == 1
        target.thaw()
        while not pair.targets.all[0].healthy:
            await asyncio.sleep(0.01)
        await pair.coordinator.run(request(NUM, 0), again)
    assert again.tokens == TEXT


async def test_a_target_that_is_merely_busy_is_waited_for():
    """It says nothing on the stream for many silences, but it answers when it is looked at."""
    target, other = Freezing(), Freezing()
    for each in (target, other):
        each.on_look = lambda each=each: each.num_looks > 3 and each.gate.set()
    sink = Collector(
        on_push=lambda sink: [each.gate.clear() for each in (target, other)] if len(sink.tokens) == 20 else 0
    )
    async with house([target, other]) as pair, asyncio.timeout(SOON_S):
        await pair.coordinator.run(request(NUM, 0), sink)
        assert pair.count("forerun_failovers_total") == 0
    assert sink.tokens == TEXT
    assert len(target.seen.opens) + len(other.seen.opens) == 1
