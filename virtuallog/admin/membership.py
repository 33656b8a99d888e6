"""What an operator may ask any node about the nodes of the cluster. Like every change, it runs in a task of the node that
was asked (`virtuallog.admin.control`), looks at what is decided, and does the rest: it may be asked again at any time, anywhere.

The ones that take long answer after a moment with how far they are; whoever wants to see the end asks again.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.admin.control import ChainChanged
from virtuallog.contract.interface import Interface, Method
from virtuallog.contract.ports import Request
from virtuallog.contract.roles import Role
from virtuallog.contract.schema import load
from virtuallog.contract.types import NodeId


@attrs.frozen(kw_only=True)
class Progress:
    """How far a change of the nodes is."""

    done: bool
    """Nothing is left to do."""
    waits: bool
    """For the operator, who has to start the node."""
    says: str
    """What is done, is being done or is waited for."""
    problems: tuple[str, ...] = ()
    """Of a check: what stands against it."""


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
    """Give up the data directory of a node that does not answer, expect a new one in its place, and copy to it what it
    lacks. May be asked again and again: one directory is given up, by name. Fails as `AddNode`."""

    node: NodeId
    store_id: bytes
    """The directory to give up. If the register names another one, or none, that has been done."""
    addresses: tuple[str, ...] = ()
    """Where the new one will be; none: where the old one was."""
    force: bool = False
    """Also if the node answers."""


@attrs.frozen(kw_only=True)
class DrainNode(Request[Progress]):
    """Move everything off a node. Fails as `AddNode`, also if that would leave fewer copies of something."""

    node: NodeId
    check: bool = False
    """Change nothing; say what stands against it."""


@attrs.frozen(kw_only=True)
class RemoveNode(Request[ChainChanged]):
    """Take a node that nothing rests on out of the cluster. Fails as `AddNode`."""

    node: NodeId


@attrs.frozen(kw_only=True)
class ReconfigMembers(Request[ChainChanged]):
    """See `VirtualLog.reconfig_members`."""

    members: tuple[NodeId, ...]
    seen: tuple[NodeId, ...] = ()
    """The members that the operator saw; none: those of the moment at which a node is asked."""


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
"""The wire form of all of these."""
