"""Devices that work in steps over whatever is due, behind links that take their time: a simulation.World's parts."""

import asyncio
import random

from forerun.rpc.messages import DraftReply, Proposal, TargetReply, Verdict

WRONG = 7  # what a draft says where it does not know


class _Device:
    """One step at a time over all streams with work; who comes during a step waits for the next."""

    def __init__(self, world):
        self.world, self.streams, self.stepping = world, [], False
        self.random = random.Random(world.seed)

    def open(self, first, deliver, metadata):
        stream = self.kind(self, first, deliver)
        self.streams.append(stream)
        return stream

    def wake(self):
        due = [stream for stream in self.streams if stream.num_rows()]
        if due and not self.stepping:
            self.stepping = True
            loop = asyncio.get_running_loop()
            rows = sum(stream.num_rows() for stream in due)
            batch = [(stream, stream.take_work()) for stream in due]
            noise = 1.0 + self.world.noise * self.random.uniform(-1.0, 1.0)
            work_s, started = self.step_s(len(due), rows, loop.time()) * noise, loop.time()
            self.world.cores.run(work_s, lambda: self.finish(batch, rows, loop.time() - started))

    def finish(self, batch, rows, step_s):
        self.stepping = False
        for stream, work in batch:
            if not stream.ended:
                stream.finish(work, rows, step_s)
        self.wake()


class _Stream:
    has_unsent = False

    def __init__(self, device, first, deliver):
        self.device, self.world, self.deliver = device, device.world, deliver
        self.ended, self.name, self.loop = False, first.prompt[0], asyncio.get_running_loop()
        self.arrives = {"in": 0.0, "out": 0.0}

    def post(self, message):
        self.send("in", self.receive, message)

    def receive(self, message):
        if not self.ended:
            self.take(message)
            self.device.wake()

    def end(self, message):
        if not self.ended:
            self.ended = True
            self.device.streams.remove(self)

    def reply(self, message):
        self.send("out", lambda message: self.ended or self.deliver(message), message)

    def send(self, direction, receive, message):
        """Messages of one direction never overtake each other."""
        late_s = self.device.random.uniform(0.0, self.world.jitter_s)
        self.arrives[direction] = max(self.loop.time() + self.link_s + late_s, self.arrives[direction] + 1e-9)
        self.loop.call_at(self.arrives[direction], receive, message)


class _Verifying(_Stream):
    """Produces the world's text; accepts what agrees with it."""

    def __init__(self, device, first, deliver):
        super().__init__(device, first, deliver)
        self.len, self.limit, self.drafted, self.link_s = len(first.prompt), 0, [], self.world.target_rtt_s / 2

    def take(self, message):
        verify = message.verify
        committed = verify.base_len + len(verify.ids)
        self.limit, self.asked_at = committed + 1 + verify.grant, self.loop.time()
        is_new = verify.HasField("proposal") and committed == self.len
        self.drafted = list(verify.proposal.tokens) if is_new else []

    def num_rows(self):
        return 1 + len(self.drafted) if self.limit > self.len else 0

    def take_work(self):
        return self.drafted

    def finish(self, drafted, rows, step_s):
        place = self.len
        while place - self.len < len(drafted) and drafted[place - self.len] == self.world.text(self.name, place):
            place += 1
        token, accepted = self.world.text(self.name, place), place - self.len
        queued_s = max(self.loop.time() - step_s - self.asked_at, 0.0)
        self.asked_at = self.loop.time()
        verdict = Verdict(
            base_len=self.len, num_accepted=accepted, token=token, step_s=step_s, num_rows=rows, queued_s=queued_s
        )
        self.len, self.drafted = place + 1, []
        self.reply(TargetReply(verdict=verdict))


class _Drafting(_Stream):
    """Knows the text as well as the world's skill says."""

    def __init__(self, device, first, deliver):
        super().__init__(device, first, deliver)
        self.due, self.tokens, self.base_len, self.link_s = 0, [], 0, self.world.draft_rtt_s / 2

    def take(self, message):
        propose = message.propose
        self.base_len, self.due, self.tokens = propose.base_len + len(propose.ids), propose.k, []
        self.started, self.min_survival, self.survival = self.loop.time(), propose.min_survival, 1.0
        self.deadline = self.started + (propose.deadline_s or 1e9)

    def num_rows(self):
        return int(self.due > 0)

    def take_work(self):
        return self.base_len

    def finish(self, base_len, rows, step_s):
        if base_len != self.base_len or not self.due:
            return
        place = base_len + len(self.tokens)
        knows = self.world.knows(self.name, place, len(self.tokens))
        if self.loop.time() <= self.deadline:
            self.survival *= self.world.skill(self.name, place, len(self.tokens))
            self.tokens.append(self.world.text(self.name, place) if knows else WRONG)
            self.due -= 1
            if self.world.outlook(self.survival, len(self.tokens)) < self.min_survival:
                self.due = 0
        else:
            self.due = 0
        if not self.due:
            draft_s = self.loop.time() - self.started
            self.reply(DraftReply(proposal=Proposal(base_len=base_len, tokens=self.tokens, draft_s=draft_s)))


class TargetDevice(_Device):
    kind = _Verifying

    def step_s(self, sequences, rows, now):
        return self.world.target_s(rows)


class DraftDevice(_Device):
    kind = _Drafting

    def step_s(self, sequences, rows, now):
        return self.world.draft_s(sequences, now)
