"""A window keeps its number of requests running, counts each once, and survives what is refused."""

import asyncio

import pytest

from forerun.bench.prompts import PROMPTS, chats, prompts_of
from forerun.bench.window import Window
from forerun.errors import Overloaded
from tests.unit.bench.answers import answer


class Server:
    """Answers when everybody who is expected has asked; notes who said what."""

    def __init__(self, num_expected=1, refused=()):
        self.asked, self.num_running, self.most = [], 0, 0
        self._refused, self._full = refused, asyncio.Barrier(num_expected)

    async def ask(self, messages):
        self.asked.append([message["content"] for message in messages])
        self.num_running += 1
        self.most = max(self.most, self.num_running)
        await self._full.wait()
        self.num_running -= 1
        if messages[-1]["content"] in self._refused:
            raise Overloaded("no room")
        return answer(0.0, 1.0, 2.0)


async def test_as_many_run_as_were_asked_for_until_all_are_answered():
    server, window = Server(num_expected=4), Window()
    await window.run(server.ask, chats([("a",), ("b",)], 8), 4)
    assert server.most == 4
    assert sorted(server.asked) == [["a"]] * 4 + [["b"]] * 4
    assert (len(window.answers), window.num_tokens, window.failures, window.is_whole) == (8, 16, [], True)
    assert window.tokens_per_s == pytest.approx(16 / (window.ended_s - window.started_s))


async def test_a_turn_carries_what_was_said_before_it():
    server, window = Server(), Window()
    await window.run(server.ask, [("one", "two")], 1)
    assert server.asked == [["one"], ["one", "xx", "two"]]


async def test_what_is_refused_is_counted_with_the_turns_that_needed_it():
    server, window = Server(refused=("bad",)), Window()
    await window.run(server.ask, [("bad", "never asked"), ("good",)], 1)
    assert window.failures == ["no room"] * 2
    assert len(window.answers) == 1


async def test_a_window_that_is_broken_off_keeps_what_had_ended():
    server, window = Server(num_expected=2), Window()
    task = asyncio.create_task(window.run(server.ask, chats([("a",)], 3), 2))
    async with asyncio.timeout(5):
        while len(server.asked) < 3:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert (len(window.answers), window.is_whole) == (2, False)
    assert window.tokens_per_s > 0


def test_turns_add_up_to_the_number_of_requests():
    assert list(chats([("a", "b", "c"), ("d",)], 6)) == [("a", "b", "c"), ("d",), ("a", "b")]
    assert list(chats([("a",)], 1)) == [("a",)]


def test_without_a_file_the_built_in_prompts_are_asked(tmp_path):
    assert [turns[0] for turns in prompts_of("")] == list(PROMPTS)
    path = tmp_path / "own.jsonl"
    path.write_text('{"turns": ["one", "two"]}\n')
    assert prompts_of(str(path)) == [("one", "two")]
