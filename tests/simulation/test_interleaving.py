"""With several requests the draft works for some while the target verifies others: nobody has to arrange it.

A step takes whatever is due when it begins; who is answered drafts during the next one. So the groups form by
themselves, and the draft's time and its link are hidden behind the target's steps.
"""

import pytest

from tests.support.simulated_devices import TargetDevice
from tests.support.simulation import World, speed
from tests.support.virtual_time import run

START_S, WINDOW_S = 1.0, 4.0
K = 4


def busy(world, num_streams, monkeypatch):
    """Tokens/s of the streams, the share of the time in which the target works, and the sequences of a mean step."""
    steps = []
    original = TargetDevice.step_s

    def step_s(device, sequences, rows, now):
        seconds = original(device, sequences, rows, now)
        if START_S <= now < START_S + WINDOW_S:
            steps.append((seconds, sequences))
        return seconds

    monkeypatch.setattr(TargetDevice, "step_s", step_s)
    tokens_per_s = run(speed(world, num_streams, K, START_S, WINDOW_S))
    worked = sum(seconds for seconds, _ in steps)
    return tokens_per_s, worked / WINDOW_S, sum(sequences for _, sequences in steps) / len(steps)


@pytest.mark.parametrize("num_streams", [2, 4, 16])
def test_the_target_rests_hardly_ever_where_several_run(num_streams, monkeypatch):
    _, share, mean_sequences = busy(World(noise=0.1), num_streams, monkeypatch)
    assert share > 0.95
    assert mean_sequences < 0.7 * num_streams, "the others are being drafted for"


def test_two_streams_hide_the_draft_of_each_other(monkeypatch):
    """Two cost the target as much as one and its waits: more than 1.4 times the tokens of a lone stream."""
    lone, _, _ = busy(World(noise=0.1), 1, monkeypatch)
    two, _, _ = busy(World(noise=0.1), 2, monkeypatch)
    assert two > 1.4 * lone


def test_control_a_lone_stream_has_the_target_wait_for_its_draft(monkeypatch):
    _, share, _ = busy(World(noise=0.1), 1, monkeypatch)
    assert share < 0.75
