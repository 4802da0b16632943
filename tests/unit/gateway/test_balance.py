"""Who gets a new sequence: prompts stick, nobody gets much more than a share, and lost replicas move only their own."""

from collections import Counter
from dataclasses import dataclass

import pytest

from gateway.balance import BOUND, choose, sticky_key
from gateway.load import Load


@dataclass(eq=False)
class Host:
    address: str
    num_running: float = 0
    step_s: float | None = None


def hosts(num, **known):
    return [Host(f"host{i}:1", **known) for i in range(num)]


def keys(num):
    return [sticky_key(range(i, i + 100), "") for i in range(num)]


def admit(replicas, some_keys):
    """Gives each sequence a replica, and none ends."""
    for key in some_keys:
        choose(key, replicas).num_running += 1
    return [replica.num_running for replica in replicas]


def test_one_prompt_goes_to_one_replica_until_that_has_more_than_its_share():
    replicas, [key] = hosts(4), keys(1)
    order = [choose(key, replicas).address]
    for _ in range(39):
        choose(key, replicas).num_running += 1
        order.append(choose(key, replicas).address)
    assert max(replica.num_running for replica in replicas) <= BOUND * 40 / 4 + 1
    assert order[0] == Counter(order).most_common(1)[0][0]
    assert set(order) == {replica.address for replica in replicas}  # the rest goes on down its list of preferences


@pytest.mark.parametrize("num", [2, 3, 16])
def test_no_replica_holds_more_than_its_bound_whatever_the_prompts(num):
    """A burst of one prompt and of many at once."""
    for some_keys in (keys(1) * 200, keys(200), keys(5) * 40):
        counts = admit(hosts(num), some_keys)
        assert max(counts) <= BOUND * 200 / num + 1


def test_a_replica_at_half_the_speed_gets_half():
    fast, slow = Host("fast:1", step_s=0.01), Host("slow:1", step_s=0.02)
    admit([fast, slow], keys(1) * 300)
    assert slow.num_running <= BOUND * 100 + 1 and fast.num_running <= BOUND * 200 + 1


def test_sequences_of_other_gateways_count():
    """Busy with others by what its steps tell, the preferred replica is passed over."""
    replicas, [key] = hosts(2), keys(1)
    preferred = choose(key, replicas)
    preferred.num_running = 10
    assert choose(key, replicas) is not preferred


def test_gateways_that_know_the_same_replicas_agree_and_order_does_not_matter():
    replicas = hosts(7)
    for key in keys(50):
        assert choose(key, replicas) is choose(key, replicas[::-1])


def test_a_replica_that_joins_takes_its_share_and_moves_nobody_else():
    replicas, new = hosts(4), Host("new:1")
    moved = 0
    for key in keys(300):
        before, after = choose(key, replicas), choose(key, [*replicas, new])
        assert after in (before, new)
        moved += after is new
    assert 30 < moved < 90  # of 300, a fifth is 60; 4.3 standard deviations either way


def test_there_may_be_nobody():
    assert choose(b"", []) is None


def told(steps, num_own):
    """A load after steps of (rows, own rows, queued)."""
    load = Load()
    for at, (rows, own_rows, queued) in enumerate(steps):
        load.saw_step(0.01, rows, own_rows, queued, num_own, float(at) / 100)
    return load


def test_own_sequences_alone_are_no_load_of_others():
    load = told([(3, 1, 0)] * 100, num_own=3)
    assert (load.num_sequences(3), load.num_sequences(0), load.step_s) == (3, 0, 0.01)
    assert told([(12, 4, 0)] * 100, num_own=3).num_sequences(3) == 3  # each with three drafted tokens


def test_rows_and_queue_beyond_ones_own_are_others():
    assert told([(12, 1, 5)] * 200, num_own=2).num_sequences(2) == pytest.approx(17, abs=0.2)
    assert told([(20, 5, 0)] * 200, num_own=1).num_sequences(1) == pytest.approx(4, abs=0.1)


def test_somebodys_prompt_in_a_step_is_not_hundreds_of_sequences():
    assert told([(512, 1, 0), *[(2, 1, 0)] * 10], num_own=2).num_sequences(2) < 4


def test_a_probe_tells_of_a_replica_where_nothing_of_ours_runs():
    load = told([(4, 1, 0)] * 100, num_own=1)
    load.saw_info(50, num_own=1, now=1.5)
    assert load.num_sequences(1) < 5  # steps tell more
    load.saw_info(50, num_own=0, now=60.0)
    assert load.num_sequences(0) == 50
