"""Stickiness of prompts, health of replicas, and pairs that may not be."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from forerun.errors import ConfigError, DeadlineExceeded, ServiceUnavailable, VocabularyMismatch
from forerun.telemetry.metrics import GatewayMetrics
from gateway.balance import sticky_key
from gateway.coordinator import Coordinator
from gateway.pairing import PairCheck
from gateway.replicas import LOOK_S, PROBE_S, Replicas
from tests.support.coordinating import OURS
from tests.support.scripted_services import TOKENS, info
from tests.support.virtual_time import run


class Peer:
    def __init__(self, address, info_=None, tokens=TOKENS):
        self.address, self.name, self.answer, self.tokens = address, f"peer at {address}", info_, tokens
        self.hangs = False

    async def info(self, timeout_s=5.0):
        if self.hangs:
            await asyncio.sleep(timeout_s)
            raise DeadlineExceeded(f"{self.address} said nothing for {timeout_s} s")
        if self.answer is None:
            raise ServiceUnavailable(f"{self.address} does not answer")
        return self.answer

    async def vocabulary(self):
        return self.tokens

    async def close(self):
        pass


async def replicas(*peers, service="target"):
    found = Replicas(list(peers), PairCheck(OURS, service))
    for replica in found.all:
        await found.probe(replica)
    return found


KEYS = [sticky_key(range(i, i + 100), "") for i in range(300)]


async def test_prompts_that_begin_alike_stick_together_and_salts_part_them():
    assert sticky_key([1] * 64 + [2], "") == sticky_key([1] * 64 + [3], "")
    assert sticky_key([1] * 64, "") != sticky_key([1] * 64, "salt")


async def test_prompts_spread_and_only_those_of_a_lost_replica_move():
    found = await replicas(*(Peer(f"host{i}:1", info("target")) for i in range(3)))
    before = [found.pick(key) for key in KEYS]
    assert all(60 < before.count(replica) < 140 for replica in found.all)
    found.failed(found.all[1], ServiceUnavailable("gone"))
    after = [found.pick(key) for key in KEYS]
    assert all(old is new for old, new in zip(before, after, strict=True) if old is not found.all[1])
    await found.probe(found.all[1])
    assert [found.pick(key) for key in KEYS] == before


@pytest.mark.parametrize(("places", "together"), [((4, 8), 12), ((4, 0), None), ((), None)])
async def test_as_many_choices_run_as_the_targets_have_places_in_their_batches(places, together):
    found = await replicas(*(Peer(f"host{i}:1", info("target", max_sequences=n)) for i, n in enumerate(places)))
    coordinator = Coordinator(found, None, GatewayMetrics(CollectorRegistry()))
    assert coordinator.capacity() == together
    if together:
        found.failed(found.all[0], ServiceUnavailable("gone"))
        assert coordinator.capacity() == 8
        found.failed(found.all[1], ServiceUnavailable("gone"))
        assert coordinator.capacity() == together, "nobody is let in to fail"


async def test_without_a_healthy_replica_there_is_none():
    found = await replicas(Peer("host:1"))
    assert found.pick(b"") is None
    assert "does not answer" in found.all[0].complaint


async def test_padding_of_a_head_does_not_matter_and_free_drafts_fit_any_case_1():
    assert (await replicas(Peer("host:1", info("target")))).pick(b"") is not None
    free = info("draft", fingerprint="", vocab_size=0, eos_token_ids=())
    assert (await replicas(Peer("host:1", free), service="draft")).pick(b"") is not None


async def test_different_vocabularies_are_refused_by_the_first_token_that_differs_case_2():
    swapped = (*TOKENS[:5], "x6", "x5", *TOKENS[7:])
    with pytest.raises(VocabularyMismatch, match=r"draft .*id 5 is 't5' here and 'x6' there"):
        await replicas(Peer("host:1", info("draft", fingerprint="other"), swapped), service="draft")
    with pytest.raises(VocabularyMismatch, match="64 tokens here and 63 there"):
        await replicas(Peer("host:1", info("target", vocab_size=63), TOKENS[:63]))


async def test_special_tokens_that_differ_are_refused():
    with pytest.raises(VocabularyMismatch, match=r"ends texts at \[1\]"):
        await replicas(Peer("host:1", info("target", eos_token_ids=(1,))))
    with pytest.raises(VocabularyMismatch, match="special tokens differ"):
        await replicas(Peer("host:1", info("target", fingerprint="other")))


async def test_where_a_drafts_own_model_would_end_does_not_matter():
    """A base model that drafts for its instruct model: one tokenizer, two generation_config.json."""
    for eos_token_ids in ((), (1,), (0, 1)):
        draft = info("draft", eos_token_ids=eos_token_ids)
        assert (await replicas(Peer("host:1", draft), service="draft")).pick(b"") is not None


async def test_a_draft_whose_special_tokens_are_others_is_refused():
    with pytest.raises(VocabularyMismatch, match="special tokens differ"):
        await replicas(Peer("host:1", info("draft", fingerprint="other")), service="draft")


async def test_a_draft_in_the_place_of_a_target_is_refused():
    with pytest.raises(ConfigError, match="expected a target"):
        await replicas(Peer("host:1", info("draft")))


async def test_a_replica_that_comes_back_with_another_vocabulary_is_not_used():
    peer = Peer("host:1", info("draft"))
    found = await replicas(peer, service="draft")
    peer.answer = info("draft", fingerprint="other")
    with pytest.raises(VocabularyMismatch):
        await found.probe(found.all[0])
    assert found.pick(b"") is None


async def test_a_target_that_came_back_within_a_probe_with_a_shorter_context_is_not_used():
    """Nobody saw it go: it was well at both looks."""
    check, peer = PairCheck(OURS, "target"), Peer("host:1", info("target", max_model_len=8_192))
    check.min_model_len = 8_192
    found = Replicas([peer], check)
    await found.probe(found.all[0])
    peer.answer = info("target", max_model_len=4_096)
    with pytest.raises(ConfigError, match="a context of 4096 tokens"):
        await found.probe(found.all[0])
    assert found.pick(b"") is None


def test_a_replica_that_hangs_delays_the_return_of_no_other():
    async def come_back():
        hung, back = Peer("host0:1", info("target")), Peer("host1:1", info("target"))
        found = await replicas(hung, back)
        await found.start()
        for replica in found.all:
            found.failed(replica, ServiceUnavailable("gone"))
        hung.hangs, back.answer = True, None
        await asyncio.sleep(1.5 * PROBE_S)
        back.answer = info("target")
        await asyncio.sleep(PROBE_S)
        healthy = [replica.healthy for replica in found.all]
        await found.close()
        return healthy

    assert run(come_back()) == [False, True]


def test_a_replica_that_fell_silent_is_out_unless_it_answers_at_once():
    async def look():
        loop, peer = asyncio.get_running_loop(), Peer("host:1", info("target"))
        found = await replicas(peer)
        await asyncio.sleep(60)
        first = await found.still_answers(found.all[0]), loop.time()
        peer.hangs = True
        second = await found.still_answers(found.all[0]), loop.time()
        await asyncio.sleep(LOOK_S + 1)
        third = await asyncio.gather(*(found.still_answers(found.all[0]) for _ in range(9)))
        return first, second, third, loop.time(), found.pick(b"")

    first, second, third, ended, picked = run(look())
    assert (first, second) == ((True, 60), (True, 60))  # that answer is as good as new
    assert third == [False] * 9
    assert ended == 61 + 2 * LOOK_S
    assert picked is None


def test_a_misfit_that_comes_back_in_the_place_of_a_silent_replica_is_out():
    async def look():
        peer = Peer("host:1", info("target"))
        found = await replicas(peer)
        peer.answer = info("target", fingerprint="other")
        await asyncio.sleep(60)
        return await found.still_answers(found.all[0])

    assert run(look()) is False
