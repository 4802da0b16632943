"""Processes that die, hang or lie and clients that leave while REST streams run: never silence, never a wrong token."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support import scripted_services as scripted
from tests.support.processes import ROOT, TINY, Gateway, Service
from tests.support.wire import clients

slow = pytest.mark.full  # minutes of real processes that die and come back

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
LONG = 450
TIMEOUT_S = 3.0  # of a target's silence
SEEDED = {"seed": 6}
GREEDY = {"temperature": 0.0}


@pytest.fixture
def shared(fleet, tiny_pair, tiny_target, tiny_draft):
    """The gateway over the tiny pair that other tests use, too."""
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))


class House:
    """Processes of a test's own, each of which it may hurt."""

    def __init__(self, fleet, pair, num_targets=1, draft=None):
        """With the draft at an address, or one of its own."""
        self._draft_flags = ("--model", pair.draft, "--target-model", pair.target, *TINY)
        self.targets = [fleet.start("target_service", "--model", pair.target, *TINY) for _ in range(num_targets)]
        self.draft = fleet.start("draft_service", *self._draft_flags) if draft is None else None
        addresses = ",".join(target.ready().address for target in self.targets)
        drafts = (draft or self.draft.ready().address,)
        self.gateway = Gateway(pair.target, addresses, drafts, "--target-timeout-s", TIMEOUT_S).ready()
        self.url = self.gateway.url

    def restart_draft(self):
        """A new draft at the old one's address."""
        self.draft.kill()
        self.draft.close()
        self.draft = Service("draft_service", self.draft.address.rpartition(":")[2], *self._draft_flags).ready()

    def close(self):
        for process in (self.gateway, self.draft, *self.targets):
            if process is not None:
                process.kill()
                process.close()


@contextmanager
def house(*args, **options):
    own = House(*args, **options)
    try:
        yield own
    finally:
        own.close()


def body(k=3, **fields):
    speculative = {"enabled": k != 0, **({"num_draft_tokens": k} if k else {})}
    shared = {"prompt": PROMPT, "max_tokens": LONG, "ignore_eos": True, "return_token_ids": True}
    return {**shared, "speculative": speculative, **fields}


async def whole(url, k=3, **fields):
    """The ids of an answer, and its statistics."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        answer = await http.post("/v1/completions", json=body(k, **fields))
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["token_ids"], answer.json()["speculative"]


async def stream(url, strike=lambda: None, after=20, **fields):
    """Ids and events of a stream; `strike` is called once in its middle."""
    ids, events = [], []
    async with (
        httpx.AsyncClient(base_url=url, timeout=60) as http,
        http.stream("POST", "/v1/completions", json=body(stream=True, **fields)) as answer,
    ):
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                events.append(line.removeprefix("data: "))
                ids += _ids(events[-1])
                if strike is not None and len(ids) > after:
                    strike()
                    strike = None
    assert strike is None, "the stream ended too early"
    return ids, events


def _ids(event):
    choices = json.loads(event).get("choices", []) if event.startswith("{") else []
    return [token for choice in choices for token in choice["token_ids"]]


@slow
async def test_a_draft_that_dies_hangs_and_comes_back_changes_no_token_and_is_used_again(fleet, tiny_pair):
    """Case 9: killed in a greedy stream and restarted, stopped in a seeded one and continued."""
    with house(fleet, tiny_pair) as own:
        greedy, seeded = [(await whole(own.url, 0, **fields))[0] for fields in (GREEDY, SEEDED)]
        assert (await stream(own.url, own.draft.kill, **GREEDY))[0] == greedy
        await asyncio.to_thread(own.restart_draft)
        await _accepted_again(own, GREEDY)
        started = time.monotonic()
        ids, events = await stream(own.url, lambda: own.draft.popen.send_signal(signal.SIGSTOP), **SEEDED)
        assert (ids, events[-1]) == (seeded, "[DONE]")
        assert time.monotonic() - started < 10
        assert (await whole(own.url, 3, **SEEDED))[0] == seeded
        own.draft.popen.send_signal(signal.SIGCONT)
        await _accepted_again(own, SEEDED)


async def _accepted_again(own, fields):
    """Returns when the counter of accepted tokens moves."""
    before = await _counter(own.url, "forerun_spec_decode_num_accepted_tokens_total")
    async with asyncio.timeout(30):
        while await _counter(own.url, "forerun_spec_decode_num_accepted_tokens_total") == before:
            await whole(own.url, 3, **{**fields, "max_tokens": 100})


async def _counter(url, name):
    async with httpx.AsyncClient(base_url=url) as http:
        lines = (await http.get("/metrics")).text.splitlines()
    return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@slow
@pytest.mark.parametrize(("how", "fields"), [(signal.SIGKILL, GREEDY), (signal.SIGSTOP, SEEDED)])
async def test_a_target_that_dies_or_hangs_is_replaced_and_the_text_goes_on(fleet, tiny_pair, tiny_draft, how, fields):
    """The one that serves the stream is hurt in its middle; a later request finds the other, too."""
    with house(fleet, tiny_pair, 2, tiny_draft.address) as own:
        expected, _ = await whole(own.url, 0, **fields)
        failovers = await _counter(own.url, "forerun_failovers_total")
        ids, events = await stream(own.url, lambda: _busy(own.targets).popen.send_signal(how), **fields)
        assert (ids, events[-1]) == (expected, "[DONE]")
        assert await _counter(own.url, "forerun_failovers_total") > failovers
        started = time.monotonic()
        assert (await whole(own.url, 3, **fields))[0] == expected
        assert time.monotonic() - started < 2 * TIMEOUT_S + 5


def _busy(services):
    """The one of `services` that serves a sequence. Asked from a thread: the loop belongs to the stream."""
    found = []

    async def look():
        for service in services:
            async with clients(service.address) as (target, _):
                info = await target.info()
            if info.num_free_blocks < info.num_blocks:
                found.append(service)

    thread = threading.Thread(target=lambda: asyncio.run(look()))
    thread.start()
    thread.join()
    return found[0]


@slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_only_target_gone_ends_the_stream_with_an_error_event_in_bounded_time(
    fleet, tiny_pair, tiny_draft, how
):
    """Never silence: what was sent is right, then comes an error in OpenAI's shape; later requests get a 503."""
    with house(fleet, tiny_pair, 1, tiny_draft.address) as own:
        expected, _ = await whole(own.url, 0, **SEEDED)
        struck = []

        def strike():
            own.targets[0].popen.send_signal(how)
            struck.append(time.monotonic())

        ids, events = await stream(own.url, strike, **SEEDED)
        took = time.monotonic() - struck[0]
        assert ids == expected[: len(ids)]
        error = json.loads(events[-1])["error"]
        assert (error["type"], error["code"]) in (
            ("server_error", "service_unavailable"), ("server_error", "deadline_exceeded"),
        )  # fmt: skip
        assert took < TIMEOUT_S + 3
        async with httpx.AsyncClient(base_url=own.url, timeout=60) as http:
            assert (await http.post("/v1/completions", json=body(**SEEDED))).status_code == 503
            assert (await http.get("/health")).status_code == 200
            if how == signal.SIGKILL:
                return
            own.targets[0].popen.send_signal(signal.SIGCONT)
            async with asyncio.timeout(20):
                while (await http.get("/ready")).status_code != 200:
                    pass
        assert (await whole(own.url, 0, **SEEDED))[0] == expected


@pytest.mark.parametrize("streams", [True, False])
async def test_a_client_that_leaves_frees_both_services_within_a_second_and_its_neighbour_goes_on(
    shared, tiny_target, tiny_draft, streams
):
    """Case 25, by a closed connection."""
    expected, _ = await whole(shared.url, 0, seed=2, max_tokens=150)
    async with clients(tiny_target.address, tiny_draft.address) as peers:
        neighbour = asyncio.create_task(whole(shared.url, 2, seed=2, max_tokens=150))
        async with httpx.AsyncClient(base_url=shared.url) as http:
            leaving = asyncio.create_task(http.post("/v1/completions", json=body(stream=streams)))
            await _until(peers[0], lambda info: info.num_free_blocks < info.num_blocks)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        assert (await neighbour)[0] == expected
        async with asyncio.timeout(1.0):
            for peer in peers:
                await _until(peer, lambda info: info.num_free_blocks == info.num_blocks and not info.num_running)


async def _until(peer, fact):
    while not fact(await peer.info()):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_gateway_that_is_told_to_stop_finishes_its_streams_and_takes_no_more(
    tiny_pair, tiny_target, tiny_draft, number
):
    gateway = Gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,)).ready()
    try:
        expected, _ = await whole(gateway.url, 0, **SEEDED)
        ids, events = await stream(gateway.url, lambda: gateway.popen.send_signal(number), **SEEDED)
        assert (ids, events[-1]) == (expected, "[DONE]")
        assert await asyncio.to_thread(gateway.wait, 10) == 0
        with pytest.raises(httpx.ConnectError):
            await whole(gateway.url, 0, **SEEDED)
        assert "Traceback" not in gateway.log()
    finally:
        gateway.kill()
        gateway.close()


def _always_eos(ids, propose):
    return scripted.proposal(len(ids), [2] * propose.k)


HOSTILE = (
    scripted.wrong_tokens, _always_eos, scripted.unknown_ids, scripted.too_many, scripted.wrong_base,
    scripted.malformed_laws, scripted.doubled_laws, scripted.empty_message, scripted.nothing_to_say, scripted.silent,
    scripted.fault, scripted.dies,
)  # fmt: skip


async def test_no_hostile_draft_changes_greedy_or_seeded_text(tiny_pair, tiny_target):
    """Case 9: tokens of its own choosing, ids that nobody has, broken messages, silence, sudden death."""
    draft = scripted.ScriptedDraft(info_=scripted.info("draft", fingerprint="", eos_token_ids=()))
    async with scripted.serving(draft) as address:
        gateway = Gateway(tiny_pair.target, tiny_target.address, (address,))
        try:
            await asyncio.to_thread(gateway.ready)
            expected = [(await whole(gateway.url, 0, max_tokens=60, **fields))[0] for fields in (GREEDY, SEEDED)]
            for behave in HOSTILE:
                draft.behave = behave
                before = len(draft.seen.messages)
                async with asyncio.timeout(20):
                    while len(draft.seen.messages) < before + 2:  # one that failed is out until it is looked at again
                        for fields, ids in zip((GREEDY, SEEDED), expected, strict=True):
                            assert (await whole(gateway.url, 4, max_tokens=60, **fields))[0] == ids, behave.__name__
            assert await _counter(gateway.url, "forerun_draft_fallbacks_total") > 0
        finally:
            gateway.kill()
            gateway.close()


def test_the_gateways_process_loads_neither_torch_nor_transformers(shared):
    """Asked of a fresh interpreter that imports it all, and of the maps of one that has served."""
    asyncio.run(whole(shared.url, 2, **GREEDY))
    maps = Path(f"/proc/{shared.popen.pid}/maps").read_text()
    assert "tokenizers" in maps
    assert "torch" not in maps
    code = (
        "import sys, gateway.__main__, gateway.process, gateway.app, gateway.servicer; "
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'transformers')"
        " or name.startswith('forerun.engine')])"
    )
    asked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert asked.stdout.strip() == "[]", asked.stderr
