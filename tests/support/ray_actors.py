"""Actors as Ray hands them out, played: no cluster, no process."""

import asyncio


class Method:
    """A method of an actor: what it does goes on though nobody waits for it any more."""

    def __init__(self, does):
        self._does = does

    def remote(self, *arguments):
        return asyncio.shield(asyncio.ensure_future(self._does(*arguments)))


class Actor:
    """A rank that serves at `address`, started with `arguments`, and ends when `over` is set."""

    def __init__(self, address="host:1", arguments=()):
        self._address, self._arguments = address, arguments
        self.over, self.asked_to_stop = asyncio.Event(), asyncio.Event()
        self.ended, self.stop = Method(self._ended), Method(self._stop)
        self.address, self.metrics_address = Method(self._where), Method(self._where)
        self.arguments = Method(self._what)

    async def _ended(self):
        await self.over.wait()
        return "ended with status 0"

    async def _stop(self, timeout_s):
        self.asked_to_stop.set()
        await self.over.wait()

    async def _where(self):
        return self._address

    async def _what(self):
        return self._arguments


class Cluster:
    """Has those lives, remembers what was removed, and has no room for more."""

    def __init__(self, *lives):
        self._lives, self.removed = lives, []

    def lives(self, service):
        return [life for life in self._lives if life.name.startswith(f"forerun-{service}-")]

    async def place(self, plan, number, timeout_s):
        await asyncio.Event().wait()

    def remove(self, life):
        self.removed.append(life)
