"""The clients at the door: who they are, and how many requests of each are inside."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from forerun.errors import Overloaded
from gateway.api.keys import ApiKeys


class Clients:
    """Without keys everyone may come in, and only the salt of the prefix cache tells one bearer from another."""

    def __init__(self, keys: ApiKeys | None = None, max_requests: int = 256) -> None:
        self._keys, self._max_requests = keys, max_requests
        self._inside: Counter[str] = Counter()

    @contextmanager
    def inside(self, authorization: str) -> Iterator[str]:
        """Gives what tells this client from others, for as long as its request lasts.

        Raises Unauthenticated for a key that is not known, Overloaded where too many requests of it are inside.
        """
        if self._keys is None:
            yield authorization.removeprefix("Bearer ").strip()
            return
        who = self._keys.identity(authorization)
        if self._inside[who] >= self._max_requests:
            raise Overloaded(f"{self._max_requests} requests of this API key are being served; wait for one to end")
        self._inside[who] += 1
        try:
            yield who
        finally:
            self._inside[who] -= 1
            if not self._inside[who]:
                del self._inside[who]
