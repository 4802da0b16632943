"""Streams through a gateway that never pause, each compared with a text that is known."""

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from forerun.v1 import gateway_pb2, gateway_pb2_grpc

AROUND_S = 8.0  # in which a stream that was moved has gone on; only then is the victim brought back
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Ask:
    """A request whose text is known before any fault."""

    prompt: tuple[int, ...]
    sampling: dict[str, Any]


@dataclass
class Streamed:
    """One answer as it came; error is empty where it came to its end."""

    ids: list[int] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    error: str = ""

    def added_s(self, at: float) -> float:
        """The longest gap around the moment, less the usual one."""
        gaps = [(a, b - a) for a, b in itertools.pairwise(self.arrivals) if b > at and a < at + AROUND_S]
        usual = statistics.median(b - a for a, b in itertools.pairwise(self.arrivals))
        return max((gap for _, gap in gaps), default=usual) - usual

    def ran_at(self, moment: float) -> bool:
        """Whether it was under way then."""
        return len(self.arrivals) > 2 and self.arrivals[0] < moment < self.arrivals[-1]


class Load:
    """Streams that never pause; texts are those of `expected`, or counted as changed."""

    def __init__(self, address: str, asks: Sequence[Ask], num_tokens: int) -> None:
        self._address, self._asks, self._num_tokens = address, asks, num_tokens
        self.expected: dict[int, list[int]] = {}
        self.done: list[tuple[int, Streamed]] = []
        self.stopped = False

    async def learn(self) -> None:
        """Every text, without a draft and without a fault."""
        for index, ask in enumerate(self._asks):
            answer = await self._generate(ask, speculate=False)
            if answer.error:
                raise RuntimeError(answer.error)
            self.expected[index] = answer.ids

    async def run(self, turn: int) -> None:
        """One stream after another until stopped."""
        for index in itertools.cycle(range(turn, turn + len(self._asks))):
            if self.stopped:
                return
            index %= len(self._asks)
            self.done.append((index, await self._generate(self._asks[index], speculate=True)))

    @property
    def num_lost(self) -> int:
        """Answers that ended with an error."""
        return sum(bool(answer.error) for _, answer in self.done)

    @property
    def num_changed(self) -> int:
        """Answers with another text than before the faults."""
        return sum(not answer.error and answer.ids != self.expected[index] for index, answer in self.done)

    async def _generate(self, ask: Ask, speculate: bool) -> Streamed:
        request = gateway_pb2.GenerateRequest(
            tokens=gateway_pb2.TokenIds(ids=ask.prompt),
            max_tokens=self._num_tokens,
            ignore_eos=True,
            speculative=gateway_pb2.Speculative(enabled=speculate),
            **ask.sampling,
        )
        answer = Streamed()
        async with grpc.aio.insecure_channel(self._address) as channel:
            try:
                async for piece in gateway_pb2_grpc.GatewayServiceStub(channel).Generate(request, timeout=TIMEOUT_S):
                    if piece.token_ids:
                        answer.ids.extend(piece.token_ids)
                        answer.arrivals.append(time.monotonic())
            except grpc.RpcError as error:
                answer.error = f"{error.code().name}: {error.details()}"  # type: ignore[attr-defined]
        return answer
