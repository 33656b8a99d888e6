"""Changes of the table of nodes in the register: who is where, on which data directory, and what it is used for.   Pure.

    (absent) --Expect--> expected --Claim--> a member of the cluster --Withdraw--> drained --Remove--> (absent)
                            ^                     |       ^                          |
                            '-------Forget--------'       '---------Expect-----------'

Each is an amendment: what it makes of the newest register, or None if that shows it already. So it can be made again
after an unknown outcome, by anybody, and on top of whatever others have changed meanwhile (`virtuallog.reconfiguration.node_table_update`).

A place in the table is taken by a data directory, not by a machine. `Forget` empties the place before another directory
may `Claim` it, and the conditional put elects one of those that try. What the place stands for is bound to the directory:
its vote for the register (`virtuallog_metastore.core.acceptor`), its copies of loglets (`NodeEntry.joined`).

Seats in the MetaStore change in the same way: `ReplaceMember` says which node leaves and who may take its place, and the members are
computed from those of the register that it is put on.
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
from virtuallog.reconfiguration.core.members import too_few_seats

NODES_MAX: Final = 64
"""Nodes in the table: some 100 bytes each in a register of 64 KiB, and everybody asks all of them how they are."""


def _nowhere(_: Segment) -> None:
    return None


def _no_problems(_: Register) -> Sequence[str]:
    return ()


class Amendment(Protocol):
    """One of those below."""

    def amend(self, register: Register) -> Register | None:
        """The next version; None if there is nothing to do.

        Raises:
            InvalidSettingError: it cannot be.
        """
        ...


@attrs.frozen(kw_only=True)
class Expect:
    """A new node may join, or a drained one is of use again. It must be there, or come, at these addresses.

    A node in use may get more roles, and keeps those that it has: `WithdrawRoles` takes roles away, and checks what would be left.
    """

    node: NodeId
    addresses: tuple[str, ...]
    roles: frozenset[str]

    def amend(self, register: Register) -> Register | None:
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
    """The data directory `store_id` is given up: it is nobody's any more, and a new one may take its place.

    Nothing happens if another one has the place by now: somebody has been here before.
    """

    node: NodeId
    store_id: bytes
    addresses: tuple[str, ...] = ()
    """Where the new one will be; none: where it was."""
    problems: Callable[[Register], Sequence[str]] = _no_problems
    """What would be lost with the directory, judged on the register that is changed; any at all: it is not given up."""

    def amend(self, register: Register) -> Register | None:
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
    """A new data directory takes the place that is kept for it. Nothing happens if it, or another one, has it by now."""

    node: NodeId
    store_id: bytes

    def amend(self, register: Register) -> Register | None:
        known = _entry(register, self.node)
        if not known.is_expected:
            return None
        joined = register.version + 1  # the version that this makes
        return _with(register, self.node, attrs.evolve(known, store_id=self.store_id, joined=joined))


@attrs.frozen(kw_only=True)
class WithdrawRoles:
    """No planner chooses the node for anything new from now on.

    Refused if the log's next loglet would have fewer servers than the last one that is on nodes, or if a seat in the
    MetaStore would have no node left to go to: several operators may ask at the same time.
    """

    node: NodeId
    placement: Callable[[Segment], Placement | None] = _nowhere
    """The place of the loglet of a segment; None: not on nodes."""

    def amend(self, register: Register) -> Register | None:
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
    """The node is no part of the cluster any more. Nothing happens if it was none."""

    node: NodeId
    is_used: Callable[[Segment], bool]
    """Whether the loglet of a segment needs it."""
    placement: Callable[[Segment], Placement | None] = _nowhere
    """See `WithdrawRoles`."""

    def amend(self, register: Register) -> Register | None:
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
    """Whether the next loglet on nodes would have fewer servers than the last one had. The open segment may be elsewhere."""
    placed = [found for segment in register.chain.segments if (found := placement(segment)) is not None]
    if not placed or placed[-1].role not in register.nodes[node].roles:
        return ""
    role, wanted = placed[-1].role, len(placed[-1].servers)
    left = sum(role in entry.roles for other, entry in register.nodes.items() if other != node)
    return f"{wanted} nodes with role {role} are wanted, and {left} would be left" if left < wanted else ""


def _check(addresses: Iterable[str]) -> None:
    """Whoever asks may have checked them; everybody else would have to live with what it has not.

    Raises:
        InvalidSettingError: one is no address.
    """
    for address in addresses:
        split_address(address)


def lost_copies(register: Register, segment: Segment, servers: Iterable[NodeId]) -> frozenset[NodeId]:
    """Those of a segment's servers that hold nothing of it, because their data directory took its place later.

    Copied again, the segment has a new id, and nothing is lost any more.
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
