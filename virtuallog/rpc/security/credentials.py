"""Our certificate and key, and the authority that we believe: from files, and anew when the files have changed.

Nobody has to be told of a rotation, and nothing is interrupted by one: each new connection looks at the files, those
that are open stay. New files that cannot be used (a certificate whose key is still to come, say) are reported, and the
old ones stay in use until the files change again.

What was read is tried at once, by shaking hands with ourselves in memory: that says who we are, and finds an expired
certificate, one of another authority, or one that may not be used for both sides, before anybody else does.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import structlog

from virtuallog.contract.errors import InvalidSettingError, UntrustedError
from virtuallog.contract.roles import Principal
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.security.tls_stream import owner_untrusted

Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""Of each file: inode, size, time of the last change; None if it is not there."""
_USELESS: Final = "new certificates cannot be used, the old ones stay"
_FLIGHTS_MAX: Final = 8
"""A handshake in memory takes three."""

log = structlog.get_logger(__name__)


@attrs.frozen
class Loaded:
    """What the files said at one moment."""

    owner: Principal
    expires: str
    """As OpenSSL writes it: 'Jun  1 12:00:00 2027 GMT'."""
    client: ssl.SSLContext
    server: ssl.SSLContext


@attrs.define(eq=False)
class Credentials:
    """See above."""

    files: TlsFiles
    _loaded: Loaded
    _stamp: Stamp

    @classmethod
    def open(cls, files: TlsFiles) -> Credentials:
        """Read and try the files.

        Raises:
            InvalidSettingError: they cannot be read or used; says which and why.
        """
        stamp = stamp_of(files)
        return cls(files, _load(files), stamp)

    @property
    def owner(self) -> Principal:
        """Who we are. Does not change."""
        return self._loaded.owner

    def current(self) -> Loaded:
        """What the files say now, if it can be used. Reads small local files: some milliseconds, and only after a change."""
        stamp = stamp_of(self.files)
        if stamp != self._stamp:
            self._stamp = stamp
            self._reload()
        return self._loaded

    def check_peer(self, peer: Principal) -> None:
        """Whether somebody is of our cluster.

        Raises:
            UntrustedError: of another one.
        """
        if peer.cluster != self.owner.cluster:
            raise UntrustedError(f"{peer} is of another cluster; this is {self.owner.cluster}")

    def _reload(self) -> None:
        try:
            loaded = _load(self.files)
        except InvalidSettingError as error:
            log.warning(_USELESS, reason=str(error))
            return
        if loaded.owner == self.owner:
            self._loaded = loaded
            log.info("certificates loaded", owner=str(loaded.owner), expires=loaded.expires)
        else:
            log.warning(_USELESS, reason=f"{self.files.certificate} is now of {loaded.owner}, not of {self.owner}")


def stamp_of(files: TlsFiles) -> Stamp:
    """Changes when the files do."""
    return tuple(_stat(path) for path in (files.certificate, files.key, files.authority))


def _stat(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def _load(files: TlsFiles) -> Loaded:
    client, server = _context(files, ssl.PROTOCOL_TLS_CLIENT), _context(files, ssl.PROTOCOL_TLS_SERVER)
    server.num_tickets = 0  # sessions are not resumed: connections last
    try:
        seen = _meet_ourselves(_credulous(files), server)
        owner = owner_untrusted(seen)
        if owner.node is not None:  # others call it, too
            _meet_ourselves(client, server)
        return Loaded(owner, str(seen["notAfter"]), client, server)
    except (ssl.SSLError, UntrustedError) as error:
        reason = getattr(error, "verify_message", None) or str(error)
        raise InvalidSettingError(str(files.certificate), f"cannot be used: {reason}") from error


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False  # a name of a host says nothing about who is there: see roles.py
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_files(context, files)
    return context


def load_files(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Put what the files say into a context.

    Raises:
        InvalidSettingError: they cannot be read or used; says which and why.
    """
    path = files.authority
    try:
        context.load_verify_locations(path)
        path = files.certificate
        context.load_cert_chain(path, files.key, password=_refuse_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise InvalidSettingError(str(path), f"cannot be used with {files.key.name}: {reason}") from error


def _credulous(files: TlsFiles) -> ssl.SSLContext:
    """For ourselves alone: a client's certificate need not be good for a server."""
    context = _context(files, ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_NONE
    return context


def _refuse_password() -> str:
    raise ValueError("the key is encrypted, and a node has nobody to ask for the password")


def _meet_ourselves(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, object]:
    """A handshake in memory; our certificate, as a server has verified it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
    for _ in range(_FLIGHTS_MAX):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    seen = sides[1].getpeercert()
    assert seen
    return dict(seen)
