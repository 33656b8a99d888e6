"""Who may do what: access control lists, as ZooKeeper 3.8 understands them.                                       Pure.

Rights are not inherited. They are checked where a command is applied, with the identities that travel in it, and where the tree is
read, with those of whoever reads; so all replicas agree. Whoever holds the scheme `super` passes every check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Final

from database.kv.commands import OPEN_ACL, Acl, Identity, Permission
from database.kv.results import Error, RefusedError

_AUTHENTICATED: Final = frozenset({"digest", "sasl", "x509"})
"""Schemes of which an identity proves something; the scheme `auth` stands for all of these that the creator has."""

READ: Final = int(Permission.READ)
WRITE: Final = int(Permission.WRITE)
CREATE: Final = int(Permission.CREATE)
DELETE: Final = int(Permission.DELETE)
ADMIN: Final = int(Permission.ADMIN)


def check(acl: tuple[Acl, ...], permission: int, identities: tuple[Identity, ...]) -> None:
    """Raises RefusedError: NO_AUTH."""
    if acl is not OPEN_ACL and not allows(acl, permission, identities):
        raise RefusedError(Error.NO_AUTH)


def allows(acl: tuple[Acl, ...], permission: int, identities: tuple[Identity, ...]) -> bool:
    """Whether somebody with these identities has one of these permissions."""
    if any(identity.scheme == "super" for identity in identities):
        return True
    return any(
        entry.permissions & permission
        and ((entry.scheme == "world" and entry.id == "anyone") or any(_matches(entry, each) for each in identities))
        for entry in acl
    )


def settled(acl: tuple[Acl, ...], identities: tuple[Identity, ...]) -> tuple[Acl, ...]:
    """As it is stored: without duplicates, `auth` replaced by who its creator is.

    Raises:
        RefusedError: INVALID_ACL: empty, an unknown scheme, an id that this scheme cannot have, or `auth` of nobody.
    """
    if acl is OPEN_ACL or acl == OPEN_ACL:
        return OPEN_ACL
    found: dict[Acl, None] = {}
    for entry in dict.fromkeys(acl):
        if entry.scheme == "auth":
            own = [Acl(entry.permissions, each.scheme, each.id) for each in identities if each.scheme in _AUTHENTICATED]
            if not own:
                raise RefusedError(Error.INVALID_ACL)
            found.update(dict.fromkeys(own))
        elif entry.scheme in _VALID and _VALID[entry.scheme](entry.id):
            found[entry] = None
        else:
            raise RefusedError(Error.INVALID_ACL)
    if not found:
        raise RefusedError(Error.INVALID_ACL)
    return OPEN_ACL if tuple(found) == OPEN_ACL else tuple(found)


def masked(acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """For those who may not change it: without the hashes of passwords."""
    return tuple(
        Acl(each.permissions, each.scheme, each.id.partition(":")[0] + ":x") if each.scheme == "digest" else each
        for each in acl
    )


def _matches(entry: Acl, identity: Identity) -> bool:
    if entry.scheme != identity.scheme:
        return False
    return entry.id == identity.id or (entry.scheme == "ip" and _is_within(identity.id, entry.id))


def _is_within(address: str, network: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        return False


def _is_network(id_: str) -> bool:
    try:
        ip_network(id_, strict=False)
    except ValueError:
        return False
    return True


_VALID: Final[Mapping[str, Callable[[str], bool]]] = {
    "world": lambda id_: id_ == "anyone",
    "ip": _is_network,
    "digest": lambda id_: len(id_.rstrip(":").split(":")) == 2,
    "sasl": bool,
    "x509": lambda id_: "=" in id_,
}
"""What an id of each scheme must look like."""
