"""The identities of a connection: ZooKeeper's schemes of authentication.

    ip      from the start, the address of the peer
    x509    from the start, the subject of the certificate that it showed (TLS only)
    digest  "user:password" in an auth packet, any number of them; kept as user:base64(sha1("user:password"))
    super   a digest that the settings name: passes every check
    sasl    a user who has proved a password without sending it (`sasl.py`)

An identity belongs to a connection, not to a session: clients send their auth packets again when they reconnect. A digest is
accepted without any lookup: a client may be a new user at any time, and ACLs say which users they mean. The super digest is
compared in constant time.

The tree evaluates ACLs (`virtuallog_database.tree`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

import attrs

from virtuallog_database.tree.commands import Identity

IDENTITIES_MAX: Final = 64
"""Most identities of one connection: they travel with each of its commands, and are compared at each check of rights."""
IDENTITIES_CHARACTERS_MAX: Final = 4096
"""Most characters of their schemes and ids: each request, even of 22 bytes, carries them into the log. Identities without an auth
packet have no bound here.
"""
SUPER: Final = Identity("super", "")
WORLD: Final = Identity("world", "anyone")


class AuthenticationError(Exception):
    """Refused, or of an unknown scheme: AUTHFAILED, and the connection is closed."""


@attrs.frozen
class Authentication:
    """Answers auth packets."""

    super_digest: str = attrs.field(default="", repr=False)
    """user:base64(sha1("user:password")) of the superuser, which passes every check. Empty if there is none."""

    def greet(self, host: str, subject: str = "") -> tuple[Identity, ...]:
        """The identities of a connection from its start.

        Args:
            host: the peer's address, without a port; empty if it has none.
            subject: of the certificate that the peer has shown; empty if it has shown none.
        """
        by_address = (Identity("ip", host),) if host else ()
        return (*by_address, *((Identity("x509", subject),) if subject else ()))

    def authenticate(
        self, present: tuple[Identity, ...], scheme: str, credential: bytes | None
    ) -> tuple[Identity, ...]:
        """All identities of a connection after an auth packet.

        Args:
            present: those before it.
            scheme: named by the packet.
            credential: in the packet.

        Raises:
            AuthenticationError: the scheme is unknown, or the credential is refused.
        """
        if scheme == "digest":
            return add_identities(present, *self._digest(credential or b""))
        # Both are known from the connection itself, and a packet adds nothing; ZooKeeper answers success as well.
        if scheme in {"ip", "x509"} and any(identity.scheme == scheme for identity in present):
            return present
        raise AuthenticationError(f"scheme {scheme!r}")

    def _digest(self, credential: bytes) -> tuple[Identity, ...]:
        try:
            digest = digest_of(credential.decode())
        except UnicodeDecodeError as error:
            raise AuthenticationError("a digest that is no UTF-8") from error
        own = Identity("digest", digest)
        expected = self.super_digest
        is_super = bool(expected) and hmac.compare_digest(digest.encode(), expected.encode())
        return (SUPER, own) if is_super else (own,)


def digest_of(credential: str) -> str:
    """`user:password` in the form of ACLs. The scheme is ZooKeeper's: SHA-1 without salt does not protect weak passwords."""
    user, _, _ = credential.partition(":")
    hashed = hashlib.sha1(credential.encode(), usedforsecurity=False).digest()
    return f"{user}:{base64.b64encode(hashed).decode()}"


def users_of(identities: Iterable[Identity]) -> list[Identity]:
    """The users for whoAmI: without hashes of passwords, sorted."""
    return sorted((Identity(each.scheme, _user(each)) for each in identities), key=lambda user: (user.scheme, user.id))


def _user(identity: Identity) -> str:
    return identity.id.partition(":")[0] if identity.scheme == "digest" else identity.id


def add_identities(present: tuple[Identity, ...], *new: Identity) -> tuple[Identity, ...]:
    """The identities, each once, in order of arrival.

    Raises:
        AuthenticationError: they are too many.
    """
    added = [identity for identity in new if identity not in present]
    known = (*present, *added)
    if len(known) > IDENTITIES_MAX:
        raise AuthenticationError(f"more than {IDENTITIES_MAX} identities")
    if added and sum(len(each.scheme) + len(each.id) for each in known) > IDENTITIES_CHARACTERS_MAX:
        raise AuthenticationError(f"identities of more than {IDENTITIES_CHARACTERS_MAX} characters")
    return known
