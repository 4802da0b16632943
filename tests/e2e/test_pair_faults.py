"""Processes that die and clients that leave: never silence, never a wrong token."""

import asyncio
import signal
import urllib.request

import grpc
import pytest

from tests.support.generate import gateway_stub, generate, request
from tests.support.ports import free_ports
from tests.support.processes import TINY, Gateway, Service
from tests.support.wire import clients

PROMPT = [1, 5, 9, 30, 12, 7, 7, 31, 3]
LONG = 400


@pytest.fixture(scope="session")
def shared_gateway(fleet, tiny_pair, tiny_target, tiny_draft):
    """The gateway over the tiny pair that other tests use, too."""
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,))


@pytest.mark.parametrize("how", ["cancel", "kill the connection"])
async def test_a_client_that_leaves_frees_both_services_within_a_second(shared_gateway, tiny_target, tiny_draft, how):
    """Case 25: in the middle of its stream; a neighbour's text is untouched."""
    async with gateway_stub(shared_gateway.address) as stub, clients(tiny_target.address, tiny_draft.address) as peers:
        expected = (await generate(stub, PROMPT, 150, k=0, seed=2)).ids
        neighbour = asyncio.create_task(generate(stub, PROMPT, 150, k=2, seed=2))
        async with gateway_stub(shared_gateway.address) as leaving:
            call = leaving.Generate(request(PROMPT, LONG, k=3, temperature=0.0))
            await call.read()
            if how == "cancel":
                call.cancel()
        assert (await neighbour).ids == expected
        async with asyncio.timeout(1.0):
            for peer in peers:
                info = await peer.info()
                while info.num_free_blocks < info.num_blocks or info.num_running:
                    info = await peer.info()


@pytest.fixture
def own_pair(fleet, tiny_pair):
    """A draft and a target of the test's own behind a gateway, all to be killed."""
    target = fleet.start("target_service", "--model", tiny_pair.target, *TINY)
    draft_flags = ("--model", tiny_pair.draft, "--target-model", tiny_pair.target, *TINY)
    draft = fleet.start("draft_service", *draft_flags)
    gateway = Gateway(tiny_pair.target, target.ready().address, (draft.ready().address,), "--target-timeout-s", 5)
    yield gateway.ready(), target, draft, draft_flags
    for process in (gateway, target, draft):
        process.kill()
    gateway.close()


async def test_a_draft_may_die_hang_and_come_back_and_no_token_changes(own_pair):
    """Killed, then stopped, mid-stream; the text goes on alone, and a draft that is back is used again."""
    gateway, _, draft, flags = own_pair
    async with gateway_stub(gateway.address) as stub:
        expected = (await generate(stub, PROMPT, LONG, k=0, seed=6)).ids
        assert await _after_some(stub, draft.kill) == expected
        again = Service("draft_service", draft.address.rpartition(":")[2], *flags).ready()
        try:
            async with asyncio.timeout(30):
                while (await generate(stub, PROMPT, 60, k=3, seed=6)).speculative.num_accepted_tokens == 0:
                    pass
            assert await _after_some(stub, lambda: again.popen.send_signal(signal.SIGSTOP)) == expected
            again.popen.send_signal(signal.SIGCONT)
        finally:
            again.kill()
            again.close()


async def _after_some(stub, strike):
    """Ids of a long answer during which `strike` is called."""
    call, ids = stub.Generate(request(PROMPT, LONG, k=3, seed=6)), []
    while (piece := await call.read()) is not grpc.aio.EOF:
        ids += piece.token_ids
        if strike is not None and len(ids) > 20:
            strike()
            strike = None
    return ids


async def test_a_target_that_dies_ends_the_answer_with_an_error_and_no_wrong_token(own_pair):
    """There is no other replica: an error event, not silence; /ready says so."""
    gateway, target, _, _ = own_pair
    async with gateway_stub(gateway.address) as stub:
        expected = (await generate(stub, PROMPT, LONG, k=0, seed=6)).ids
        call, ids = stub.Generate(request(PROMPT, LONG, k=1, seed=6)), []
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            async with asyncio.timeout(30):
                while (piece := await call.read()) is not grpc.aio.EOF:
                    ids += piece.token_ids
                    if len(ids) > 20:
                        target.kill()
                raise grpc.aio.AioRpcError(await call.code(), None, None, await call.details())
        assert ended.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert ids == expected[: len(ids)]


async def test_the_answer_goes_on_at_another_target_when_one_dies(fleet, tiny_pair, tiny_target):
    """Committed tokens move with the request; the text is that of the seed."""
    others = [fleet.start("target_service", "--model", tiny_pair.target, *TINY) for _ in range(2)]
    addresses = ",".join(service.ready().address for service in others)
    gateway = Gateway(tiny_pair.target, addresses, ())
    try:
        async with gateway_stub(gateway.ready().address) as stub:
            expected = (await generate(stub, PROMPT, LONG, seed=6)).ids
            ids, call = [], stub.Generate(request(PROMPT, LONG, seed=6))
            while (piece := await call.read()) is not grpc.aio.EOF:
                ids += piece.token_ids
                if len(ids) == len(piece.token_ids):
                    await _busy(others)
        assert ids == expected
    finally:
        gateway.kill()
        gateway.close()


async def _busy(services):
    """Kills the one of `services` that serves a sequence."""
    for service in services:
        async with clients(service.address) as (target, _):
            info = await target.info()
        if info.num_free_blocks < info.num_blocks:
            service.kill()
            return
    raise AssertionError("nobody serves the sequence")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_gateway_drains_on_a_signal_and_exits_with_zero(fleet, tiny_pair, tiny_target, number):
    """The running answer is finished; no new one is taken."""
    gateway = Gateway(tiny_pair.target, tiny_target.address, ()).ready()
    try:
        async with gateway_stub(gateway.address) as stub:
            expected = (await generate(stub, PROMPT, LONG, seed=6)).ids
            call, ids = stub.Generate(request(PROMPT, LONG, seed=6)), []
            while (piece := await call.read()) is not grpc.aio.EOF:
                if not ids:
                    gateway.popen.send_signal(number)
                ids += piece.token_ids
        assert ids == expected
        assert await asyncio.to_thread(gateway.wait, 10) == 0
    finally:
        gateway.kill()
        gateway.close()


def test_a_gateway_without_a_target_says_what_it_waits_for(tiny_pair):
    """It serves nothing yet, least of all /ready; told to stop, it stops."""
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    gateway = Gateway(tiny_pair.target, nowhere, ())
    try:
        gateway.until_logged("waiting for a target")
        assert nowhere in gateway.log()
        with pytest.raises(OSError):
            urllib.request.urlopen(f"{gateway.url}/ready", timeout=5)
        assert gateway.terminate() == 0
    finally:
        gateway.kill()
        gateway.close()
