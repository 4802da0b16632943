"""What a draft keeps of the logits that it drew from: of branches to be begun their own rows, else nothing."""

import queue
import threading
import weakref

import numpy as np
import pytest

from draft_service.drafted import Drafted
from draft_service.drawing import drawer
from draft_service.experience import Experience
from draft_service.session import DraftSession
from forerun.engine.block_pool import BlockPool
from forerun.engine.budget import PrefillBudget
from forerun.engine.loop import EngineLoop
from forerun.engine.scheduler import Scheduler
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from forerun.rpc.messages import Ahead, DraftOpen, Propose
from forerun.telemetry.metrics import ServiceMetrics, new_registry
from forerun.telemetry.tracing import Tracing
from forerun.transcript_hash import transcript_hash
from forerun.types import SamplingParams

PROMPT, VOCAB, K, WAIT_S = [1, 2, 3, 4, 5], 32, 4, 30
GREEDY = drawer(SamplingParams(temperature=0), len(PROMPT), bytes(16), np.arange(VOCAB), 1)


class RandomRunner:
    """Logits from a seed; `steps` are the arrays that it handed out, weakly."""

    def __init__(self):
        self._random = np.random.default_rng(1)
        self.steps = []

    def run(self, slices):
        num_logits = sum(piece.sequence.num_logits for piece in slices if piece.num_tokens == piece.sequence.num_due)
        logits = self._random.standard_normal((num_logits, VOCAB), np.float32)
        self.steps.append(weakref.ref(logits))
        return logits

    def copy_blocks(self, sources, copies):
        """There are none."""


@pytest.fixture
def runner():
    return RandomRunner()


@pytest.fixture
def loop(runner):
    table = SequenceTable(BlockPool(64, 4), "model")
    loop = EngineLoop(runner, table, Scheduler(table, 8), PrefillBudget(64), 256)
    loop.start()
    yield loop
    loop.stop()


def num_alive_after_a_proposal(loop, runner, num_branches):
    """Arrays of logits that are alive when a proposal, and what was drafted ahead of its verdict, was sent."""
    replies = queue.SimpleQueue()
    session = DraftSession(
        DraftOpen(prompt=PROMPT),
        GREEDY,
        Experience(),
        loop,
        64,
        VOCAB,
        replies.put,
        ServiceMetrics(new_registry("draft"), "draft"),
        Tracing(),
        None,
    )
    session.begin()
    session.receive(
        Propose(base_len=len(PROMPT), hash=transcript_hash(PROMPT), k=K, num_branches=num_branches, ahead_k=2)
    )
    assert len(replies.get(timeout=WAIT_S).tokens) == K
    num_ahead = 0
    while num_ahead < num_branches:
        pushed = replies.get(timeout=WAIT_S)
        assert isinstance(pushed, Ahead)
        num_ahead += len(pushed.branches)
    settled = threading.Event()
    loop.call(settled.set)
    assert settled.wait(WAIT_S)
    return sum(step() is not None for step in runner.steps)


@pytest.mark.parametrize("num_branches", [0, 3])
def test_a_step_whose_tokens_were_drafted_is_let_go_of(loop, runner, num_branches):
    assert num_alive_after_a_proposal(loop, runner, num_branches) == 0
    assert len(runner.steps) >= K


def test_a_row_is_kept_as_a_copy_where_it_is_kept_at_all():
    drafted = Drafted(Sequence(list(PROMPT)), len(PROMPT), num_due=2)
    logits = np.zeros((3, VOCAB), np.float32)
    drafted.draw(GREEDY, logits[-1], wants_q=False)
    assert drafted.rows == []
    drafted.keep(logits[-1])
    assert [row.base for row in drafted.rows] == [None]
