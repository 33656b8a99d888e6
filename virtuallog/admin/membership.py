"""Requests about the nodes of the cluster that an operator may send to any node.

Like every change (`virtuallog.admin.control`), each runs in a task of the node that was asked. It looks at what is
decided and does the rest, so the same request may be sent again at any time, to any node. The long ones answer after
a moment with their progress; send them again to see the end.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.admin.control import ChainChanged
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.ports import Request
from virtuallog.contract.schema import load
from virtuallog.contract.types import NodeId


@attrs.frozen(kw_only=True)
class Progress:
    """Progress of a change of the nodes."""

    done: bool
    """True if nothing is left to do."""
    waits: bool
    """True if it waits for the operator to start the node."""
    says: str
    """The step that is done, under way or waited for, in words."""
    problems: tuple[str, ...] = ()
    """Result of a check: reasons against the change."""


@attrs.frozen(kw_only=True)
class AddNode(Request[ChainChanged]):
    """Expect a new node; or let a drained one be used again.

    Fails with InvalidSettingError (nothing was done), UnavailableError (unknown; safe to repeat).
    """

    node: NodeId
    addresses: tuple[str, ...]
    roles: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ReplaceNode(Request[Progress]):
    """Give up the data directory of a node that does not answer, and put a new one in its place.

    Missing entries are copied to the new one. Safe to repeat: the directory to give up is named. Fails as `AddNode`.
    """

    node: NodeId
    store_id: bytes
    """The directory to give up. If the register names another one, or none, that has been done."""
    addresses: tuple[str, ...] = ()
    """Addresses of the new node; empty: those of the old one."""
    force: bool = False
    """True: even if the node answers."""


@attrs.frozen(kw_only=True)
class DrainNode(Request[Progress]):
    """Move everything off a node. Fails as `AddNode`, also if that would leave fewer copies of something."""

    node: NodeId
    check: bool = False
    """True: change nothing; report reasons against the drain."""


@attrs.frozen(kw_only=True)
class RemoveNode(Request[ChainChanged]):
    """Take an unused node out of the cluster. Fails as `AddNode`."""

    node: NodeId


@attrs.frozen(kw_only=True)
class ReconfigMembers(Request[ChainChanged]):
    """Change the members of the MetaStore; see `VirtualLog.reconfig_members`."""

    members: tuple[NodeId, ...]
    seen: tuple[NodeId, ...] = ()
    """The members that the operator saw; empty: those at the moment of the request."""


MEMBERSHIP: Final = Interface(
    schema=load("virtuallog.admin", "membership.capnp").Membership,
    methods=(
        Method(name="addNode", request=AddNode, reply=ChainChanged, role=Role.ADMIN),
        Method(name="replaceNode", request=ReplaceNode, reply=Progress, role=Role.ADMIN),
        Method(name="drainNode", request=DrainNode, reply=Progress, role=Role.ADMIN),
        Method(name="removeNode", request=RemoveNode, reply=ChainChanged, role=Role.ADMIN),
        Method(name="reconfigMembers", request=ReconfigMembers, reply=ChainChanged, role=Role.ADMIN),
    ),
)
"""Wire form of these requests."""
