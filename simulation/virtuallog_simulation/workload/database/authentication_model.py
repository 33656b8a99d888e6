"""Model of the identities that each connection of a client had proved at each request, by the rules
and not by what servers say.

A connection has its address from the start. `auth` with scheme digest adds the user with the hash
of the sent text, valid or not; it adds the super user if that is the digest the settings name. A
SASL login adds a user if the password was right. Both belong to the connection and count for the
requests behind them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import once
from virtuallog_database.tree.commands import Identity
from virtuallog_database.tree.results import Error
from virtuallog_simulation.workload.database.requests import Asked, Auth, Close, Connect, Login, Ping, Rules

ADDRESS: Final = Identity("ip", "127.0.0.1")
SUPER: Final = Identity("super", "")
BEFORE_LOGIN: Final = (Auth, Login, Ping, Close)
"""Requests that are allowed before a required login."""


@attrs.frozen
class ProvenIdentities:
    """Identities of one connection at one moment."""

    identities: tuple[Identity, ...] = (ADDRESS,)
    is_logged_in: bool = True
    """Or need not be."""
    is_read_only: bool = False
    has_failed: bool = False
    """True if it has shown a wrong credential: it is to be closed."""
    is_challenged: bool = False
    """The first token of a SASL exchange was sent."""


def rules(history: History) -> Rules:
    """The settings of the servers."""
    found: Sequence[Told] = history.operations(Rules)
    return found[0].action if found else Rules()


@once
def standings(history: History) -> Mapping[int, tuple[ProvenIdentities, ProvenIdentities]]:
    """Identities before and after each request, by the number of the request."""
    return dict(_standings(history))


def _standings(history: History) -> Iterator[tuple[int, tuple[ProvenIdentities, ProvenIdentities]]]:
    settings = rules(history)
    present: dict[int, ProvenIdentities] = {}
    for told in history.operations(Connect):
        if told.returned:
            present[told.action.connection] = ProvenIdentities(
                is_logged_in=not settings.sasl_required, is_read_only=told.result.read_only
            )
    for told in sorted(history.operations(Asked), key=lambda told: told.invoked):
        before = present.get(told.action.connection, ProvenIdentities())
        after = present[told.action.connection] = _after(before, told.action.request, settings)
        yield told.number, (before, after)


def _after(standing: ProvenIdentities, request: object, settings: Rules) -> ProvenIdentities:
    match request:
        case Auth("digest", credential):
            digest = digest_of(credential.decode())
            new = [Identity("digest", digest)]
            if digest == settings.super_digest:
                new.insert(0, SUPER)
            return _with(standing, new)
        case Auth(scheme, _):
            return standing if scheme == "ip" else attrs.evolve(standing, has_failed=True)
        case Login(_, _, b""):
            return attrs.evolve(standing, is_challenged=True, has_failed=standing.is_challenged or not settings.users)
        case Login(user, password, _):
            if not standing.is_challenged or settings.users.get(user) != password:
                return attrs.evolve(standing, has_failed=True)
            return attrs.evolve(_with(standing, [Identity("sasl", user)]), is_logged_in=True)
        case _:
            return standing


def _with(standing: ProvenIdentities, new: Sequence[Identity]) -> ProvenIdentities:
    known = standing.identities
    return attrs.evolve(standing, identities=(*known, *(each for each in new if each not in known)))


def digest_of(credential: str) -> str:
    """`user:password` as ACLs name it."""
    hashed = base64.b64encode(hashlib.sha1(credential.encode(), usedforsecurity=False).digest()).decode()
    return f"{credential.split(':', maxsplit=1)[0]}:{hashed}"


def refusal(request: object, before: ProvenIdentities, after: ProvenIdentities, *, is_write: bool) -> Error | None:
    """Refusal that the server must give before it looks at the tree; None if there is none."""
    if not before.is_logged_in and not isinstance(request, BEFORE_LOGIN):
        return Error.SASL_REQUIRED
    if isinstance(request, Auth | Login):
        return Error.AUTH_FAILED if after.has_failed else Error.OK
    if before.is_read_only and is_write:
        return Error.NOT_READ_ONLY
    return None


REFUSALS: Final = frozenset((Error.SASL_REQUIRED, Error.AUTH_FAILED, Error.NOT_READ_ONLY))
