"""Rounds with nothing but the wire: draft and target over their own streams, no gateway, fixed K.

What it measures is the material of the cost model: T_v by the number of rows, t_d, and R in its two parts.
"""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forerun.cost.rounds import CostModel
from forerun.errors import ForerunError
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.rpc.convert import sampling_to_pb
from forerun.rpc.messages import DraftOpen, DraftRequest, Finish, Proposal, Propose, TargetOpen, TargetRequest, Verify
from forerun.types import SamplingParams, Verification
from gateway.transcript import Transcript

GREEDY = SamplingParams(temperature=0, verification=Verification.MATCH)
MAX_K = 8
WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Spent:
    """Where a round's seconds went: the draft's work, the rest of its answer, the target's step, the rest of that."""

    draft_s: float
    draft_trip_s: float
    step_s: float
    target_trip_s: float


class BareRounds:
    """One greedy sequence on a draft and a target."""

    def __init__(self, draft: DraftClient, target: TargetClient, prompt: Sequence[int]) -> None:
        self._transcript = Transcript(prompt)
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        sampling = sampling_to_pb(GREEDY)
        common = {"prompt": prompt, "num_prompt_tokens": len(prompt), "sampling": sampling}
        self._draft = draft.open(DraftOpen(**common, noise_key=bytes(16)), self._replies.put_nowait)
        self._target = target.open(TargetOpen(**common, seed=1), self._replies.put_nowait)
        self._drafts_len = self._targets_len = len(prompt)

    async def round(self, k: int) -> "Spent":
        """Runs one of k drafted tokens."""
        start = time.perf_counter()
        proposal = await self._proposal(k) if k else None
        asked = time.perf_counter()
        verdict = await self._verdict(proposal)
        end = time.perf_counter()
        accepted = proposal.tokens[: verdict.num_accepted] if proposal is not None else ()
        self._transcript.commit([*accepted, verdict.token])
        self._targets_len = len(self._transcript)
        draft_s = proposal.draft_s if proposal is not None else 0.0
        return Spent(draft_s, asked - start - draft_s, verdict.step_s, end - asked - verdict.step_s)

    def end(self) -> None:
        """Closes both streams."""
        self._draft.end(DraftRequest(finish=Finish()))
        self._target.end(TargetRequest(finish=Finish()))

    async def _proposal(self, k: int) -> Proposal:
        text = self._transcript
        base_len, self._drafts_len = self._drafts_len, len(text)
        propose = Propose(base_len=base_len, ids=text.tail(base_len), hash=text.hash, k=k)
        self._draft.post(DraftRequest(propose=propose))
        return (await self._reply("proposal")).proposal

    async def _verdict(self, proposal: Proposal | None) -> Any:
        text = self._transcript
        base_len = self._targets_len
        verify = Verify(base_len=base_len, ids=text.tail(base_len), hash=text.hash, proposal=proposal)
        self._target.post(TargetRequest(verify=verify))
        return (await self._reply("verdict")).verdict

    async def _reply(self, kind: str) -> Any:
        while True:
            reply = await asyncio.wait_for(self._replies.get(), WAIT_S)
            if isinstance(reply, ForerunError):
                raise reply
            if reply.HasField(kind):
                return reply


async def measure(draft_address: str, target_address: str, prompt: Sequence[int], num_rounds: int = 20) -> CostModel:
    """The cost model of a running pair: medians over num_rounds rounds of every K from 0 to MAX_K, mixed."""
    draft, target = DraftClient(draft_address), TargetClient(target_address)
    rounds = BareRounds(draft, target, prompt)
    spent = defaultdict[int, list[Spent]](list)
    for turn in range(-2, num_rounds):
        for k in range(MAX_K + 1):
            one = await rounds.round(k)
            if turn >= 0:
                spent[k].append(one)
    rounds.end()
    await asyncio.gather(draft.close(), target.close())
    with_draft = [(k, one) for k in range(1, MAX_K + 1) for one in spent[k]]
    return CostModel(
        steps={k + 1: statistics.median(one.step_s for one in ones) for k, ones in spent.items()},
        draft_step_s=statistics.median(one.draft_s / k for k, one in with_draft),
        draft_trip_s=statistics.median(one.draft_trip_s for _, one in with_draft),
        target_trip_s=statistics.median(one.target_trip_s for _, one in with_draft),
        plain_s=statistics.median(one.target_trip_s for one in spent[0]),
    )
