"""Rounds with nothing but the wire: draft and target over their own streams, no gateway, fixed K.

What it measures is the material of the cost model: T_v by the number of rows, t_d, and R, the rest of a round.
"""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.cost_model import CostModel
from forerun.errors import ForerunError
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.rpc.convert import sampling_to_pb
from forerun.rpc.messages import DraftOpen, DraftRequest, Finish, Proposal, Propose, TargetOpen, TargetRequest, Verify
from forerun.types import SamplingParams, Verification
from gateway.transcript import Transcript

GREEDY = SamplingParams(temperature=0, verification=Verification.MATCH)
MAX_K = 8
WAIT_S = 60.0


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

    async def round(self, k: int) -> tuple[float, float, float]:
        """Runs one; returns its duration, the draft's work and the target's step, in seconds."""
        start = time.perf_counter()
        proposal, draft_s = None, 0.0
        if k > 0:
            proposal = await self._proposal(k)
            draft_s = proposal.draft_s
        verdict = await self._verdict(proposal)
        duration = time.perf_counter() - start
        accepted = proposal.tokens[: verdict.num_accepted] if proposal is not None else ()
        self._transcript.commit([*accepted, verdict.token])
        self._targets_len = len(self._transcript)
        return duration, draft_s, verdict.step_s

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
    steps, rests, draft_steps = defaultdict[int, list[float]](list), defaultdict[bool, list[float]](list), []
    for turn in range(-2, num_rounds):
        for k in range(MAX_K + 1):
            duration, draft_s, step_s = await rounds.round(k)
            if turn < 0:
                continue
            steps[k + 1].append(step_s)
            rests[k > 0].append(duration - draft_s - step_s)
            if k:
                draft_steps.append(draft_s / k)
    rounds.end()
    await asyncio.gather(draft.close(), target.close())
    return CostModel(
        draft_step_s=statistics.median(draft_steps),
        steps={rows: statistics.median(values) for rows, values in steps.items()},
        round_s=statistics.median(rests[True]),
        plain_s=statistics.median(rests[False]),
    )
