"""Our certificate and key, and the trusted authority: read from files, and again when they change.

A rotation needs no signal and interrupts nothing: each new connection checks the files, and open
ones stay. New files that cannot be used (a certificate with a key still to come, say) are reported.
The old ones stay in use until the files change again, or until a later try finds that the new ones can
be used after all: a certificate may begin in the future, and a process may be out of descriptors.

Files are tried at once, by a handshake with ourselves in memory. It gives our own identity, and
finds an expired certificate, one of another authority, or one that may not be used for both sides,
before any peer does.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.caller_roles import Principal
from virtuallog.contract.errors import InvalidSettingError, UntrustedError
from virtuallog.contract.ports import Clock
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.security.tls_stream import owner_untrusted
from virtuallog.runtime import log
from virtuallog.runtime.clock import SystemClock

Stamp: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""Inode, size, and times of the last change of the content and of the rights of each file; None if a file does not exist."""
RETRY_SECONDS: Final = 30.0
"""Time after which files that could not be used are tried again, though they have not changed."""
_USELESS: Final = "new certificates cannot be used, the old ones stay"
_FLIGHTS_MAX: Final = 8
"""Flights of a handshake in memory; it takes three."""


@attrs.frozen
class Loaded:
    """Content of the files at one moment."""

    owner: Principal
    expires: str
    """Expiry as OpenSSL writes it: 'Jun  1 12:00:00 2027 GMT'."""
    client: ssl.SSLContext
    server: ssl.SSLContext


@attrs.define(eq=False)
class Credentials:
    """Our certificate and the trusted authority, always current."""

    files: TlsFiles
    _loaded: Loaded
    _stamp: Stamp
    _serves: bool = False
    _clock: Clock = attrs.field(factory=SystemClock)
    _refused_at: float | None = attrs.field(default=None, init=False)
    """Time of the last try to load the present files. None if they are in use."""
    _reason: str = attrs.field(default="", init=False)
    """Why that try failed, as it was logged."""

    @classmethod
    def open(cls, files: TlsFiles, *, serves: bool = False) -> Credentials:
        """Read and try the files.

        Args:
            files: paths of the files.
            serves: True for an owner that is called by others and is no node: its certificate must be good for a server.

        Raises:
            InvalidSettingError: a file cannot be read or used; names it and the reason.
        """
        stamp = stamp_of(files)
        return cls(files, _load(files, serves), stamp, serves)

    @property
    def owner(self) -> Principal:
        """The identity in our certificate. Does not change."""
        return self._loaded.owner

    def current(self) -> Loaded:
        """Return the content of the files now, if usable. Reads small local files after a change:
        some milliseconds."""
        stamp = stamp_of(self.files)
        if stamp != self._stamp:
            self._stamp, self._reason = stamp, ""
            self._reload()
        elif self._refused_at is not None and self._clock.monotonic() - self._refused_at >= RETRY_SECONDS:
            self._reload()
        return self._loaded

    def checked(self) -> Loaded:
        """The same, but files that could not be used are tried at once, and reported again."""
        if self._refused_at is not None:
            self._stamp = ()
        return self.current()

    def check_peer(self, peer: Principal) -> None:
        """Check that a peer belongs to our cluster.

        Raises:
            UntrustedError: it belongs to another one.
        """
        if peer.cluster != self.owner.cluster:
            raise UntrustedError(f"{peer} is of another cluster; this is {self.owner.cluster}")

    def _reload(self) -> None:
        try:
            loaded = _load(self.files, self._serves)
        except InvalidSettingError as error:
            self._refuse(str(error))
            return
        if loaded.owner == self.owner:
            self._loaded, self._refused_at, self._reason = loaded, None, ""
            log.info("certificates loaded", owner=str(loaded.owner), expires=loaded.expires)
        else:
            self._refuse(f"{self.files.certificate} is now of {loaded.owner}, not of {self.owner}")

    def _refuse(self, reason: str) -> None:
        """Stay with the old files. Each reason is logged once."""
        if reason != self._reason:
            log.warning(_USELESS, reason=reason)
        self._refused_at, self._reason = self._clock.monotonic(), reason


def stamp_of(files: TlsFiles) -> Stamp:
    """Return a stamp that changes when the files do."""
    return tuple(_stat(path) for path in (files.certificate, files.key, files.authority))


def _stat(path: Path) -> tuple[int, ...] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return None


def _load(files: TlsFiles, serves: bool) -> Loaded:
    client, server = _context(files, ssl.PROTOCOL_TLS_CLIENT), _context(files, ssl.PROTOCOL_TLS_SERVER)
    server.num_tickets = 0  # sessions are not resumed: connections last
    try:
        seen = _self_handshake(_lenient_context(files), server)
        owner = owner_untrusted(seen)
        if serves or owner.node is not None:  # others call it, too
            _self_handshake(client, server)
        return Loaded(owner, str(seen["notAfter"]), client, server)
    except (ssl.SSLError, UntrustedError) as error:
        reason = getattr(error, "verify_message", None) or str(error)
        raise InvalidSettingError(str(files.certificate), f"cannot be used: {reason}") from error


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False  # host names do not identify nodes: see roles.py
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_files(context, files)
    return context


def load_files(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Load the files into a context.

    Raises:
        InvalidSettingError: a file cannot be read or used; names it and the reason.
    """
    path = files.authority
    try:
        context.load_verify_locations(path)
        path = files.certificate
        context.load_cert_chain(path, files.key, password=_refuse_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise InvalidSettingError(str(path), f"cannot be used with {files.key.name}: {reason}") from error


def _lenient_context(files: TlsFiles) -> ssl.SSLContext:
    """Make a client context for the handshake with ourselves. A client's certificate need not be
    good for a server."""
    context = _context(files, ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_NONE
    return context


def _refuse_password() -> str:
    raise ValueError("the key is encrypted, and a node cannot ask for the password: give it an unencrypted key")


def _self_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, object]:
    """Shake hands in memory; return our certificate as a server has verified it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
    for _ in range(_FLIGHTS_MAX):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    seen = sides[1].getpeercert()
    assert seen
    return dict(seen)
