"""`forerun bench` against a real server on a real socket; the coordinator is a fake."""

import asyncio
import json
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from forerun.bench.command import main
from forerun.errors import Overloaded, SequenceFault, ServiceUnavailable
from gateway.api.clients import Clients
from gateway.api.core import Core
from gateway.api.keys import ApiKeys
from gateway.app import create_app
from tests.support.byte_text import byte_model, byte_text
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.ports import free_ports
from tests.support.serving import serving

TEXT, MODEL = byte_text(), byte_model()
SAID = [*TEXT.encode("a few words"), MODEL.eos_token_ids[0]]
KEY = "sk-one-aaaaaaaaaaaa"
SMALL = ("--num-requests", "4", "--rounds", "2", "--warmups", "0", "--max-tokens", "32")


@asynccontextmanager
async def gateway(script=lambda request: SAID, **more):
    """A served coordinator that says what the script says; how to measure it; and itself."""
    coordinator = FakeCoordinator(script, run_len=3)
    async with serving(create_app(Core(coordinator, TEXT, MODEL, **more))) as url:

        async def bench(*flags, num_at_once=2):
            return await asyncio.to_thread(main, ["--url", url, *SMALL, "--concurrency", str(num_at_once), *flags])

        yield bench, coordinator, url


def failing(error, *numbers):
    """A script by which requests of these numbers fail, counted from 0."""
    counted = iter(range(1_000))

    def script(request):
        if next(counted) in numbers:
            raise error
        return SAID

    return script


async def test_speculation_is_on_and_off_in_turn_and_the_ratio_is_told(tmp_path, capsys):
    async with gateway() as (bench, coordinator, _):
        assert await bench("--json", str(tmp_path / "b.json"), "--api-key", "sk-secret") == 0
    asked = [request.speculation.enabled for request in coordinator.requests]
    assert asked == [True] + [True] * 4 + [False] * 8 + [True] * 4  # the first answer tells what the server tells
    assert {request.max_tokens for request in coordinator.requests} == {32}
    out = capsys.readouterr().out
    assert out.count(" 8/0 ") == 2
    text = (tmp_path / "b.json").read_text()
    assert "sk-secret" not in text
    (load,) = json.loads(text)["loads"]
    assert load["concurrency"] == 2
    assert load["on_over_off"]["runs"] == 2
    on = load["speculation"]["on"]
    assert (on["acceptance_rate"], on["mean_acceptance_length"], on["drafted_share"]) == (0.667, 3.0, 1.0)
    assert f"on over off, tokens/s: {load['on_over_off']['median']:.2f} (" in out


async def test_windows_do_not_find_each_others_prompts_cached():
    async with gateway() as (bench, coordinator, _):
        await bench()
    salts = [request.cache_salt for request in coordinator.requests[1:]]
    assert len(set(salts)) == 4
    assert [salts[4 * window : 4 * window + 4] for window in range(4)] == [[salts[4 * w]] * 4 for w in range(4)]


async def test_without_comparison_the_server_decides(tmp_path, capsys):
    flags = (
        "--no-compare",
        "--temperature",
        "0.5",
        "--ignore-eos",
        "--rounds",
        "1",
        "--json",
        str(tmp_path / "b.json"),
    )
    async with gateway(lambda request: SAID * 4) as (bench, coordinator, _):
        assert await bench(*flags) == 0
    assert len(coordinator.requests) == 5
    assert {request.params.temperature for request in coordinator.requests} == {0.5}
    assert " auto " in capsys.readouterr().out
    (load,) = json.loads((tmp_path / "b.json").read_text())["loads"]
    assert load["speculation"]["auto"]["num_tokens"] == 4 * 32
    assert load["on_over_off"] is None


async def test_turns_are_asked_one_after_another(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text('{"turns": ["one", "two"]}\n')
    async with gateway() as (bench, coordinator, _):
        assert await bench("--prompts", str(path), "--no-compare", "--rounds", "1", num_at_once=1) == 0
    lens = [len(request.prompt) for request in coordinator.requests]
    assert lens[0] == lens[1] == lens[3] < lens[2] == lens[4]


async def test_a_key_is_asked_for_and_shown(tmp_path, capsys):
    (tmp_path / "keys").write_text(KEY + "\n")
    async with gateway(clients=Clients(ApiKeys(str(tmp_path / "keys")))) as (bench, _, _):
        assert await bench() == 1
        assert "--api-key or FORERUN_API_KEY (401" in capsys.readouterr().err
        assert await bench("--api-key", KEY) == 0


async def test_an_unknown_model_is_named_with_those_that_are_served(capsys):
    async with gateway() as (bench, _, _):
        assert await bench("--model", "other") == 1
        assert f"'other' is not served here; served: {MODEL.names[0]}" in capsys.readouterr().err


def test_without_a_gateway_the_way_out_is_named(capsys):
    assert main(["--url", f"http://127.0.0.1:{free_ports(1)[0]}"]) == 1
    captured = capsys.readouterr()
    assert "forerun up" in captured.err
    assert captured.out == ""


async def test_what_is_refused_is_counted_and_said(capsys):
    script = failing(Overloaded("7 requests are waiting already"), 2, 3)
    async with gateway(script) as (bench, _, _):
        assert await bench("--no-compare", "--rounds", "1") == 1
    out = capsys.readouterr().out
    assert " 2/2 " in out
    assert "2 at once, 2 failed: the server has no room" in out
    assert "(429: 7 requests are waiting already)" in out


async def test_an_answer_that_breaks_off_is_no_answer(capsys):
    async with gateway() as (bench, coordinator, _):
        coordinator.failure, coordinator.fail_at = SequenceFault("logits are not finite"), 6
        assert await bench() == 1
    assert "the answer broke off: logits are not finite" in capsys.readouterr().err


async def test_a_server_that_answers_nothing_any_more_ends_the_measurement(capsys):
    script = failing(ServiceUnavailable("no target is ready"), *range(5, 100))
    async with gateway(script) as (bench, coordinator, _):
        assert await bench() == 1
    captured = capsys.readouterr()
    assert "all 4 requests failed: the server cannot answer now (503: no target is ready)" in captured.err
    assert " 4/0 " in captured.out
    assert len(coordinator.requests) == 9


@pytest.mark.parametrize(("flag", "value"), [("--json", "/nowhere/b.json"), ("--json", "/"), ("--prompts", "/nowhere")])
async def test_a_file_that_cannot_be_used_is_refused_before_anything_is_asked(flag, value, capsys):
    from forerun import cli

    assert cli.main(["bench", flag, value]) == 2
    assert f"{flag} {value}" in capsys.readouterr().err


async def test_ctrl_c_prints_what_was_measured_so_far():
    gate = asyncio.Event()
    gate.set()

    def script(request):
        if len(coordinator.requests) == 4:
            gate.clear()
        return SAID

    async with gateway(script) as (_, coordinator, url):
        coordinator.gate = gate
        command = ("-m", "forerun.cli", "bench", "--url", url, *SMALL, "--concurrency", "1")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe)
        await coordinator.has_started(4)
        process.send_signal(signal.SIGINT)
        out, errors = await process.communicate()
        await coordinator.aborted.wait()
    assert process.returncode == 130, errors.decode()
    assert " 2/0 " in out.decode()
    assert "Traceback" not in errors.decode()
