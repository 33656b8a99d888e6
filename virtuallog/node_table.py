"""Changes of the table of nodes in the register: who is where, on which data directory, and what it is used for.   Pure.

    (absent) --Expect--> expected --Claim--> a member of the cluster --Withdraw--> drained --Remove--> (absent)
                            ^                     |       ^                          |
                            '-------Forget--------'       '---------Expect-----------'

Each is an amendment: what it makes of the newest register, or None if that shows it already. So it can be made again
after an unknown outcome, by anybody, and on top of whatever others have changed meanwhile (`virtuallog.amending`).

A place in the table is taken by a data directory, not by a machine. `Forget` empties the place before another directory
may `Claim` it, and the conditional put elects one of those that try. What the place stands for is bound to the directory:
its vote for the register (`metastore.acceptor`), its copies of loglets (`NodeEntry.joined`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import attrs

from virtuallog.address import split_address
from virtuallog.chain import Segment
from virtuallog.errors import InvalidSettingError
from virtuallog.register import NodeEntry, Register
from virtuallog.replicated import Placement
from virtuallog.types import NodeId

NODES_MAX: Final = 64
"""Nodes in the table: some 100 bytes each in a register of 64 KiB, and everybody asks all of them how they are."""


def _nowhere(_: Segment) -> None:
    return None


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
    """A new node may join, or a drained one is of use again. It must be there, or come, at these addresses."""

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
        return None if known.roles == self.roles else _with(register, self.node, attrs.evolve(known, roles=self.roles))


@attrs.frozen(kw_only=True)
class Forget:
    """The data directory `store_id` is given up: it is nobody's any more, and a new one may take its place.

    Nothing happens if another one has the place by now: somebody has been here before.
    """

    node: NodeId
    store_id: bytes
    addresses: tuple[str, ...] = ()
    """Where the new one will be; none: where it was."""

    def amend(self, register: Register) -> Register | None:
        known = _entry(register, self.node)
        addresses = self.addresses or known.addresses
        if known.store_id not in {self.store_id, b""}:
            return None
        if known.is_expected and known.addresses == addresses:
            return None
        _check(self.addresses)
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
class Withdraw:
    """Nobody chooses the node for anything new.

    Refused if the log's next loglet would have fewer servers than the last one has: several may ask at the same time.
    """

    node: NodeId
    placement: Callable[[Segment], Placement | None] = _nowhere
    """Where the loglet of a segment is; None: not on nodes."""

    def amend(self, register: Register) -> Register | None:
        known = _entry(register, self.node)
        if not known.roles:
            return None
        changed = _with(register, self.node, attrs.evolve(known, roles=frozenset()))
        last = self.placement(register.chain.last)
        left = 0 if last is None else sum(last.role in entry.roles for entry in changed.nodes.values())
        if last is not None and last.role in known.roles and left < len(last.servers):
            wanted = f"{len(last.servers)} nodes with role {last.role} are wanted"
            raise InvalidSettingError(f"node {self.node}", f"{wanted}, and {left} would be left")
        return changed


@attrs.frozen(kw_only=True)
class Remove:
    """The node is no part of the cluster any more. Nothing happens if it was none."""

    node: NodeId
    is_used: Callable[[Segment], bool]
    """Whether the loglet of a segment needs it."""

    def amend(self, register: Register) -> Register | None:
        if self.node not in register.nodes:
            return None
        if reason := self._needed(register):
            raise InvalidSettingError(f"node {self.node}", reason)
        return register.with_nodes({node: entry for node, entry in register.nodes.items() if node != self.node})

    def _needed(self, register: Register) -> str:
        if self.node in register.members:
            return "is a member of the MetaStore: drain it first"
        used = [str(segment.id) for segment in register.chain.segments if self.is_used(segment)]
        return f"is needed by segments {', '.join(used)}: drain it first" if used else ""


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


def _with(register: Register, node: NodeId, entry: NodeEntry) -> Register:
    return register.with_nodes({**register.nodes, node: entry})
