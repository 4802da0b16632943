"""Every service on a host of its own, and between them a network that is slow, narrow, broken or parted.

What is measured of speed is measured in virtual time (tests/unit/gateway/test_adaptive_k.py) and by
benchmarks/network.py; here the text has to be the same, through real sockets of real processes on separate stacks.
"""

import asyncio
import time
import urllib.request

import grpc
import pytest

from tests.support import hosts as namespaces
from tests.support.generate import gateway_stub, generate, request
from tests.support.hosts import DRAFT_PORT, GRPC_PORT, HTTP_PORT, NAME, TARGET_PORT, Hosts
from tests.support.processes import TINY

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
NUM_TOKENS, LONG = 40, 300
DELAYS_S = (0.0, 0.001, 0.005, 0.02, 0.05)
FIELDS = ({"temperature": 0.0}, {"seed": 6, "top_p": 0.9})
ANY = ("--host", "0.0.0.0", *TINY)
SOON_S = 20.0
pytestmark = pytest.mark.timeout(300)  # five processes have to start on what may be a busy machine


@pytest.fixture(scope="module")
def net(tiny_pair):
    """The hosts with their services, in a network that is as it should be."""
    if reason := namespaces.why_not():
        pytest.skip(reason)
    with Hosts() as hosts:
        of_target = ("--model", tiny_pair.target, *ANY, "--port", TARGET_PORT)
        of_draft = ("--model", tiny_pair.draft, "--target-model", tiny_pair.target, *ANY, "--port", DRAFT_PORT)
        services = [hosts.start(f"target{i}", "target_service", *of_target) for i in (0, 1)]
        services.append(hosts.start("draft", "draft_service", *of_draft))
        for service in services:
            service.ready()
        hosts.gateway = hosts.start(
            "gateway", "gateway", "--model", tiny_pair.target, "--host", "0.0.0.0", "--http-port", HTTP_PORT,
            "--grpc-port", GRPC_PORT, "--target", f"dns:///{NAME}:{TARGET_PORT}", "--draft", hosts.near("draft"),
        ).ready()  # fmt: skip
        yield hosts


@pytest.fixture
async def stub(net):
    async with gateway_stub(net.address) as stub:
        yield stub
    net.heal()


@pytest.fixture(scope="module")
def expected(net):
    """The text of each of FIELDS, by the target alone over a network without delay."""

    async def learn():
        async with gateway_stub(net.address) as stub:
            return [(await generate(stub, PROMPT, LONG, k=0, **fields)).ids for fields in FIELDS]

    return asyncio.run(learn())


async def texts(stub, k=None, num_tokens=NUM_TOKENS, at=None, strike=None):
    """The text of each of FIELDS; `strike` is called once in each, after `at` tokens."""
    return [await _text(stub, k, num_tokens, at, strike, fields) for fields in FIELDS]


async def _text(stub, k, num_tokens, at, strike, fields):
    call, ids, struck = stub.Generate(request(PROMPT, num_tokens, k, **fields), timeout=60), [], False
    while (piece := await call.read()) is not grpc.aio.EOF:
        ids += piece.token_ids
        if strike is not None and not struck and len(ids) >= at:
            struck = True
            strike()
    return ids


def counts(net):
    """The gateway's counters."""
    with urllib.request.urlopen(f"{net.url}/metrics", timeout=5) as reply:
        lines = [line for line in reply.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def cut_short(expected, num_tokens=NUM_TOKENS):
    return [ids[:num_tokens] for ids in expected]


@pytest.mark.parametrize("delay_s", DELAYS_S)
@pytest.mark.parametrize("link", ["draft", "target"])
async def test_a_delay_on_a_link_changes_no_text(net, stub, expected, link, delay_s):
    for name in net.peers:
        net.set(name, delay_s=delay_s if name.startswith(link) else 0.0)
    assert await texts(stub) == cut_short(expected)
    if delay_s < 0.05:  # K fixed: every round waits
        assert await texts(stub, k=3) == cut_short(expected)


async def test_a_narrow_link_and_a_cut_one_change_no_text(net, stub, expected):
    net.set("draft", bytes_per_s=20_000.0)
    assert await texts(stub, k=3) == cut_short(expected)
    net.heal()
    for link in net.peers:
        assert await texts(stub, 3, 100, 30, lambda link=link: net.set(link, cut=True)) == cut_short(expected, 100)


async def test_a_partition_of_the_draft_costs_no_token_and_after_it_the_draft_is_used_again(net, stub, expected):
    assert await texts(stub, 3, LONG, 30, lambda: net.set("draft", held=True)) == expected
    net.heal()
    async with asyncio.timeout(SOON_S):
        while (await generate(stub, PROMPT, 60, k=3, seed=6)).speculative.num_accepted_tokens == 0:
            pass


async def test_a_partition_of_a_target_moves_its_sequences_and_after_it_the_target_is_used_again(net, stub, expected):
    """It tells nobody: the silence is noticed, looked into, and left."""
    before = counts(net)["forerun_failovers_total"]
    for link in ("target0", "target1"):  # one of them serves the text
        assert await _text(stub, 3, LONG, 30, lambda link=link: net.set(link, held=True), FIELDS[1]) == expected[1]
        net.heal()
    assert counts(net)["forerun_failovers_total"] > before
    assert " is in" in net.gateway.log()
    assert await texts(stub) == cut_short(expected)


async def test_targets_come_and_go_with_the_name_that_the_gateway_was_given(net, stub, expected):
    """Headless: no restart, no flag; the resolver's answer is all."""
    for place in (0, 1):
        net.name_targets(place)
        await _logged(net, f"{net.near(f'target{1 - place}')} is no longer named")
        net.set(f"target{1 - place}", held=True)
        assert await texts(stub) == cut_short(expected)
        net.heal()
    net.name_targets(0, 1)


async def _logged(net, words):
    ends = time.monotonic() + SOON_S
    while words not in net.gateway.log():
        assert time.monotonic() < ends, net.gateway.log()[-2000:]
        await asyncio.sleep(0.1)
