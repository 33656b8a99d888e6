"""Access control lists, as ZooKeeper 3.8 understands them.

Rights are not inherited. They are checked where a command is applied, with the identities that
travel in it, and where the tree is read, with the reader's identities; so all replicas agree. The
scheme `super` passes every check.

A check looks at each entry, and a multi makes thousands of checks on every replica. So an ACL is
short, which ZooKeeper does not require.

Addresses and networks in an ACL are IPv4 in decimals, as ZooKeeper 3.8 reads them. Every replica
must read them alike for as long as the log is kept, on any platform. So the module uses neither
`ipaddress`, whose rules for leading zeros depend on the version of Python, nor `int` on digits
beyond ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from virtuallog_database.tree.commands import OPEN_ACL, Acl, Identity, Permission
from virtuallog_database.tree.results import Error, RefusedError

BITS: Final = 32
CHARACTERS_MAX: Final = 64
"""Longest text of a network; zeros may lead each of its numbers. ZooKeeper bounds the request only."""
_REMEMBERED: Final = 4096
"""Pairs of an address and a network that are cached: parsing their texts takes longer than the rest
of a check."""

_NETWORK: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9]+)(?:/([0-9]+))?")


def is_network(text: str) -> bool:
    """True if the text is an address, or one with the number of bits that count: `10.1.0.0/16`."""
    return _parse(text) is not None


@lru_cache(_REMEMBERED)
def is_within(address: str, network: str) -> bool:
    """True if the address is in the network; False if either is malformed. A number of bits in the
    address is ignored."""
    ours, theirs = _parse(address), _parse(network)
    if ours is None or theirs is None:
        return False
    number, bits = theirs
    return (ours[0] ^ number) >> (BITS - bits) == 0


def _parse(text: str) -> tuple[int, int] | None:
    """An address as a number, and how many of its bits count. None if malformed."""
    found = _NETWORK.fullmatch(text) if len(text) <= CHARACTERS_MAX else None
    if found is None:
        return None
    *octets, bits = map(int, found.groups(default=str(BITS)))
    if max(octets) > 255 or bits > BITS:
        return None
    return int.from_bytes(bytes(octets), "big"), bits


_AUTHENTICATED: Final = frozenset({"digest", "sasl", "x509"})
"""Schemes whose identities prove something; the scheme `auth` stands for all of these that the
creator has."""

ENTRIES_MAX: Final = 256
"""Most entries of one ACL: without duplicates, before and after `auth` is replaced by its creator's
identities."""

READ: Final = int(Permission.READ)
WRITE: Final = int(Permission.WRITE)
CREATE: Final = int(Permission.CREATE)
DELETE: Final = int(Permission.DELETE)
ADMIN: Final = int(Permission.ADMIN)


def check(acl: tuple[Acl, ...], permission: int, identities: tuple[Identity, ...]) -> None:
    """Check a permission. Raises RefusedError: NO_AUTH."""
    if acl is not OPEN_ACL and not allows(acl, permission, identities):
        raise RefusedError(Error.NO_AUTH)


def allows(acl: tuple[Acl, ...], permission: int, identities: tuple[Identity, ...]) -> bool:
    """True if the ACL gives a client with these identities one of these permissions."""
    return PermittedIdentities(acl, permission).include(identities)


class PermittedIdentities:
    """Identities to which an ACL gives at least one of these permissions: read once, asked many
    times."""

    def __init__(self, acl: tuple[Acl, ...], permission: int) -> None:
        self._named = {(entry.scheme, entry.id) for entry in acl if entry.permissions & permission}
        self._networks = [id_ for scheme, id_ in self._named if scheme == "ip"]

    def include(self, identities: tuple[Identity, ...]) -> bool:
        """True if a client with these identities is included."""
        named = self._named
        if ("world", "anyone") in named:
            return True
        return any(
            each.scheme == "super"
            or (each.scheme, each.id) in named
            or (each.scheme == "ip" and any(is_within(each.id, network) for network in self._networks))
            for each in identities
        )


def settled(acl: tuple[Acl, ...], identities: tuple[Identity, ...]) -> tuple[Acl, ...]:
    """An ACL as it is stored: without duplicates, and with `auth` replaced by its creator's
    identities.

    Raises:
        RefusedError: INVALID_ACL: empty, an unknown scheme, an id that this scheme cannot have,
            `auth` without any authenticated identity, or too many entries.
    """
    if acl is OPEN_ACL or acl == OPEN_ACL:
        return OPEN_ACL
    asked = dict.fromkeys(acl)
    found: dict[Acl, None] = {}
    _require(0 < len(asked) <= ENTRIES_MAX)
    for entry in asked:
        stands_for = _stands_for(entry, identities)
        _require(bool(stands_for))
        found.update(dict.fromkeys(stands_for))
        _require(len(found) <= ENTRIES_MAX)
    return OPEN_ACL if tuple(found) == OPEN_ACL else tuple(found)


def _stands_for(entry: Acl, identities: tuple[Identity, ...]) -> list[Acl]:
    """Entries that an entry stands for; empty if none."""
    if entry.scheme == "auth":
        return [Acl(entry.permissions, each.scheme, each.id) for each in identities if each.scheme in _AUTHENTICATED]
    return [entry] if entry.scheme in _VALID and _VALID[entry.scheme](entry.id) else []


def _require(holds: bool) -> None:
    if not holds:
        raise RefusedError(Error.INVALID_ACL)


def masked(acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """An ACL as shown to clients that may not change it: without the hashes of passwords."""
    return tuple(
        Acl(each.permissions, each.scheme, each.id.partition(":")[0] + ":x") if each.scheme == "digest" else each
        for each in acl
    )


def permission_letters(permissions: int) -> str:
    """Permissions by ZooKeeper's letters, in its order; "none" without any."""
    return "".join(letter for place, letter in enumerate("rwcda") if permissions & 1 << place) or "none"


_VALID: Final[Mapping[str, Callable[[str], bool]]] = {
    "world": lambda id_: id_ == "anyone",
    "ip": is_network,
    "digest": lambda id_: len(id_.rstrip(":").split(":")) == 2,
    "sasl": bool,
    "x509": lambda id_: "=" in id_,
}
"""Validity check for the ids of each scheme."""
