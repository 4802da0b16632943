"""A draft's stream as a gateway uses it that has its draft run ahead of verdicts."""

from forerun.rpc.messages import Ahead, Proposal
from forerun.transcript_hash import transcript_hash
from tests.support.wire import DraftLine, speculated

NUM_BRANCHES = 8


class AheadLine(DraftLine):
    """Proposes what was pushed for a transcript where something was; every push is waited for before that is known.

    rounds: of each proposal whether it was there already, and what it was. ahead_k: tokens of a branch.
    """

    def __init__(self, *opened, ahead_k, num_branches=NUM_BRANCHES, **more):
        super().__init__(*opened, **more)
        self.ahead = {"num_branches": num_branches, "ahead_k": ahead_k}
        self.ahead_k = ahead_k
        self.pushed, self.rounds = {}, []

    @property
    def num_hits(self):
        return sum(is_hit for is_hit, _ in self.rounds)

    async def propose(self, transcript, k, base_len=None):
        """The proposal for `transcript`, at most k tokens of it where it has to be asked for."""
        ready = self.pushed.get(transcript_hash(transcript))
        is_hit = ready is not None
        if is_hit:
            self.ask(transcript, len(ready.tokens), base_len, known=True, **self.ahead)
        else:
            self.ask(transcript, k, base_len, **self.ahead)
            ready = await self._answer()
        await self._gather()
        self.rounds.append((is_hit, ready))
        return ready

    async def _answer(self):
        reply = await self.reply()
        if isinstance(reply, Ahead):
            assert len(reply.branches) == 1
            return reply.branches[0].proposal
        assert isinstance(reply, Proposal), f"expected a proposal, got {reply!r}"
        return reply

    async def _gather(self):
        """Both groups of branches: those after a rejection, and those after a full acceptance."""
        self.pushed = {}
        while len(self.pushed) < self.ahead["num_branches"]:
            for branch in (await self.expect(Ahead)).branches:
                assert branch.hash not in self.pushed
                self.pushed[branch.hash] = branch.proposal


async def drafted_ahead(target, draft, prompt, num_tokens, params, seed=0, k=4, **line):
    """`speculated` with a draft that runs ahead; gives the run and the line."""
    drafter = AheadLine(draft, prompt, params, seed, ahead_k=k, **line)
    try:
        return await speculated(target, drafter, prompt, num_tokens, params, seed, k=k), drafter
    finally:
        await drafter.finish()
