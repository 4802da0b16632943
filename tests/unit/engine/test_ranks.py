"""Ranks: what they are told survives the way, who may come, and what they notice."""

import queue
import threading

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, Phi3Config

from forerun.engine.attention.base import Segment
from forerun.engine.batch import Batch
from forerun.engine.ranks import orders, split
from forerun.engine.ranks.lines import Following, Leading
from forerun.engine.ranks.place import Place
from forerun.errors import ConfigError

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


def llama(num_heads, num_kv_heads):
    return LlamaConfig(hidden_size=72 * 8, num_attention_heads=num_heads, num_key_value_heads=num_kv_heads)


def rows(*numbers):
    return torch.tensor(numbers, dtype=torch.long)


def test_a_batch_is_decoded_as_it_was_encoded():
    segments = (Segment(0, 2, 18, [5, 3]), Segment(2, 1, 1, [7]))
    batch = Batch(rows(4, 5, 6), rows(16, 17, 0), rows(48, 49, 112), rows(1, 2), segments, (3, 7), (0, 32))
    decoded = orders.decode(orders.encode(batch))
    for name in ("input_ids", "positions", "slots", "logit_rows"):
        assert torch.equal(getattr(decoded, name), getattr(batch, name))
    assert (decoded.segments, decoded.entered, decoded.best_of) == (segments, (3, 7), (0, 32))


def test_a_step_without_logits_and_other_orders_are_decoded_too():
    prefill = Batch(rows(4), rows(0), rows(16), rows(), (Segment(0, 1, 1, [1]),))
    assert len(orders.decode(orders.encode(prefill)).logit_rows) == 0
    copy = orders.Copy((1, 2, 3), (6, 5, 4))
    assert orders.decode(orders.encode(copy)) == copy


def test_a_place_is_what_torchrun_says():
    assert Place.of(TORCHRUN, 2) == Place(1, 2, 0, "10.0.0.1")


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"RANK": None}, "needs RANK"), ({"WORLD_SIZE": "3"}, "WORLD_SIZE=3 is no rank"), ({"RANK": "x"}, "RANK='x'")],
)
def test_an_environment_that_names_no_rank_is_refused_with_a_way_out(changed, told):
    environ = {name: value for name, value in {**TORCHRUN, **changed}.items() if value is not None}
    with pytest.raises(ConfigError, match=told):
        Place.of(environ, 2)


@pytest.mark.parametrize(
    ("config", "size", "told"),
    [
        (llama(9, 3), 2, "9 attention heads and 3 key-value.*; 3 would"),
        (llama(8, 1), 2, "1 key-value heads$"),
        (Phi3Config(), 2, "phi3 has no plan that splits attention by heads"),
    ],
)
def test_a_model_whose_heads_cannot_be_dealt_out_is_refused(config, size, told):
    with pytest.raises(ConfigError, match=told):
        split.check(config, size)


def test_a_model_whose_heads_can_be_is_not():
    split.check(llama(9, 3), 3)


class Joined:
    """Rank 0 and rank 1 on a line."""

    def __init__(self):
        self.lost = queue.Queue()
        self.leading = Leading("127.0.0.1", 2, self.lost.put)
        waiting = threading.Thread(target=self.leading.wait_for_all)
        waiting.start()
        Following("127.0.0.1", 1, f"{self.leading.invitation.split()[0]} {'00' * 16}", self.lost.put)
        assert "rank 0 is gone" in str(self.lost.get(timeout=10))
        self.following = Following("127.0.0.1", 1, self.leading.invitation, self.lost.put)
        waiting.join(10)


def test_orders_arrive_in_order_and_a_stranger_is_turned_away():
    joined = Joined()
    for number in (1, 2):
        joined.leading.tell(np.array([number, 2**40], dtype=np.int64))
    assert [joined.following.hear().tolist() for _ in range(2)] == [[1, 2**40], [2, 2**40]]
    joined.leading.close()
    assert joined.following.hear() is None
    assert joined.lost.empty()


def test_each_side_notices_that_the_other_is_gone():
    joined = Joined()
    joined.following._end.shutdown(2)
    told = {str(joined.lost.get(timeout=10)) for _ in range(2)}
    assert any("rank 1 of 2 is gone" in words for words in told)
    assert any("rank 0 is gone" in words for words in told)
