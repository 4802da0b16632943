"""API keys from a file: who shows one is told from all others, without telling a guesser how close it was."""

import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from pathlib import Path

from forerun.errors import ConfigError, Unauthenticated

LOOK_EVERY_S = 1.0
MIN_KEY_LEN = 16  # shorter ones can be guessed
_log = logging.getLogger("forerun.keys")


class ApiKeys:
    """The keys in a file: one a line, with `#` before a remark. Only their digests are held.

    The file is looked at once a second at most. A change that leaves no key or cannot be read is logged, and the last
    keys stay. Raises ConfigError where there is none to begin with.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = Path(path), clock
        self._stamp = self._stat()
        self._digests = self._read()
        self._looked_at = clock()

    def identity(self, authorization: str) -> str:
        """What tells the key in an Authorization header from every other. Raises Unauthenticated for no known key.

        Every known key is compared, in constant time, whichever fits.
        """
        if self._clock() - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = self._clock()
            self._look()
        scheme, _, shown = authorization.partition(" ")
        digest = _digest(shown.strip()) if scheme.lower() == "bearer" else b""
        known = [hmac.compare_digest(digest, other) for other in self._digests]
        if not any(known):
            told = "is not one of this server's" if authorization else "is missing"
            raise Unauthenticated(f"the API key {told}; send it as 'Authorization: Bearer KEY'")
        return digest.hex()

    def _look(self) -> None:
        try:
            stamp = self._stat()
            if stamp != self._stamp:
                self._stamp, self._digests = stamp, self._read()
                _log.info("%d API keys were read again", len(self._digests))
        except ConfigError as error:
            _log.error("going on with the last API keys: %s", error)

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise ConfigError(f"--api-keys-file: {error}") from error
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> tuple[bytes, ...]:
        try:
            lines = self._path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--api-keys-file {self._path} cannot be read: {type(error).__name__}") from error
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        for key in keys:
            if len(key) < MIN_KEY_LEN or not key.isascii() or " " in key:
                raise ConfigError(
                    f"--api-keys-file {self._path} holds a key that is not {MIN_KEY_LEN} or more ASCII characters "
                    "without a space"
                )
        if not keys:
            raise ConfigError(f"--api-keys-file {self._path} holds no key")
        return tuple(sorted({_digest(key) for key in keys}))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
