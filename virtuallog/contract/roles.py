"""Who calls, by the name in a certificate, and in which role.                                                    Pure.

A certificate names its owner by one URI among its subject alternative names:

    virtuallog://CLUSTER/node/2         node 2 of the cluster
    virtuallog://CLUSTER/admin/alice    somebody who changes the cluster
    virtuallog://CLUSTER/client/app     somebody who uses the log

Names of hosts mean nothing here: nodes are known by number, their addresses are numbers mostly, and change. What a
role may do is said by each method (`interface.Method.role`); docs/howto/secure.md lists it.
"""

from __future__ import annotations

import enum
import re
from typing import Final

import attrs

from virtuallog.contract.errors import UntrustedError
from virtuallog.contract.types import NodeId

SCHEME: Final = "virtuallog://"
_NAME: Final = re.compile(r"virtuallog://([A-Za-z0-9._-]{1,64})/(client|admin|node)/([A-Za-z0-9._-]{1,64})")
_NODE: Final = re.compile(r"[1-9][0-9]{0,9}")


class Role(enum.IntEnum):
    """Each may do what those before it may, and more."""

    CLIENT = 1
    """Appends and reads."""
    ADMIN = 2
    """Trims, seals, changes the chain and the cluster."""
    NODE = 3
    """A part of the cluster, which the others believe."""


@attrs.frozen(kw_only=True)
class Principal:
    """The owner of a certificate."""

    cluster: str
    """A word that the operator chose. Two clusters that share an authority are told apart by it."""
    role: Role
    name: str

    def __attrs_post_init__(self) -> None:
        if self.role is Role.NODE and not _NODE.fullmatch(self.name):
            raise UntrustedError(f"'{self}' does not name a node by its number")

    def __str__(self) -> str:
        return f"{SCHEME}{self.cluster}/{self.role.name.lower()}/{self.name}"

    @property
    def node(self) -> NodeId | None:
        """Its number, if it is a node."""
        return NodeId(int(self.name)) if self.role is Role.NODE else None


def parse_untrusted(uri: str) -> Principal:
    """The owner that a URI of a certificate names.

    Raises:
        UntrustedError: it does not look as above.
    """
    found = _NAME.fullmatch(uri)
    if found is None:
        raise UntrustedError(f"'{uri[:200]}' is not {SCHEME}CLUSTER/node|admin|client/NAME")
    cluster, role, name = found.groups()
    return Principal(cluster=cluster, role=Role[role.upper()], name=name)


def find_untrusted(uris: list[str]) -> Principal:
    """The one owner among all URIs of a certificate.

    Raises:
        UntrustedError: none is named, or more than one.
    """
    ours = [uri for uri in uris if uri.startswith(SCHEME)]
    if len(ours) != 1:
        raise UntrustedError(f"a certificate must have one name {SCHEME}CLUSTER/ROLE/NAME; this one has {len(ours)}")
    return parse_untrusted(ours[0])
