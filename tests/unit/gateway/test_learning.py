"""What a sequence shows is learnt as its pair's, as long as it runs on that pair."""

import asyncio

import pytest

from forerun.v1 import target_pb2
from gateway.calibration import Calibrating
from gateway.learning import Learning
from gateway.pair import PairRecord
from gateway.speculation import Speculation
from gateway.transcript import Transcript


def follow(learning, seconds):
    for _ in range(20):
        learning.saw_alone(target_pb2.Verdict(step_s=seconds, num_rows=1), more_is_due=True)
        learning.saw_pace(1, 1)


def test_times_of_another_target_are_not_the_pairs():
    async def run():
        pair = PairRecord()
        calibrating = Calibrating(pair.calibration)
        learning = Learning(pair.costs, Speculation(pair, "", None), Transcript([1]), calibrating)
        follow(learning, 0.010)
        known = pair.costs.steps.at(1)
        assert known == pytest.approx(0.010)
        learning.moved()
        follow(learning, 0.500)
        assert pair.costs.steps.at(1) == known

    asyncio.run(run())
