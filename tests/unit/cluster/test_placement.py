"""Where replicas go, how many there are, and what they run."""

import pytest

from forerun.cluster.config import RayConfig
from forerun.cluster.load import Load, parse
from forerun.cluster.nodes import Node, choose
from forerun.cluster.plan import make_plan
from forerun.cluster.scaling import BUSY_LOOKS, QUIET_LOOKS, Scaler
from forerun.errors import ConfigError

GPU = {"CPU": 1.0, "GPU": 1.0}
ROOMY = {"CPU": 8.0, "GPU": 4.0}


def test_drafts_and_targets_are_kept_apart_first():
    nodes = [Node("a", ROOMY, ["target"]), Node("b", ROOMY, ["draft", "draft"])]
    assert choose(nodes, "draft", GPU, 1) == "b"
    assert choose(nodes, "target", GPU, 2) == "a"


def test_replicas_of_one_service_are_spread_next():
    assert choose([Node("a", ROOMY, ["target"]), Node("b", ROOMY)], "target", GPU, 1) == "b"


def test_all_ranks_of_a_replica_need_room_on_the_node():
    nodes = [Node("a", {"CPU": 8.0, "GPU": 1.0}), Node("b", {"CPU": 8.0, "GPU": 2.0}, ["draft"])]
    assert choose(nodes, "target", GPU, 2) == "b"
    assert choose(nodes, "target", GPU, 3) is None
    assert choose([], "target", GPU, 1) is None


def looks(scaler, size, load, count):
    """The sizes after so many equal looks, each replica with `load`."""
    sizes = []
    for _ in range(count):
        size = scaler.look(size, [load] * size)
        sizes.append(size)
    return sizes


def test_a_queue_that_stays_adds_a_replica_up_to_the_most():
    scaler = Scaler(1, 2, up_queue=4, down_running=4, is_held_back=False)
    assert looks(scaler, 1, Load(4, 64), BUSY_LOOKS) == [1] * (BUSY_LOOKS - 1) + [2]
    assert looks(scaler, 2, Load(40, 64), 10) == [2] * 10


def held_back(fewest, most):
    return Scaler(fewest, most, up_queue=4, down_running=4, is_held_back=True)


def test_a_pool_that_is_nearly_full_grows_though_nobody_waits_there():
    """The gateway holds back what targets do not run; not all of them need be full for that."""
    assert looks(held_back(1, 2), 1, Load(0, 5, 64, 64), BUSY_LOOKS) == [1] * (BUSY_LOOKS - 1) + [2]
    uneven = [Load(0, 5, 64, 64), Load(0, 5, 56, 64)]
    scaler = held_back(1, 4)
    assert [scaler.look(2, uneven) for _ in range(BUSY_LOOKS)] == [2] * (BUSY_LOOKS - 1) + [3]
    assert looks(held_back(1, 4), 2, Load(0, 5, 50, 64), 10) == [2] * 10


def test_drafts_are_not_full_while_nobody_waits_for_them():
    scaler = Scaler(1, 4, up_queue=4, down_running=4, is_held_back=False)
    assert looks(scaler, 1, Load(0, 9, 128, 64), 10) == [1] * 10


def test_one_that_still_loads_is_not_taken_away_while_those_that_serve_are_full():
    scaler = held_back(1, 2)
    assert [scaler.look(2, [Load(0, 1, 1, 1)]) for _ in range(10)] == [2] * 10


def test_a_steady_load_does_not_make_it_shrink_and_grow_for_ever():
    scaler, size = held_back(1, 2), 2
    for _ in range(5 * QUIET_LOOKS):
        size = scaler.look(size, [Load(0, 0, 4 / size, 4)] * size)
    assert size == 2


def test_a_burst_adds_none():
    scaler = Scaler(1, 4, up_queue=4, down_running=4, is_held_back=False)
    for load in (Load(9, 9), Load(3, 9)) * 10:
        assert scaler.look(1, [load]) == 1


def test_no_replica_is_added_while_one_still_loads():
    scaler = Scaler(1, 4, up_queue=4, down_running=4, is_held_back=False)
    assert [scaler.look(2, [Load(90, 64)]) for _ in range(10)] == [2] * 10


def test_a_lull_that_stays_takes_replicas_away_down_to_the_fewest():
    scaler = Scaler(1, 3, up_queue=4, down_running=4, is_held_back=False)
    sizes = looks(scaler, 3, Load(0, 1), 3 * QUIET_LOOKS)
    assert sizes == [3] * (QUIET_LOOKS - 1) + [2] * QUIET_LOOKS + [1] * (QUIET_LOOKS + 1)


def test_none_is_taken_away_whose_work_the_rest_could_not_carry():
    scaler = Scaler(1, 3, up_queue=4, down_running=4, is_held_back=False)
    assert looks(scaler, 2, Load(0, 3), 10) == [2] * 10


def test_one_that_finds_no_room_keeps_none_of_the_others():
    scaler = Scaler(1, 4, up_queue=4, down_running=4, is_held_back=False)
    sizes = [scaler.look(4, [Load(0, 0)] * 3) for _ in range(QUIET_LOOKS)]
    assert sizes == [4] * (QUIET_LOOKS - 1) + [3]
    assert [scaler.look(4, [Load(0, 5)] * 3) for _ in range(10)] == [4] * 10  # 15 are too many for the rest


def test_one_that_does_not_say_is_not_idle():
    scaler = Scaler(1, 4, up_queue=4, down_running=4, is_held_back=False)
    for loads in ([Load(0, 0), None], []):
        assert [scaler.look(2, loads) for _ in range(10)] == [2] * 10


def test_the_load_is_read_from_a_scrape():
    told = {"num_requests_waiting": 3, "num_requests_running": 2, "open_streams": 7, "max_sequences": 16}
    text = "".join(f"# TYPE forerun_{name} gauge\nforerun_{name} {value}\n" for name, value in told.items())
    assert parse(text) == Load(3.0, 2.0, 7.0, 16.0)
    assert parse("") == Load(0.0, 0.0, 0.0, 0.0)


def test_what_a_replica_runs_follows_from_the_flags():
    config = RayConfig(model="m", targets=2, tensor_parallel=2, target_gpus=1.0, target_args="--precision bf16")
    target, draft = make_plan(config)
    assert target.module_args == (
        "target_service", "--model", "m", "--device", "cuda", "--precision", "bf16", "--tensor-parallel", "2",
    )  # fmt: skip
    assert (target.bundle, target.num_ranks, target.fewest, target.most) == (GPU, 2, 2, 2)
    assert draft.module_args == ("draft_service", "--method", "ngram", "--target-model", "m")
    assert (draft.bundle, draft.num_ranks) == ({"CPU": 1.0}, 1)


def test_numbers_that_no_cluster_could_satisfy_are_refused():
    with pytest.raises(ConfigError, match="--targets"):
        RayConfig(targets=0)
    with pytest.raises(ConfigError, match="--draft-cpus"):
        make_plan(RayConfig(draft_cpus=0.0))
