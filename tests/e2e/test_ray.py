"""A fleet on a real local Ray: actors die, and their streams finish; the supervisor dies, and the fleet stays."""

import asyncio
import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from forerun.cluster.load import Load
from tests.support.ray_fleet import TINY_ARGS, Up, actors, ray_cluster

PROMPTS = [f"{letter} the rain in" for letter in "abcdefgh"]
NUM_TOKENS = 400
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def ray():
    with ray_cluster(num_cpus=6) as ray:
        yield ray


@pytest.fixture
def run_up(ray):
    """Starts the command; whatever is left of it at the end is ended."""
    started = []

    def run(*flags, **options):
        started.append(Up(ray, *flags, **options))
        return started[-1]

    yield run
    for up in started:
        up.kill()
        up.close()
    for actor in (*actors(ray, "target").values(), *actors(ray, "draft").values()):
        ray.kill(actor)


async def texts(url, on_token=lambda: None):
    """What the prompts are continued with, all at once; on_token is called for every piece of text."""
    async with httpx.AsyncClient(timeout=120, base_url=url) as client:
        return await asyncio.gather(*(_text(client, prompt, on_token) for prompt in PROMPTS))


async def _text(client, prompt, on_token):
    body = {"model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": NUM_TOKENS, "ignore_eos": True}
    pieces = []
    async with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                assert "error" not in event, event
                pieces += [choice["text"] for choice in event["choices"]]
                on_token()
    return "".join(pieces)


async def killed_mid_stream(ray, url, victim):
    """The texts while the actor named `victim` is killed once every stream has begun, or so."""
    num_pieces = 0

    def on_token():
        nonlocal num_pieces
        num_pieces += 1
        if num_pieces == 8 * len(PROMPTS):
            ray.kill(ray.get_actor(victim))

    return await texts(url, on_token)


async def scraped(registry_url):
    """Job → whether each replica that Prometheus would scrape tells of itself."""
    async with httpx.AsyncClient() as client:
        jobs = (await client.get(f"{registry_url}/metrics-targets")).json()
        return {
            job["labels"]["job"]: [
                "forerun_num_requests_running" in (await client.get(f"http://{target}/metrics")).text
                for target in job["targets"]
            ]
            for job in jobs
        }


async def num_failovers(url):
    async with httpx.AsyncClient() as client:
        lines = (await client.get(f"{url}/metrics")).text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("forerun_failovers_total")))


async def test_an_actor_dies_mid_stream_and_the_supervisor_after_it(ray, run_up, fleet, tiny_pair):
    up = run_up(tiny_pair.target, "--targets", 2, "--drafts", 1)
    first = up.until(lambda addresses: len(addresses) == 2)
    up.until(lambda addresses: len(addresses) == 1, "drafts")
    url = fleet.gateway(tiny_pair.target, f"{up.url}/targets", [f"{up.url}/drafts"], "--served-model-name", "tiny").url

    expected = await texts(url)
    assert await scraped(up.url) == {"target": [True, True], "draft": [True]}
    victim = min(actors(ray, "target"))
    load = await actors(ray, "target")[victim].load.remote()
    assert isinstance(load, Load) and (load.num_waiting, load.max_sequences) == (0, 64)
    assert await killed_mid_stream(ray, url, victim) == expected
    assert await num_failovers(url) > 0

    second = up.until(lambda addresses: len(addresses) == 2 and set(addresses) != set(first))
    assert victim not in actors(ray, "target")
    assert len(set(first) & set(second)) == 1

    before = set(actors(ray, "target"))
    up.kill()
    assert await texts(url) == expected  # nobody needs the supervisor in order to serve
    again = run_up(tiny_pair.target, "--targets", 2, "--drafts", 1, port=up.port)
    assert set(again.until(bool)) == set(second)
    assert set(actors(ray, "target")) == before

    assert again.terminate() == 0
    assert not actors(ray, "target")
    assert not actors(ray, "draft")


@pytest.mark.full
async def test_a_rank_of_a_split_target_dies_mid_stream(ray, run_up, fleet, tiny_pair):
    up = run_up(tiny_pair.target, "--targets", 2, "--drafts", 0, "--tensor-parallel", 2)
    first = up.until(lambda addresses: len(addresses) == 2)
    url = fleet.gateway(tiny_pair.target, f"{up.url}/targets", [f"{up.url}/drafts"], "--served-model-name", "tiny").url
    expected = await texts(url)
    assert len(actors(ray, "target")) == 4
    victim = min(name for name in actors(ray, "target") if name.endswith("-1"))
    assert await killed_mid_stream(ray, url, victim) == expected
    assert await num_failovers(url) > 0
    up.until(lambda addresses: len(addresses) == 2 and set(addresses) != set(first))
    assert await texts(url) == expected
    assert up.terminate() == 0


@pytest.mark.full
async def test_a_pool_grows_while_sequences_queue_and_shrinks_when_they_are_gone(ray, run_up, fleet, tiny_pair):
    scaling = ("--max-targets", 2, "--scale-up-queue", 2, "--scale-down-running", 1, "--scale-every-s", 0.3)
    up = run_up(tiny_pair.target, "--drafts", 0, *scaling, "--target-args", TINY_ARGS + " --max-sequences 1")
    up.until(lambda addresses: len(addresses) == 1)
    url = fleet.gateway(tiny_pair.target, f"{up.url}/targets", [f"{up.url}/drafts"], "--served-model-name", "tiny").url
    expected = await texts(url)
    while len(up.listed("targets")) < 2:
        assert await texts(url) == expected
    await asyncio.to_thread(up.until, lambda addresses: len(addresses) == 1)
    assert await texts(url) == expected
    assert up.terminate() == 0


@pytest.mark.full
async def test_a_supervisor_with_other_flags_replaces_replicas_one_by_one(ray, run_up, fleet, tiny_pair):
    up = run_up(tiny_pair.target, "--targets", 2, "--drafts", 0)
    first = set(up.until(lambda addresses: len(addresses) == 2))
    url = fleet.gateway(tiny_pair.target, f"{up.url}/targets", [f"{up.url}/drafts"], "--served-model-name", "tiny").url
    expected = await texts(url)
    up.kill()
    changed = ("--target-args", TINY_ARGS + " --max-sequences 32")
    again = run_up(tiny_pair.target, "--targets", 2, "--drafts", 0, *changed, port=up.port)
    while len(now := set(again.listed("targets"))) < 2 or now & first:
        again.check_alive()
        assert await texts(url) == expected
    for actor in actors(ray, "target").values():
        assert "32" in await actor.arguments.remote()
    assert again.terminate() == 0


@pytest.mark.full
def test_a_service_that_hangs_is_started_again(ray, run_up, tiny_pair):
    up = run_up(tiny_pair.target, "--targets", 1, "--drafts", 0)
    (first,) = up.until(lambda addresses: len(addresses) == 1)
    flag = f"--port\0{first.rpartition(':')[2]}\0".encode()
    (pid,) = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if flag in path.read_bytes()]
    os.kill(pid, signal.SIGSTOP)
    up.until(lambda addresses: addresses and addresses != [first])
    assert not Path(f"/proc/{pid}").exists()
    assert up.terminate() == 0
