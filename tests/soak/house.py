"""The soak's services: two targets and two drafts behind one gateway, of which one of each may be struck."""

import asyncio
import contextlib
import random
import signal

from tests.support.ports import free_ports
from tests.support.processes import TINY, Gateway, Service

FLAGS = (*TINY, "--max-sequences", "12", "--cache-tokens", "6000")
DEAD_S, HUNG_S = (0.5, 2.0), (0.5, 4.0)


class House:
    """Fixed ports, so that what died comes back where it was."""

    def __init__(self, pair):
        target = ("target_service", "--model", pair.target, *FLAGS)
        draft = ("draft_service", "--model", pair.draft, "--target-model", pair.target, *FLAGS)
        self._commands = [target, target, draft, draft]
        self._ports = free_ports(4)
        self.services = [self._start(index) for index in range(4)]
        for service in self.services:
            service.ready()
        addresses = [service.address for service in self.services]
        self.gateway = Gateway(
            pair.target, ",".join(addresses[:2]), addresses[2:], "--target-timeout-s", 2, environ={"LANG": "C"}
        ).ready()
        self.num_faults, self._struck = 0, set()

    @property
    def steady(self):
        """Processes that live from the first to the last minute, by name."""
        return {"gateway": self.gateway, "target": self.services[0], "draft": self.services[2]}

    async def trouble(self, seed, every_s):
        """Strikes targets and drafts, each on their own, until it is cancelled."""
        strikes = {
            "targets": [(self._kill, 1), (self._drain, 1), (self._hang, 1)],
            "drafts": [(self._kill, 3), (self._drain, 3), (self._hang, 3), (self._hang, 2)],
        }
        await asyncio.gather(*(self._strike_at(f"{seed} {name}", every_s, some) for name, some in strikes.items()))

    async def settle(self):
        """Returns once what was struck runs again."""
        await asyncio.gather(*self._struck)

    async def _strike_at(self, seed, every_s, strikes):
        rng = random.Random(seed)
        while True:
            await asyncio.sleep(every_s * rng.uniform(0.5, 1.5))
            strike, index = rng.choice(strikes)
            self.num_faults += 1
            task = asyncio.create_task(strike(index, rng))
            self._struck.add(task)
            task.add_done_callback(self._struck.discard)
            await asyncio.shield(task)

    def close(self):
        for process in (self.gateway, *self.services):
            process.kill()
            process.close()

    async def _kill(self, index, rng):
        self.services[index].kill()
        await self._again(index, rng)

    async def _drain(self, index, rng):
        with contextlib.suppress(ProcessLookupError):
            await asyncio.to_thread(self.services[index].terminate)
        await self._again(index, rng)

    async def _again(self, index, rng):
        await asyncio.sleep(rng.uniform(*DEAD_S))
        self.services[index].close()
        self.services[index] = self._start(index)
        await asyncio.to_thread(self.services[index].ready)

    async def _hang(self, index, rng):
        process = self.services[index].popen
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(rng.uniform(*HUNG_S))
        process.send_signal(signal.SIGCONT)

    def _start(self, index):
        module, *flags = self._commands[index]
        return Service(module, self._ports[index], *flags)
