"""Certificates in files, read again when they change: a renewed one is used without a restart."""

import logging
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forerun.errors import ConfigError

LOOK_EVERY_S = 1.0
_log = logging.getLogger("forerun.certificates")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: a certificate chain, its key, and the CAs whose certificates the other side may show; "" is none.

    `prefix` is what the flags that name them begin with.
    """

    cert: str
    key: str
    ca: str = ""
    prefix: str = "--tls-"


@dataclass(frozen=True, slots=True, eq=False)
class Pems:
    """What the files held at one time; two readings are equal only if they are the same one."""

    cert: bytes
    key: bytes
    ca: bytes


class Certificates:
    """Always holds a certificate that fits its key. A change that cannot be used is logged, and the last one stays.

    Raises ConfigError, naming the flag, where there is nothing to begin with. Any thread may ask.
    """

    def __init__(self, files: TlsFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self.files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = _stamp(files)
        self._pems = _read(files)
        self._looked_at = clock()

    def current(self) -> Pems:
        """The newest that could be read; the files are looked at once a second at most."""
        with self._lock:
            if self._clock() - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = self._clock()
                self._look()
            return self._pems

    def _look(self) -> None:
        try:
            stamp = _stamp(self.files)
            if stamp == self._stamp:
                return
            pems = _read(self.files)
            if _stamp(self.files) != stamp:
                return  # in the middle of a change: the next look finds it whole
        except ConfigError as error:
            _log.error("going on with the last certificate: %s", error)
            return
        self._stamp, self._pems = stamp, pems
        _log.info("%scert was read again", self.files.prefix)


def certificates(cert: str, key: str, ca: str) -> Certificates | None:
    """What a service shows to its peers and asks of them, None for no TLS. Raises ConfigError for only some of them."""
    given = {"--tls-cert": cert, "--tls-key": key, "--tls-ca": ca}
    missing = [flag for flag, path in given.items() if not path]
    if len(missing) == len(given):
        return None
    if missing:
        raise ConfigError(f"{', '.join(given)} go together; {' and '.join(missing)} is missing")
    return Certificates(TlsFiles(cert, key, ca))


def public_certificates(cert: str, key: str) -> Certificates | None:
    """What clients are shown, who need no certificate themselves; None for no TLS."""
    if bool(cert) != bool(key):
        raise ConfigError("--public-tls-cert and --public-tls-key go together; one of them is missing")
    return Certificates(TlsFiles(cert, key, prefix="--public-tls-")) if cert else None


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """A context that shows this certificate. Raises ConfigError where it does not fit its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{files.prefix}cert {files.cert} and {files.prefix}key {files.key} cannot be used: {error}"
        ) from error
    if files.ca:
        try:
            context.load_verify_locations(files.ca)
        except OSError as error:
            raise ConfigError(f"{files.prefix}ca {files.ca} cannot be used: {error}") from error
    return context


def reloading_context(certificates: Certificates) -> ssl.SSLContext:
    """A context whose every new connection is shown the newest certificate."""
    known = certificates.current()
    newest = server_context(certificates.files)

    def on_hello(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        nonlocal known, newest
        pems = certificates.current()
        if pems is not known:
            known, newest = pems, server_context(certificates.files)
        connection.context = newest

    first = server_context(certificates.files)
    first.sni_callback = on_hello
    return first


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one that is not")


def _read(files: TlsFiles) -> Pems:
    server_context(files)
    try:
        cert, key = Path(files.cert).read_bytes(), Path(files.key).read_bytes()
        return Pems(cert, key, Path(files.ca).read_bytes() if files.ca else b"")
    except OSError as error:
        raise ConfigError(f"{files.prefix}* cannot be read: {error}") from error


def _stamp(files: TlsFiles) -> tuple[tuple[int, int, int], ...]:
    """Changes whenever a file is written or replaced, also behind a link. Raises ConfigError where one is missing."""
    try:
        found = [Path(path).stat() for path in (files.cert, files.key, files.ca) if path]
    except OSError as error:
        raise ConfigError(f"{files.prefix}cert, key and ca name files: {error}") from error
    return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)
