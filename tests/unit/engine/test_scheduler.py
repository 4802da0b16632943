"""Who is computed when: decoding first, prefill in chunks, nobody starves, nobody loses anything (case 28)."""

import numpy as np
import pytest

from forerun.engine.block_pool import BlockPool
from forerun.engine.scheduler import LATELY, SHORT, Scheduler
from forerun.engine.sequence import Sequence
from forerun.engine.sequence_table import SequenceTable
from tests.unit.engine.cache_world import BLOCK_SIZE, CacheWorld


def opened(world, *lengths):
    """One sequence per length, each with its own tokens and one logit due."""
    sequences = [world.open([index * 1000 + place for place in range(length)]) for index, length in enumerate(lengths)]
    for sequence in sequences:
        world.table.demand(sequence, 1)
    return sequences


def run_until_idle(world, num_steps=500, **limits):
    for _ in range(num_steps):
        if not any(sequence.num_due for sequence in world.sequences):
            return
        world.step(**limits)
        world.check()
    pytest.fail("a due sequence never ran")


def test_decoding_comes_before_a_prefill_that_arrived_earlier():
    world = CacheWorld(num_blocks=100)
    prompt, chat = opened(world, 200, 3)
    assert world.step(max_rows=64, prefill=20) == [(chat, 3), (prompt, 20)]


def test_a_prefill_budget_of_nothing_still_lets_decoding_run():
    world = CacheWorld(num_blocks=100)
    _, chat = opened(world, 200, 3)
    assert world.step(max_rows=64, prefill=0) == [(chat, 3)]


def test_a_long_prompt_is_computed_in_chunks_and_its_logits_come_last():
    world = CacheWorld(num_blocks=100)
    (prompt,) = opened(world, 100)
    chunks = []
    while prompt.num_due:
        chunks += [count for _, count in world.step(max_rows=64, prefill=40)]
    assert chunks == [40, 40, 20]


def test_positions_whose_logits_are_due_stay_in_one_step():
    world = CacheWorld(num_blocks=100)
    (prompt,) = opened(world, 100)
    world.table.demand(prompt, 30)
    chunks = []
    while prompt.num_due:
        chunks += [count for _, count in world.step(max_rows=64, prefill=40)]
    assert chunks == [40, 30, 30]


def test_more_logits_than_a_step_has_rows_are_computed_in_a_step_of_their_own():
    world = CacheWorld(num_blocks=100)
    (prompt,) = opened(world, 100)
    world.table.demand(prompt, 80)
    run_until_idle(world, max_rows=48, prefill=16)
    assert prompt.num_computed == 100


def test_two_prompts_share_a_budget_in_order_of_arrival():
    world = CacheWorld(num_blocks=100)
    first, second = opened(world, 60, 90)
    assert world.step(max_rows=200, prefill=70) == [(first, 60), (second, 10)]


def test_a_step_never_holds_more_rows_than_it_may():
    world = CacheWorld(num_blocks=400, max_running=50)
    opened(world, *[7] * 20, 150, 80)
    for _ in range(30):
        assert sum(count for _, count in world.step(max_rows=48, prefill=1000)) <= 48


def test_where_a_step_has_no_room_for_all_those_served_least_recently_go_first():
    world = CacheWorld(num_blocks=400, max_running=50)
    sequences = opened(world, *[1] * 12)
    served = dict.fromkeys(sequences, 0)
    for _ in range(12):
        for sequence, _ in world.step(max_rows=4, prefill=0):
            served[sequence] += 1
            sequence.tokens.append(1)
            world.table.demand(sequence, 1)
    assert set(served.values()) == {4}


def test_idle_streams_do_not_keep_a_new_one_out():
    world = CacheWorld(num_blocks=100, max_running=2)
    idle = opened(world, 5, 6)
    run_until_idle(world)
    (new,) = opened(world, 4)
    assert world.step() == [(new, 4)]
    assert all(sequence.num_computed for sequence in idle), "there were blocks for all"


def test_idle_sequences_give_up_their_blocks_first():
    world = CacheWorld(num_blocks=6)
    busy, idle, late = opened(world, 8, 8, 4)
    run_until_idle(world)
    late.tokens += [1] * 7
    world.table.demand(late, 1)
    world.step()
    assert (busy.num_computed, idle.num_computed, late.num_computed) == (8, 0, 11)
    assert idle.num_due == 0, "nobody asks for it: it is not computed again"
    assert world.step() == []


def test_what_idle_sequences_share_can_be_had_by_evicting_them_all():
    """Two choices of one prompt, between rounds; a newcomer needs more than is free."""
    world = CacheWorld(num_blocks=5)
    prompt = list(range(12))
    choices = [world.open([*prompt, 50]), None]
    world.table.demand(choices[0], 1)
    run_until_idle(world)
    choices[1] = world.open([*prompt, 60])
    world.table.demand(choices[1], 1)
    run_until_idle(world)
    assert world.pool.num_free == 0
    newcomer = world.open([70 + i for i in range(12)])
    world.table.demand(newcomer, 1)
    run_until_idle(world)
    assert newcomer.num_computed == 12


def test_idle_sequences_keep_their_blocks_where_giving_them_up_would_not_help():
    world = CacheWorld(num_blocks=8)
    idle, busy = opened(world, 4, 12)
    run_until_idle(world)
    busy.tokens += [1]
    world.table.demand(busy, 1)
    opened(world, 28)
    world.step()
    assert (idle.num_computed, busy.num_computed) == (4, 13)


def rounds_and_rows(num_streams, num_idle_steps, step_s, num_steps=500):
    """What streams of 100 tokens come to in a pool for ten: rounds of 5 rows, between two of them num_idle_steps."""
    clock = iter(step * step_s for step in range(num_steps))
    table = SequenceTable(BlockPool(10 * 27, BLOCK_SIZE), "model")
    scheduler = Scheduler(table, 64, lambda: next(clock))
    streams = [
        Sequence(list(range(1000 * number, 1000 * number + 100)), num_committed=100) for number in range(num_streams)
    ]
    asks_at, num_rounds, num_rows = dict.fromkeys(streams, 0), 0, 0
    for stream in streams:
        scheduler.add(stream)
    for step in range(num_steps):
        for stream in (s for s in streams if asks_at[s] == step):
            stream.tokens += [1, 2, 3, 4]
            table.demand(stream, 5)
        for piece in scheduler.schedule(1000, lambda num_decode_rows: 200):
            stream = piece.sequence
            stream.num_computed += piece.num_tokens
            num_rows += piece.num_tokens
            if stream.num_due == 0:
                table.truncate(stream, 100)
                asks_at[stream] = step + 1 + num_idle_steps
                num_rounds += 1
    return num_rounds, num_rows


@pytest.mark.parametrize(
    ("num_idle_steps", "step_s"),
    [
        pytest.param(1, 0.03, id="a target, and a draft in between"),
        pytest.param(5, 0.5, id="a slow target"),
        pytest.param(30, 0.003, id="a draft, and its target in between"),
    ],
)
@pytest.mark.parametrize("num_streams", [11, 16])
def test_streams_too_many_for_the_pool_wait_and_take_nothing_from_those_between_two_rounds(
    num_streams, num_idle_steps, step_s
):
    full_rounds, full_rows = rounds_and_rows(10, num_idle_steps, step_s)
    num_rounds, num_rows = rounds_and_rows(num_streams, num_idle_steps, step_s)
    assert num_rounds >= 0.95 * full_rounds
    assert num_rows <= 1.1 * full_rows + 100 * num_streams, "each prompt is computed once more at most"


def test_two_streams_in_a_pool_for_one_take_turns_when_the_other_rests():
    world = CacheWorld(num_blocks=4)
    first, second = opened(world, 12, 12)
    run_until_idle(world)
    for resting, asking in ((second, first), (first, second), (second, first)):
        world.table.demand(asking, 1)
        run_until_idle(world, num_steps=2 * LATELY, prefill=16)
        assert asking.num_computed == 12
        assert resting.num_computed == 0


def test_the_last_to_arrive_is_preempted_and_computed_again():
    world = CacheWorld(num_blocks=5)
    first, second = opened(world, 8, 11)
    run_until_idle(world)
    for sequence in (first, second):
        sequence.tokens += [5, 6]
        world.table.demand(sequence, 2)
    tokens = list(second.tokens)
    assert [sequence for sequence, _ in world.step()] == [first]
    assert second in world.scheduler.waiting
    assert (second.num_computed, second.num_logits, world.scheduler.num_preemptions) == (0, 2, 1)
    world.close(first)
    run_until_idle(world)
    assert (second.tokens, second.num_computed) == (tokens, len(tokens))


@pytest.mark.parametrize("seed", range(5))
def test_in_a_pool_for_two_ten_growing_sequences_all_reach_their_end(seed):
    generator = np.random.default_rng(seed)
    world = CacheWorld(num_blocks=24, max_running=8)
    waiting = opened(world, *generator.integers(1, 50, size=10))
    ends = {sequence: len(sequence.tokens) + 30 for sequence in waiting}
    for _ in range(3000):
        for sequence, _ in world.step(max_rows=48, prefill=16):
            if sequence.num_due == 0:
                sequence.tokens.append(int(generator.integers(100)))
                world.table.demand(sequence, 1)
                if len(sequence.tokens) >= ends[sequence]:
                    world.close(sequence)
        world.check()
        if not world.sequences:
            break
    assert not world.sequences
    assert world.scheduler.num_preemptions > 0, "the pool was too large to prove anything"
    assert world.pool.num_free == world.pool.num_blocks


def test_a_late_prompt_is_not_overtaken_for_ever_by_new_ones():
    world = CacheWorld(num_blocks=12, max_running=8)
    running = opened(world, 20, 20)
    world.step(max_rows=64, prefill=64)
    (late,) = opened(world, 40)
    for number in range(200):
        newcomer = world.open([10_000 + number] * 6)
        world.table.demand(newcomer, 1)
        world.step(max_rows=64, prefill=64)
        if number == 5:
            for sequence in running:
                world.close(sequence)
        if late.num_due == 0:
            return
        for sequence in [s for s in world.sequences if s.num_due == 0 and s is not late and s not in running]:
            world.close(sequence)
    pytest.fail("the late prompt never ran")


def test_a_prefix_is_reused_after_its_sequence_has_gone():
    world = CacheWorld(num_blocks=20)
    (first,) = opened(world, 13)
    run_until_idle(world)
    world.close(first)
    (second,) = opened(world, 13)
    assert world.step() == [(second, 1)]
    assert second.num_cached_tokens == 12


def test_a_whole_prompt_in_the_cache_still_has_its_last_token_computed():
    world = CacheWorld(num_blocks=20)
    opened(world, 12)
    run_until_idle(world)
    (second,) = opened(world, 12)
    assert world.step() == [(second, BLOCK_SIZE)]
    assert second.num_cached_tokens == 12 - BLOCK_SIZE


def test_asking_for_less_than_is_computed_leaves_nothing_due():
    world = CacheWorld(num_blocks=20)
    (sequence,) = opened(world, 9)
    run_until_idle(world)
    sequence.request(8, num_logits=0)
    assert sequence.num_due == 0


def test_a_verification_of_many_drafted_tokens_still_counts_as_decoding():
    assert SHORT >= 17


def test_a_prefill_stays_small_while_a_stream_waits_between_two_messages_and_grows_when_it_rests():
    world = CacheWorld(num_blocks=100)
    chat, prompt = opened(world, 3, 400)
    seen = []

    def budget(num_decode_rows):
        seen.append(num_decode_rows)
        return 8 if num_decode_rows else 40

    chunks = []
    for _ in range(LATELY + 2):
        slices = world.scheduler.schedule(64, budget)
        chunks.append(next((piece.num_tokens for piece in slices if piece.sequence is prompt), 0))
        for piece in slices:
            piece.sequence.num_computed += piece.num_tokens
    assert chat.num_due == 0
    assert chunks == [8] * LATELY + [40, 40]


def forked(world, parent, num, length, room):
    return [world.fork(parent, length, [900 + i], room) for i in range(num)]


def test_forks_are_computed_beside_all_others_and_leave_them_their_places():
    world = CacheWorld(num_blocks=100, max_running=2)
    first, second = opened(world, 9, 9)
    run_until_idle(world)
    forks = forked(world, first, 3, 9, 12)
    world.table.demand(second, 1)
    assert world.step(max_rows=64) == [(second, 1), (forks[0], 1)]
    (third,) = opened(world, 3)
    assert world.step(max_rows=64)[0] == (third, 3)
    run_until_idle(world)


def test_whoever_needs_blocks_takes_those_of_forks_first_and_never_the_other_way_round():
    world = CacheWorld(num_blocks=8, max_running=4)
    idle, parent = opened(world, 4, 9)
    run_until_idle(world)
    forks = forked(world, parent, 5, 9, 16)
    assert [fork is not None for fork in forks] == [True, True, False, False, False]
    (newcomer,) = opened(world, 12)
    world.step(max_rows=64, prefill=64)
    world.check()
    assert newcomer.num_due == 0
    assert idle.block_table and parent.block_table, "neither a neighbour nor the parent had to go"
    assert forks[0].block_table and not forks[1].block_table
    assert forks[1] not in world.sequences, "a fork that gave way is told, and never asks for blocks again"


def test_a_fork_shares_full_blocks_and_computes_its_own_tokens_alone():
    world = CacheWorld(num_blocks=20)
    (parent,) = opened(world, 2 * BLOCK_SIZE + 3)
    run_until_idle(world)
    fork = world.fork(parent, 2 * BLOCK_SIZE + 2, [77], 2 * BLOCK_SIZE + 4)
    assert fork.block_table[:2] == parent.block_table[:2] and fork.block_table[2] != parent.block_table[2]
    assert world.step(max_rows=64) == [(fork, 1)]
    assert world.fork(parent, len(parent.tokens) + 1, [77], 99) is None, "what is not computed cannot be forked"


def test_a_fork_that_was_adopted_gives_way_no_more_easily_than_others():
    world = CacheWorld(num_blocks=5)
    (parent,) = opened(world, 9)
    run_until_idle(world)
    kept, spare = forked(world, parent, 2, 9, 12)
    kept.expendable = False
    world.close(parent)
    run_until_idle(world)
    world.table.demand(world.open(range(5000, 5008)), 1)
    world.step(max_rows=64, prefill=64)
    world.check()
    assert kept.block_table and not spare.block_table
