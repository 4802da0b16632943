"""A draft and a target that take a stated time and are accepted at a stated rate, behind the gateway's own loop."""

import asyncio
import random
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from forerun.rpc.messages import DraftReply, Proposal, TargetReply, Verdict
from forerun.telemetry.metrics import GatewayMetrics
from gateway.coordinator import Coordinator, CoordinatorSettings
from gateway.replicas import Replica
from tests.support.coordinating import Collector, request

PROMPT_LEN = 20


@dataclass
class World:
    """Seconds of a target step over m rows: step_s + row_s * (m - 1); of a drafted token: draft_s; of either link, one
    way: target_link_s and draft_link_s. A drafted token is accepted with `acceptance`, independently.

    The target sends tokens of a grant back to back, as a device does. row_s grows with `num_others` rows beside.
    """

    step_s: float = 0.012
    row_s: float = 0.0001
    draft_s: float = 0.002
    target_link_s: float = 0.0001
    draft_link_s: float = 0.0001
    acceptance: float = 0.8
    seed: int = 5

    def __post_init__(self):
        self.random = random.Random(self.seed)

    def plain_s(self):
        return self.step_s


class _Stream:
    def __init__(self, world, deliver):
        self.world, self.deliver, self.ended = world, deliver, False
        self.loop = asyncio.get_running_loop()
        self.ready_at = self.loop.time()
        self.work = None

    def post(self, message):
        self.loop.call_later(self.link_s(), self.take, message)

    def end(self, message):
        self.ended = True
        if self.work is not None:
            self.work.cancel()

    def reply(self, message):
        if not self.ended:
            self.loop.call_later(self.link_s(), lambda: self.ended or self.deliver(message))


class _Target(_Stream):
    def __init__(self, first, world, deliver):
        super().__init__(world, deliver)
        self.len, self.limit, self.proposal = len(first.prompt), 0, None

    def link_s(self):
        return self.world.target_link_s

    def take(self, message):
        verify = message.verify
        self.limit = verify.base_len + len(verify.ids) + 1 + verify.grant
        self.proposal = verify.proposal if verify.HasField("proposal") else None
        if self.work is None:
            self.step()

    def step(self):
        self.work = None
        if self.limit > self.len and not self.ended:
            proposal, self.proposal = self.proposal, None
            tokens = list(proposal.tokens) if proposal is not None and proposal.base_len == self.len else []
            step_s = self.world.step_s + self.world.row_s * len(tokens)
            self.work = self.loop.call_later(step_s, self.finish, tokens, step_s)

    def finish(self, tokens, step_s):
        accepted = next((i for i, token in enumerate(tokens) if token != 1), len(tokens))
        verdict = Verdict(base_len=self.len, num_accepted=accepted, token=1, step_s=step_s, num_rows=len(tokens) + 1)
        self.len += accepted + 1
        self.reply(TargetReply(verdict=verdict))
        self.step()


class _Draft(_Stream):
    """Tokens are 1 where they would be accepted and 2 where not; the target's own are always 1."""

    def __init__(self, first, world, deliver):
        super().__init__(world, deliver)

    def link_s(self):
        return self.world.draft_link_s

    def take(self, message):
        propose = message.propose
        work_s = propose.k * self.world.draft_s
        self.ready_at = max(self.ready_at, self.loop.time()) + work_s
        tokens = [1 if self.world.random.random() < self.world.acceptance else 2 for _ in range(propose.k)]
        proposal = Proposal(base_len=propose.base_len + len(propose.ids), tokens=tokens, draft_s=work_s)
        self.loop.call_at(self.ready_at, self.reply, DraftReply(proposal=proposal))


class _Client:
    def __init__(self, kind, world):
        self.kind, self.world, self.address, self.name = kind, world, "simulated", "simulated"

    def open(self, first, deliver, metadata):
        return self.kind(first, self.world, deliver)


class _Replicas:
    def __init__(self, kind, world):
        self.all = [Replica(_Client(kind, world))]
        self.all[0].healthy = True

    def pick(self, key, excluded=()):
        return self.all[0]

    def failed(self, replica, error):
        raise AssertionError(error)


@dataclass
class Outcome:
    """Seconds a token of one choice, and what its draft did."""

    token_s: float
    stats: object


async def generate(world, num_tokens=1000, k=None, num_choices=1):
    """Generates choices one after another on one coordinator; the last one's Outcome."""
    coordinator = Coordinator(
        _Replicas(_Target, world),
        _Replicas(_Draft, world),
        GatewayMetrics(CollectorRegistry()),
        settings=CoordinatorSettings(),
    )
    loop = asyncio.get_running_loop()
    for _ in range(num_choices):
        started, sink = loop.time(), Collector()
        stats = await coordinator.run(request(num_tokens, k, prompt=(1,) * PROMPT_LEN), sink)
        assert len(sink.tokens) == num_tokens
        outcome = Outcome((loop.time() - started) / num_tokens, stats)
    return outcome
