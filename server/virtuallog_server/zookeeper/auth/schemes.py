"""Who a connection is: ZooKeeper's schemes of authentication.                                                     Pure.

    ip      from the start, the address of the other side
    x509    from the start, the subject of the certificate that it showed (TLS only)
    digest  "user:password" in an auth packet, any number of them; kept as user:base64(sha1("user:password"))
    super   a digest that the settings name: passes every check
    sasl    a user who has proved a password without sending it (`sasl.py`)

An identity belongs to a connection, not to a session: clients send their auth packets again when they reconnect. Nothing is
looked up to accept a digest: anybody may be anybody new, and an ACL says which of them it means. The super digest is compared
in constant time.

What an ACL says, and whom it lets pass, is a matter of the tree (`virtuallog_database.tree`).
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
"""Of one connection: they travel with each of its commands, and are compared wherever rights are checked."""
IDENTITIES_CHARACTERS_MAX: Final = 4096
"""Of their schemes and ids: a request of 22 bytes takes as many in the log. What a connection is without an auth packet has no bound here."""
SUPER: Final = Identity("super", "")
WORLD: Final = Identity("world", "anyone")


class AuthenticationError(Exception):
    """Refused, or of a scheme that nobody here knows: AUTHFAILED, and the connection is closed."""


@attrs.frozen
class Authentication:
    """Answers auth packets."""

    super_digest: str = attrs.field(default="", repr=False)
    """user:base64(sha1("user:password")) of who passes every check; empty: nobody."""

    def greet(self, host: str, subject: str = "") -> tuple[Identity, ...]:
        """What a connection is before it has said anything.

        Args:
            host: the other side's address, without a port; empty if it has none.
            subject: of the certificate that the other side has proved to be its own; empty: none.
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
            AuthenticationError: see there.
        """
        if scheme == "digest":
            return add_identities(present, *self._digest(credential or b""))
        # Both are known from the connection itself, and a packet adds nothing to it; ZooKeeper says yes as well.
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
    """`user:password` as ACLs name it. The scheme is ZooKeeper's: SHA-1 without salt is no protection for weak passwords."""
    user, _, _ = credential.partition(":")
    hashed = hashlib.sha1(credential.encode(), usedforsecurity=False).digest()
    return f"{user}:{base64.b64encode(hashed).decode()}"


def users_of(identities: Iterable[Identity]) -> list[Identity]:
    """As whoAmI tells them: without hashes of passwords, sorted."""
    return sorted((Identity(each.scheme, _user(each)) for each in identities), key=lambda user: (user.scheme, user.id))


def _user(identity: Identity) -> str:
    return identity.id.partition(":")[0] if identity.scheme == "digest" else identity.id


def add_identities(present: tuple[Identity, ...], *new: Identity) -> tuple[Identity, ...]:
    """Each once, in order of arrival.

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
