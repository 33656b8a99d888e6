"""Amendments of the node table in the register: nodes, their addresses, data directories and roles.

    (absent) --Expect--> expected --Claim--> a member of the cluster --Withdraw--> drained --Remove--> (absent)
                            ^                     |       ^                          |
                            '-------Forget--------'       '---------Expect-----------'

An amendment computes the next register from the newest one, or None if that has it already. So any node can make
it again after an unknown outcome, on top of other changes (`virtuallog.reconfiguration.node_table_update`).

An entry of the table belongs to a data directory, not to a machine. `Forget` empties it before another directory
may `Claim` it, and the conditional put elects one of those that try. The directory holds what the node has promised:
its vote for the register (`virtuallog_metastore.core.acceptor`), its copies of loglets (`NodeEntry.joined`).

Seats in the MetaStore change in the same way (`members.ReplaceMember`): the amendment names the node that leaves and
the candidates, and the new members are computed from those of the register that it is put on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import attrs

from virtuallog.contract.address import split_address
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.placement import Placement
from virtuallog.contract.register import NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core.metastore_members import too_few_seats

NODES_MAX: Final = 64
"""Most nodes in the table.

Each takes some 100 bytes in a register of 64 KiB, and each node asks all others for their state.
"""


def _nowhere(_: Segment) -> None:
    return None


def _no_problems(_: Register) -> Sequence[str]:
    return ()


class Amendment(Protocol):
    """A change of the register that can be made again; one of the classes below, or `ReplaceMember`."""

    def amend(self, register: Register) -> Register | None:
        """The next version of the register; None if there is nothing to do.

        Raises:
            InvalidSettingError: the change is refused.
        """
        ...


@attrs.frozen(kw_only=True)
class Expect:
    """Let a new node join at these addresses, or give roles to a node that has them already.

    A drained node is used again. A node in use keeps its roles and may get more: `WithdrawRoles` takes
    roles away, and checks what would be left.
    """

    node: NodeId
    addresses: tuple[str, ...]
    roles: frozenset[str]

    def amend(self, register: Register) -> Register | None:
        """See `Amendment.amend`."""
        known = register.nodes.get(self.node)
        if known is None:
            _check(self.addresses)
            if len(register.nodes) >= NODES_MAX:
                raise InvalidSettingError("node", f"the cluster has {NODES_MAX} nodes, which is the limit")
            return _with(register, self.node, NodeEntry(store_id=b"", addresses=self.addresses, roles=self.roles))
        if known.addresses != self.addresses:
            where = ", ".join(known.addresses)
            raise InvalidSettingError(f"node {self.node}", f"is in the cluster already, at {where}")
        roles = known.roles | self.roles
        return None if roles == known.roles else _with(register, self.node, attrs.evolve(known, roles=roles))


@attrs.frozen(kw_only=True)
class Forget:
    """Give up the data directory `store_id`: a new one may take its place.

    No change if another directory has the place by now: the amendment was made before.
    """

    node: NodeId
    store_id: bytes
    addresses: tuple[str, ...] = ()
    """Addresses of the new node; empty: as before."""
    problems: Callable[[Register], Sequence[str]] = _no_problems
    """Losses if the directory is given up, by the register that is changed. With any, the amendment is refused."""

    def amend(self, register: Register) -> Register | None:
        """See `Amendment.amend`."""
        known = _entry(register, self.node)
        addresses = self.addresses or known.addresses
        if known.store_id not in {self.store_id, b""}:
            return None
        if known.is_expected and known.addresses == addresses:
            return None
        _check(self.addresses)
        if not known.is_expected and (problems := self.problems(register)):
            raise InvalidSettingError(f"node {self.node}", "; ".join(problems))
        changed = _with(register, self.node, attrs.evolve(known, store_id=b"", addresses=addresses, joined=0))
        if self.node in register.members and not known.is_expected and not changed.is_decidable:
            raise InvalidSettingError(
                f"node {self.node}", "most members of the MetaStore would wait for a new directory"
            )
        return changed


@attrs.frozen(kw_only=True)
class Claim:
    """Put a new data directory in the place that is kept for it. No change if the place is taken by now."""

    node: NodeId
    store_id: bytes

    def amend(self, register: Register) -> Register | None:
        """See `Amendment.amend`."""
        known = _entry(register, self.node)
        if not known.is_expected:
            return None
        joined = register.version + 1  # the version that this amendment makes
        return _with(register, self.node, attrs.evolve(known, store_id=self.store_id, joined=joined))


@attrs.frozen(kw_only=True)
class WithdrawRoles:
    """Take all roles from a node, so that no planner chooses it for anything new.

    Refused if the next loglet would have fewer servers than the last one on nodes, or if a seat in the
    MetaStore would have no node to go to. Checked here, as several operators may ask at the same time.
    """

    node: NodeId
    placement: Callable[[Segment], Placement | None] = _nowhere
    """Placement of the loglet of a segment; None if it is not on nodes."""

    def amend(self, register: Register) -> Register | None:
        """See `Amendment.amend`."""
        known = _entry(register, self.node)
        if not known.roles:
            return None
        changed = _with(register, self.node, attrs.evolve(known, roles=frozenset()))
        shortage = _too_few_servers(register, self.node, self.placement) or too_few_seats(changed)
        if shortage:
            raise InvalidSettingError(f"node {self.node}", shortage)
        return changed


@attrs.frozen(kw_only=True)
class Remove:
    """Take a node out of the cluster. No change if it is not in the cluster."""

    node: NodeId
    is_used: Callable[[Segment], bool]
    """True if the loglet of a segment needs the node."""
    placement: Callable[[Segment], Placement | None] = _nowhere
    """Placement of the loglet of a segment; None if it is not on nodes."""

    def amend(self, register: Register) -> Register | None:
        """See `Amendment.amend`."""
        if self.node not in register.nodes:
            return None
        if reason := self._needed(register):
            raise InvalidSettingError(f"node {self.node}", reason)
        return _without(register, self.node)

    def _needed(self, register: Register) -> str:
        if self.node in register.members:
            return "is a member of the MetaStore: drain it first"
        used = [str(segment.id) for segment in register.chain.segments if self.is_used(segment)]
        if used:
            return f"is needed by segments {', '.join(used)}: drain it first"
        if not register.nodes[self.node].roles:
            return ""
        return _too_few_servers(register, self.node, self.placement) or too_few_seats(_without(register, self.node))


def _too_few_servers(register: Register, node: NodeId, placement: Callable[[Segment], Placement | None]) -> str:
    """Reason why the next loglet on nodes would have fewer servers than the last one; empty if not.

    The last one on nodes need not be the open segment.
    """
    placed = [found for segment in register.chain.segments if (found := placement(segment)) is not None]
    if not placed or placed[-1].role not in register.nodes[node].roles:
        return ""
    role, wanted = placed[-1].role, len(placed[-1].servers)
    left = sum(role in entry.roles for other, entry in register.nodes.items() if other != node)
    return f"{wanted} nodes with role {role} are wanted, and {left} would be left" if left < wanted else ""


def _check(addresses: Iterable[str]) -> None:
    """Check addresses, also if the caller has: every node will have to use them.

    Raises:
        InvalidSettingError: one is not a valid address.
    """
    for address in addresses:
        split_address(address)


def lost_copies(register: Register, segment: Segment, servers: Iterable[NodeId]) -> frozenset[NodeId]:
    """Servers of a segment that hold nothing of it, as their data directory joined after the segment was made.

    When the copies are made again, the segment gets a new id, and none is lost any more.
    """
    nodes = register.nodes
    return frozenset(node for node in servers if node in nodes and nodes[node].joined >= segment.id.version)


def _entry(register: Register, node: NodeId) -> NodeEntry:
    entry = register.nodes.get(node)
    if entry is None:
        raise InvalidSettingError("node", f"the cluster has no node {node}")
    return entry


def _without(register: Register, gone: NodeId) -> Register:
    return register.with_nodes({node: entry for node, entry in register.nodes.items() if node != gone})


def _with(register: Register, node: NodeId, entry: NodeEntry) -> Register:
    return register.with_nodes({**register.nodes, node: entry})
