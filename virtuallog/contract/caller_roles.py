"""Roles of callers, and the names in certificates that give them.

A certificate names its owner by one URI among its subject alternative names:

    virtuallog://CLUSTER/node/2         node 2 of the cluster
    virtuallog://CLUSTER/admin/alice    an operator who changes the cluster
    virtuallog://CLUSTER/client/app     a client that uses the log

Names of hosts mean nothing here: nodes are known by number; their addresses are numbers mostly, and
change. Each method declares the role it needs (`interface.Method.role`); docs/howto/secure.md lists
them.
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
_NODE: Final = re.compile(r"[1-9][0-9]{0,18}")
"""Number of a node, or of a store of a log that is used by itself, which has 63 bits."""


class Role(enum.IntEnum):
    """Role of a caller. Each may do everything that the lower ones may, and more."""

    CLIENT = 1
    """Appends and reads."""
    ADMIN = 2
    """Trims, seals, changes the chain and the cluster."""
    NODE = 3
    """A part of the cluster, trusted by the other nodes."""


@attrs.frozen(kw_only=True)
class Principal:
    """The owner of a certificate."""

    cluster: str
    """Name that the operator chose. Tells apart two clusters that share an authority."""
    role: Role
    name: str

    def __attrs_post_init__(self) -> None:
        if self.role is Role.NODE and not _NODE.fullmatch(self.name):
            raise UntrustedError(f"'{self}' does not name a node by its number")

    def __str__(self) -> str:
        return f"{SCHEME}{self.cluster}/{self.role.name.lower()}/{self.name}"

    @property
    def node(self) -> NodeId | None:
        """Number of the node; None if the owner is no node."""
        return NodeId(int(self.name)) if self.role is Role.NODE else None


def parse_untrusted(uri: str) -> Principal:
    """Parse the URI of a certificate.

    Raises:
        UntrustedError: not a URI as in the module docstring.
    """
    found = _NAME.fullmatch(uri)
    if found is None:
        raise UntrustedError(f"'{uri[:200]}' is not {SCHEME}CLUSTER/node|admin|client/NAME")
    cluster, role, name = found.groups()
    return Principal(cluster=cluster, role=Role[role.upper()], name=name)


def find_untrusted(uris: list[str]) -> Principal:
    """Find the one owner among all URIs of a certificate.

    Raises:
        UntrustedError: none is named, or more than one.
    """
    ours = [uri for uri in uris if uri.startswith(SCHEME)]
    if len(ours) != 1:
        raise UntrustedError(f"a certificate must have one name {SCHEME}CLUSTER/ROLE/NAME; this one has {len(ours)}")
    return parse_untrusted(ours[0])
