"""ACLs by ZooKeeper's rules, for the model: validity, checks, and what clients are shown.

Written from docs/reference/zookeeper.md and ZooKeeper's own manual, not from `virtuallog_database.tree.acl`,
which it is there to judge.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from virtuallog_database.tree.commands import Acl, Identity

SUPER = "super"


def may(acl: Iterable[Acl], permissions: int, identities: Iterable[Identity]) -> bool:
    """True if a client with these identities has at least one of these permissions."""
    known = list(identities)
    if any(each.scheme == SUPER for each in known):
        return True
    return any(entry.permissions & permissions and _is_meant(entry, known) for entry in acl)


def _is_meant(entry: Acl, identities: Sequence[Identity]) -> bool:
    if entry.scheme == "world":
        return entry.id == "anyone"
    if entry.scheme == "ip":
        return any(each.scheme == "ip" and _is_in(each.id, entry.id) for each in identities)
    return any((each.scheme, each.id) == (entry.scheme, entry.id) for each in identities)


def _is_in(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)


def stored(acl: Iterable[Acl], identities: Sequence[Identity]) -> tuple[Acl, ...] | None:
    """Stored form of an ACL requested by a client with these identities. None if it is refused as
    invalid."""
    kept: list[Acl] = []
    for entry in acl:
        meant = _proved(entry, identities) if entry.scheme == "auth" else [entry]
        if not meant or not all(_is_well_formed(each) for each in meant):
            return None
        kept += [each for each in meant if each not in kept]
    return tuple(kept) or None


def _proved(entry: Acl, identities: Sequence[Identity]) -> list[Acl]:
    """Entries for the identities that the client has proved; its address and the super user's right
    are not among them."""
    proved = [each for each in identities if each.scheme in ("digest", "sasl", "x509")]
    return [Acl(entry.permissions, each.scheme, each.id) for each in proved]


def _is_well_formed(entry: Acl) -> bool:
    if entry.scheme == "world":
        return entry.id == "anyone"
    if entry.scheme == "digest":
        return len(entry.id.rstrip(":").split(":")) == 2
    if entry.scheme == "sasl":
        return entry.id != ""
    if entry.scheme == "x509":
        return "=" in entry.id
    if entry.scheme != "ip":
        return False
    try:
        ipaddress.IPv4Network(entry.id, strict=False)
    except ValueError:
        return False
    return True


def shown(acl: Iterable[Acl], *, to_admin: bool) -> tuple[Acl, ...]:
    """Result of getACL: hashes of passwords are shown only to clients with ADMIN."""
    return tuple(
        Acl(each.permissions, "digest", each.id.split(":")[0] + ":x")
        if each.scheme == "digest" and not to_admin
        else each
        for each in acl
    )
