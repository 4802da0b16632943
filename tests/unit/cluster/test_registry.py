"""What the registry lists, gateways read; what it does not answer changes nothing."""

import asyncio
import json
import urllib.request

import pytest

from forerun.cluster.registry import Registry
from forerun.errors import ConfigError, ServiceUnavailable
from gateway.discovery import sources
from gateway.page import Page
from gateway.place import Place


@pytest.fixture
def listed():
    return ["10.0.0.1:50052"]


@pytest.fixture
def registry(listed):
    registry = Registry(
        "127.0.0.1", 0, {"targets": lambda: listed}, {"target": lambda: ["10.0.0.1:9052"], "draft": list}
    )
    yield registry
    registry.close()


async def test_a_gateway_reads_the_list_and_what_became_of_it(registry, listed):
    (source,) = sources([f"{registry.url}/targets"], "--target-addresses")
    assert await source.places() == {Place("10.0.0.1:50052", "10.0.0.1")}
    listed[:] = ["[fd00::2]:50052", "10.0.0.3:50052"]
    assert await source.places() == {Place("[fd00::2]:50052", "fd00::2"), Place("10.0.0.3:50052", "10.0.0.3")}
    listed.clear()
    assert await source.places() == frozenset()


def test_prometheus_reads_where_metrics_are(registry):
    """https://prometheus.io/docs/prometheus/latest/http_sd/"""
    with urllib.request.urlopen(f"{registry.url}/metrics-targets", timeout=5) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        groups = json.load(answer)
    assert groups == [
        {"targets": ["10.0.0.1:9052"], "labels": {"job": "target"}},
        {"targets": [], "labels": {"job": "draft"}},
    ]


async def test_another_page_is_no_empty_list(registry):
    with pytest.raises(ServiceUnavailable, match="404"):
        await Page(f"{registry.url}/targetz").places()


async def test_a_page_of_something_else_is_no_list():
    with pytest.raises(ServiceUnavailable, match="is not host:port"):
        await Page("http://portal/", read=lambda url: "<html>Please log in: 10</html>").places()


async def test_a_page_that_does_not_speak_http_is_no_list():
    async def greet(reader, writer):
        writer.write(b"hello\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ServiceUnavailable, match="lists no replicas"):
            await Page(f"http://127.0.0.1:{port}/targets").places()


async def test_a_registry_that_is_gone_cannot_be_asked(registry):
    registry.close()
    with pytest.raises(ServiceUnavailable, match="lists no replicas"):
        await Page(f"{registry.url}/targets").places()


def test_a_port_that_is_taken_is_named_with_a_way_out(registry):
    port = int(registry.url.rpartition(":")[2])
    with pytest.raises(ConfigError, match="--registry-port"):
        Registry("127.0.0.1", port, {}, {})
