"""What a service's metrics say of it from its first moment on."""

import asyncio
import threading
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from forerun.errors import ConfigError
from forerun.serving import process
from forerun.serving.drain import Drain
from forerun.serving.settings import ServiceConfig
from tests.support.ports import free_ports


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples}


async def test_one_that_loads_answers_scrapes_and_says_that_it_does_not_serve():
    (port,) = free_ports(1)
    loading, loaded = threading.Event(), threading.Event()

    def build(*_):
        loading.set()
        loaded.wait(20)
        raise ConfigError("that was all")

    config = ServiceConfig(port=0, metrics_port=port, health_port=0)
    running = asyncio.create_task(process._run("target", config, build))
    try:
        assert await asyncio.to_thread(loading.wait, 20)
        told = await asyncio.to_thread(scraped, port)
        assert (told["forerun_serving"], told["forerun_open_streams"]) == (0, 0)
    finally:
        loaded.set()
        with pytest.raises(ConfigError, match="that was all"):
            await running


def test_streams_are_counted_while_they_are_open():
    drain = Drain()
    with drain.telling(object()), drain.telling(object()):
        assert drain.num_open == 2
    assert drain.num_open == 0
