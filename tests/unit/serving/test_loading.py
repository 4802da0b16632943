"""A process that is told to stop while it loads ends at once; what loading returns or raises gets through."""

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

from forerun.errors import ConfigError
from forerun.serving import loading

WAIT_S = 60
LOADS_FOR_EVER = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from forerun.serving import process
from forerun.serving.settings import ServiceConfig

def build(*_):
    print("loading", flush=True)
    with ThreadPoolExecutor() as downloads:
        downloads.submit(threading.Event().wait).result()

sys.exit(process.main("draft", ServiceConfig, build, []))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_told_to_stop_while_it_loads_ends_and_never_serves(number):
    command = [sys.executable, "-c", LOADS_FOR_EVER]
    loads = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert loads.stdout.readline() == "loading\n"
        loads.send_signal(number)
        said, _ = loads.communicate(timeout=WAIT_S)
    finally:
        loads.kill()
        loads.communicate()
    assert (loads.returncode, said) == (0, "")


async def test_what_is_built_is_handed_over_and_was_built_on_another_thread():
    thread = await loading.built(threading.current_thread, asyncio.Event())
    assert thread is not threading.current_thread()


async def test_what_building_raises_is_raised():
    def build():
        raise ConfigError("no such model")

    with pytest.raises(ConfigError, match="no such model"):
        await loading.built(build, asyncio.Event())
