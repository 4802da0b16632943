"""A simulated draft that runs ahead of verdicts, on a device of its own or on one that it shares with the target."""

import asyncio
from dataclasses import dataclass

from forerun.rpc.messages import Ahead, Branch, DraftReply, Proposal
from forerun.transcript_hash import transcript_hash
from tests.support.coordinating import Collector
from tests.support.simulated_devices import WRONG, _Drafting
from tests.support.simulation import PROMPT_LEN, House, World, uniform


@dataclass
class AheadWorld(World):
    """foresight: how often the outcome is among those that are drafted for. A target step takes slowdown times as long
    while the draft works ahead: 1 for a device of its own.
    """

    foresight: float = 0.7
    slowdown: float = 1.0

    def transcript(self, stream, length):
        return [stream, *(self.text(stream, place) for place in range(1, length))]


class _AheadDrafting(_Drafting):
    """Foresees or not, as the world says; a branch takes a step for the outcome and one for each of its tokens."""

    num_steps, ahead = 0, (0, 0)

    def take(self, message):
        propose = message.propose
        pushed, self.num_steps = self.ready(propose), 0
        super().take(message)
        self.ahead = propose.num_branches, propose.ahead_k
        if propose.known or pushed is not None:
            least = 0.0 if propose.known else propose.min_survival
            self.tokens, self.due = self.guesses(self.base_len, propose.k, least), 0
            if not propose.known:
                self.reply(DraftReply(ahead=Ahead(branches=[pushed])))
            self.go_ahead()

    def ready(self, propose):
        """The branch for this transcript, if it was finished already."""
        length = propose.base_len + len(propose.ids)
        done = self.ahead[0] and not self.num_steps and not self.due and self.foresees(length)
        return self.branch(length, propose.k) if done and len(self.tokens) else None

    def num_rows(self):
        return int(self.due > 0 or self.num_steps > 0)

    def take_work(self):
        return self.base_len, self.due > 0

    def finish(self, work, rows, step_s):
        base_len, is_asked = work
        if base_len != self.base_len or is_asked != (self.due > 0):
            return
        if is_asked:
            super().finish(base_len, rows, step_s)
            if not self.due:
                self.go_ahead()
        elif self.num_steps:
            self.num_steps -= 1
            if not self.num_steps:
                self.push()

    def go_ahead(self):
        self.num_steps = 1 + self.ahead[1] if self.ahead[0] else 0

    def push(self):
        length = self.base_len
        for token in self.tokens:
            length += token == self.world.text(self.name, length)
            if token == WRONG:
                break
        if self.foresees(length + 1):
            self.reply(DraftReply(ahead=Ahead(branches=[self.branch(length + 1, self.ahead[1])])))

    def foresees(self, length):
        return uniform("foresight", self.world.seed, self.name, length) < self.world.foresight

    def branch(self, length, k):
        hash_ = transcript_hash(self.world.transcript(self.name, length))
        return Branch(hash=hash_, proposal=Proposal(base_len=length, tokens=self.guesses(length, k, self.min_survival)))

    def guesses(self, base_len, k, min_survival):
        """Up to k tokens: fewer where the draft knows that it is unsure."""
        tokens, survival = [], 1.0
        while len(tokens) < k and (not tokens or self.world.outlook(survival, len(tokens)) >= min_survival):
            place = self.name, base_len + len(tokens), len(tokens)
            survival *= self.world.skill(*place)
            tokens.append(self.world.text(*place[:2]) if self.world.knows(*place) else WRONG)
        return tokens


async def token_s(world, num_tokens, k, num_choices=1):
    """Seconds a token of the last choice, its stats, and how many of all proposals were there ahead."""
    house, loop = House(world), asyncio.get_running_loop()
    house.draft.kind = _AheadDrafting
    house.target.step_s = lambda sequences, rows, now: (
        world.target_s(rows) * (world.slowdown if any(stream.num_steps for stream in house.draft.streams) else 1.0)
    )
    for stream in range(num_choices):
        started, sink = loop.time(), Collector()
        stats = await house.generate(stream, num_tokens, k, sink)
        assert sink.tokens == [world.text(stream, PROMPT_LEN + i) for i in range(num_tokens)]
        seconds = (loop.time() - started) / num_tokens
    names = ("forerun_ahead_hits_total", "forerun_spec_decode_num_drafts_total")
    hits, drafts = (house.registry.get_sample_value(name) for name in names)
    return seconds, stats, hits / max(drafts, 1)
