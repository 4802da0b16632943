"""Work that slows what runs beside it, in virtual time: two services on the same cores."""

import asyncio


class Cores:
    """Runs pieces of work; while n run at once, each advances 1 / crowding^(n - 1) seconds a second."""

    def __init__(self, crowding):
        self.crowding, self.running, self.updated, self.timer = crowding, [], 0.0, None

    def run(self, work_s, done):
        """Calls `done` once work_s seconds of work are through."""
        self._advance()
        self.running.append([work_s, done])
        self._wait()

    def _advance(self):
        now = asyncio.get_running_loop().time()
        for piece in self.running:
            piece[0] -= (now - self.updated) * self._pace()
        self.updated = now

    def _pace(self):
        return self.crowding ** (1 - len(self.running))

    def _wait(self):
        if self.timer is not None:
            self.timer.cancel()
        if self.running:
            least_s = max(min(piece[0] for piece in self.running), 0.0)
            self.timer = asyncio.get_running_loop().call_later(least_s / self._pace(), self._ends)

    def _ends(self):
        self._advance()
        ended = [piece for piece in self.running if piece[0] <= 1e-9]
        self.running = [piece for piece in self.running if piece[0] > 1e-9]
        self._wait()
        for _, done in ended:
            done()
