"""The supervisor owns its children: it starts, watches, restarts and stops them, and leaves no orphan."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from forerun.errors import ServiceUnavailable
from forerun.up import readiness
from forerun.up.child import Child, Service
from forerun.up.supervisor import Supervisor
from tests.support.ports import free_ports

HOST = "127.0.0.1"


class Notes:
    """A display that remembers, and lets a test wait for the next note."""

    def __init__(self):
        self.steps, self.notes = [], asyncio.Queue()

    def step(self, text):
        self.steps.append(text)

    def note(self, text):
        self.notes.put_nowait(text)


def stand_in(name, role="serve", argument=None):
    port = free_ports(1)[0]
    return Service(name, ["tests.support.stand_in", role, str(argument or port)], port)


@pytest.fixture
async def supervisor(tmp_path):
    supervisor = Supervisor(Notes(), tmp_path, first_delay_s=0.01)
    yield supervisor
    await supervisor.stop()


async def listening(supervisor, service):
    await supervisor.until(readiness.listening(HOST, service.port), f"Loading {service.name}", 20)


async def test_a_service_is_started_answers_and_is_stopped_by_sigterm(supervisor):
    service = stand_in("gateway")
    child = await supervisor.start(service)
    token = readiness.first_token(f"http://{HOST}:{service.port}", "m")
    assert await supervisor.until(token, "Waiting for the first token", 20) == " Paris"
    await supervisor.stop()
    assert child.returncode == 0


async def test_a_gateway_that_does_not_speak_http_yet_is_asked_again():
    answers = [b"", b"no HTTP\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 200 OK\r\n\r\n[]"]
    answers.append(b'HTTP/1.1 200 OK\r\n\r\n{"choices": [{"text": " Paris"}]}')

    async def answer(reader, writer):
        await reader.readuntil(b"}")
        writer.write(answers.pop(0))
        writer.close()

    async with await asyncio.start_server(answer, HOST, 0) as server:
        url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        assert await asyncio.wait_for(readiness.first_token(url, "m"), 20) == " Paris"
    assert not answers


async def test_a_gateway_that_asks_for_a_key_is_asked_whether_it_is_ready():
    refused = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    answers = [refused, "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", refused, "HTTP/1.1 200 OK\r\n\r\n{}"]
    asked = []

    async def answer(reader, writer):
        asked.append((await reader.readline()).split()[1])
        writer.write(answers.pop(0).encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, HOST, 0) as server:
        url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        assert await asyncio.wait_for(readiness.first_token(url, "m"), 20) == ""
    assert asked == 2 * [b"/v1/completions", b"/ready"]


async def test_a_service_that_dies_at_start_up_is_reported_with_its_last_words(supervisor):
    await supervisor.start(stand_in("target", "die", "no such model"))
    with pytest.raises(ServiceUnavailable, match=r"(?s)target ended with status 3.*no such model"):
        await supervisor.until(asyncio.Event().wait(), "Loading", 20)


async def test_a_service_that_never_gets_ready_is_reported_by_what_was_waited_for(supervisor, tmp_path):
    await supervisor.start(stand_in("target"))
    with pytest.raises(ServiceUnavailable, match="Loading weights: nothing after 0 s"):
        await supervisor.until(asyncio.Event().wait(), "Loading weights", 0.05)


async def test_a_stubborn_service_is_killed(tmp_path):
    service = stand_in("draft", "stubborn")
    child = await Child.start(service, tmp_path)
    await asyncio.wait_for(readiness.listening(HOST, service.port), 20)
    await child.stop(timeout_s=0.05)
    assert child.returncode == -signal.SIGKILL


async def test_a_draft_that_dies_is_restarted(tmp_path):
    notes = Notes()
    supervisor = Supervisor(notes, tmp_path, first_delay_s=0.01)
    service = stand_in("draft")
    child = await supervisor.start(service)
    watching = asyncio.ensure_future(supervisor.watch(restarted="draft"))
    try:
        await listening(supervisor, service)
        os.kill(child.pid, signal.SIGKILL)
        assert "draft ended with status -9" in await asyncio.wait_for(notes.notes.get(), 20)
        await asyncio.wait_for(readiness.listening(HOST, service.port), 20)
    finally:
        watching.cancel()
        await supervisor.stop()


async def test_a_draft_that_keeps_dying_is_restarted_with_growing_delays(tmp_path):
    notes = Notes()
    supervisor = Supervisor(notes, tmp_path, first_delay_s=0.01)
    await supervisor.start(stand_in("draft", "die", "broken"))
    watching = asyncio.ensure_future(supervisor.watch(restarted="draft"))
    try:
        seen = [await asyncio.wait_for(notes.notes.get(), 20) for _ in range(3)]
    finally:
        watching.cancel()
        await supervisor.stop()
    assert [note.split()[-2] for note in seen] == ["0.01", "0.02", "0.04"]


async def test_a_target_that_dies_ends_the_watch(supervisor):
    services = [stand_in("target"), stand_in("draft")]
    children = [await supervisor.start(service) for service in services]
    for service in services:
        await listening(supervisor, service)
    os.kill(children[0].pid, signal.SIGKILL)
    with pytest.raises(ServiceUnavailable, match="target ended"):
        await asyncio.wait_for(supervisor.watch(restarted="draft"), 20)


def test_no_child_outlives_a_supervisor_that_is_killed(tmp_path):
    port = free_ports(1)[0]
    code = (
        "import asyncio, pathlib, sys\n"
        "from forerun.up.child import Child, Service\n"
        "async def main():\n"
        "    service = Service('draft', ['tests.support.stand_in', 'serve', sys.argv[1]], int(sys.argv[1]))\n"
        "    await (await Child.start(service, pathlib.Path(sys.argv[2]))).wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(port), str(tmp_path)])
    try:
        asyncio.run(asyncio.wait_for(readiness.listening(HOST, port), 20))
        with socket.create_connection((HOST, port)) as connection:
            parent.kill()
            connection.settimeout(20)
            # The kernel closes it, or resets it where it was not accepted yet; a child that lives on does neither.
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
    finally:
        parent.kill()
        parent.wait()
