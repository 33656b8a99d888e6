"""Ledger of the disks of paxos replicas, compared at every write: one value per position, for good.

No client sees most of it: a second value may be decided at a position that is never read again, or
a promise may be taken back unnoticed. `Ledger` keeps what each store holds, by its durable writes,
and drops it when the store is lost. A value that a quorum of stores holds with one number is
*decided*, known or not (docs/internals/protocols/paxos.md).

Actual comparisons are counted, as a look that sees nothing finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import LogletAppend
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation, proof
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import NOWHERE, PaxosRecord, Status

ACCEPTED: Final = "looked: positions accepted by several replicas"
DECIDED: Final = "looked: positions that a quorum has accepted"
LEARNED: Final = "looked: decided positions that a replica has learned"
SEALS: Final = "looked: decided seals of paxos loglets"
ACKNOWLEDGED: Final = "looked: acknowledged batches on the disks of replicas"
RECOVERED: Final = "looked: replicas that vote again after their store was lost"
TOMBSTONES: Final = "looked: positions that a replica has missed until they were trimmed"
"""Counter of replicas that were away while positions were decided and truncated, and learn by a
tombstone that these are gone."""
LOOKED: Final = (ACCEPTED, DECIDED, LEARNED, SEALS, ACKNOWLEDGED)
OFFSET_BITS: Final = 16
"""A position of a loglet is so many bits of offsets."""


@attrs.frozen
class _Decision:
    """Decision at a position, and how it was first seen."""

    value: bytes
    proposal: int
    by: str


@attrs.define(eq=False)
class _Slot:
    """One position of one loglet."""

    records: dict[NodeId, PaxosRecord] = attrs.field(factory=dict)
    """Record that each store holds now."""
    numbers: dict[int, tuple[bytes, NodeId]] = attrs.field(factory=dict)
    """The value that was accepted with each number, and by whom first."""
    stored: dict[bytes, dict[NodeId, int]] = attrs.field(factory=dict)
    """Event before which each node has first stored each value. Kept when the store is lost."""
    held: set[NodeId] = attrs.field(factory=set)
    """Nodes whose present store has had a value here. Kept when the position is truncated."""
    decision: _Decision | None = None


@attrs.define(eq=False)
class _Store:
    """State that one store holds of one loglet beside its positions."""

    status: Status = Status.EMPTY
    promised: int = 0
    begin: int = 0


@attrs.define(eq=False)
class Ledger:
    """Record of everything that becomes durable; `found` lists the violations."""

    looked: Counter[str] = attrs.field(factory=Counter)
    found: list[Violation] = attrs.field(factory=list)
    members: dict[SegmentId, tuple[NodeId, ...]] = attrs.field(factory=dict)
    """Replicas of each loglet, as far as any of them has reported."""
    quorums: dict[SegmentId, int] = attrs.field(factory=dict)
    """Quorums of the same loglets; loglets without one are not judged."""
    seals: dict[SegmentId, int] = attrs.field(factory=dict)
    """The lowest position at which SEAL is decided."""
    _slots: dict[SegmentId, dict[int, _Slot]] = attrs.field(factory=dict)
    _stores: dict[tuple[SegmentId, NodeId], _Store] = attrs.field(factory=dict)
    _lost: set[tuple[SegmentId, NodeId]] = attrs.field(factory=set)

    # -- what becomes durable -------------------------------------------------------------------------------------

    def lost(self, node: NodeId) -> None:
        """The store of this node is gone: it has promised and accepted nothing any more."""
        for segment in self.members:
            if node in self.members[segment]:
                self._lost.add((segment, node))
            self._stores.pop((segment, node), None)
        for slots in self._slots.values():
            for slot in slots.values():
                slot.records.pop(node, None)
                slot.held.discard(node)

    def kept(
        self, segment: SegmentId, node: NodeId, status: Status, promised: int, begin: int, *, whole: bool = False
    ) -> None:
        """A store holds this of a loglet from now on. `whole`: the loglet is closed, and everything of it is there."""
        store = self._stores.setdefault((segment, node), _Store())
        gone_back = promised < store.promised or begin < store.begin
        if gone_back or (store.status == Status.VOTING != status):
            told = f"{store.status.name}, promised {store.promised}, begin {store.begin}"
            message = f"node {node} of loglet {segment}: {told}, then {status.name}, {promised}, {begin}"
            self.found.append(Violation("replicas forget nothing", message))
        if (status == Status.VOTING or whole) and (segment, node) in self._lost:
            self._lost.discard((segment, node))
            self.looked[RECOVERED] += 1
        if begin > store.begin:
            self.looked[TOMBSTONES] += self._missed(segment, node, store.begin, begin)
        store.status, store.promised, store.begin = status, promised, begin

    def wrote(self, segment: SegmentId, node: NodeId, record: PaxosRecord, now: int) -> None:
        """A store holds this record from now on, which is before the event `now` of the history."""
        self._stores.setdefault((segment, node), _Store())
        slot = self._slots.setdefault(segment, {}).setdefault(record.position, _Slot())
        self._compare(segment, node, slot.records.get(node), record)
        slot.records[node] = record
        if record.performed == NOWHERE or values.is_tombstone(record.value):
            return
        slot.stored.setdefault(record.value, {}).setdefault(node, now)
        slot.held.add(node)
        if record.learned:
            self._learned(segment, node, slot, record)
        else:
            self._accepted(segment, node, slot, record)

    def learned(self, segment: SegmentId, node: NodeId, first: int, stop: int, now: int) -> None:
        """A store takes what it holds at these positions for decided."""
        for position in range(first, stop):
            slot = self._slots.get(segment, {}).get(position)
            record = None if slot is None else slot.records.get(node)
            if record is not None and not record.learned:
                self.wrote(segment, node, attrs.evolve(record, learned=True), now)

    def dropped(self, segment: SegmentId, node: NodeId, position: int) -> None:
        """A store has truncated this position."""
        slot = self._slots.get(segment, {}).get(position)
        if slot is not None:
            slot.records.pop(node, None)

    def forgot(self, segment: SegmentId, node: NodeId) -> None:
        """A store has dropped a loglet, on purpose."""
        self._stores.pop((segment, node), None)
        self._lost.discard((segment, node))
        for slot in self._slots.get(segment, {}).values():
            slot.records.pop(node, None)

    @property
    def recovering(self) -> bool:
        """True if a replica that lost its store is not back yet."""
        return bool(self._lost)

    def _missed(self, segment: SegmentId, node: NodeId, first: int, begin: int) -> int:
        """Positions below `begin` that this store never had, unless it has the TRUNCATE itself."""
        slots = self._slots.get(segment, {})
        for slot in slots.values():
            record = slot.records.get(node)
            if record is not None and record.performed != NOWHERE and _truncates_to(record.value) >= begin:
                return 0
        return sum(position in slots and node not in slots[position].held for position in range(first, begin))

    # -- what must be true of it ----------------------------------------------------------------------------------

    def _compare(self, segment: SegmentId, node: NodeId, before: PaxosRecord | None, after: PaxosRecord) -> None:
        if before is None or after.learned:
            return  # a learned record is stored as its sender has it
        if before.learned or after.promised < before.promised or after.performed < before.performed:
            message = (
                f"node {node} of loglet {segment}, position {after.position}: {_told(before)}, then {_told(after)}"
            )
            self.found.append(Violation("replicas forget nothing", message))

    def _accepted(self, segment: SegmentId, node: NodeId, slot: _Slot, record: PaxosRecord) -> None:
        value, first = slot.numbers.setdefault(record.performed, (record.value, node))
        self.looked[ACCEPTED] += first != node
        where = f"loglet {segment}, position {record.position}"
        if value != record.value:
            message = f"{where}: nodes {first} and {node} accepted different values with {record.performed}"
            self.found.append(Violation("one value per number", message))
        decision = slot.decision
        if decision is not None and record.performed > decision.proposal and decision.value != record.value:
            message = f"{where}: {decision.by}, and node {node} accepts another value with {record.performed}"
            self.found.append(Violation("decided is kept", message))
        holders = [
            holder for holder, held in slot.records.items()
            if held.performed == record.performed and held.value == record.value
        ]  # fmt: skip
        if len(holders) >= self.quorums.get(segment, len(holders) + 1):
            by = f"nodes {sorted(holders)} have decided with {record.performed}"
            self._decide(segment, slot, record, by)

    def _learned(self, segment: SegmentId, node: NodeId, slot: _Slot, record: PaxosRecord) -> None:
        self.looked[LEARNED] += slot.decision is not None
        self._decide(segment, slot, record, f"node {node} has learned what was decided with {record.performed}")

    def _decide(self, segment: SegmentId, slot: _Slot, record: PaxosRecord, by: str) -> None:
        decision = slot.decision
        if decision is None:
            slot.decision = _Decision(record.value, record.performed, by)
            self.looked[DECIDED] += 1
            if values.kind_of(record.value) == ValueKind.SEAL:
                self.looked[SEALS] += 1
                self.seals[segment] = min(record.position, self.seals.get(segment, record.position))
        elif decision.value != record.value:
            message = f"loglet {segment}, position {record.position}: {decision.by}, and {by}: another value"
            self.found.append(Violation("one decision per position", message))

    # -- what clients have heard ----------------------------------------------------------------------------------

    def judge(self, history: History) -> Iterator[Violation]:
        """Compare what was acknowledged with what was stored, at the end of a run."""
        for append in history.operations(LogletAppend):
            segment = append.action.segment
            if append.returned and segment in self.quorums:
                position = (append.result.start >> OFFSET_BITS) + 1
                seal = self.seals.get(segment)
                if seal is not None and position >= seal:
                    message = f"loglet {segment}: an append was acknowledged at position {position}, SEAL is at {seal}"
                    yield Violation("nothing is acknowledged behind a SEAL", message, proof(append))
                holders = self._holders(segment, position, append.action.batch.blob, append.done)
                self.looked[ACKNOWLEDGED] += 1
                if len(holders) < self.quorums[segment]:
                    message = f"loglet {segment}: acknowledged at position {position}, stored by nodes {holders}"
                    yield Violation("acknowledged is on a quorum", message, proof(append))

    def _holders(self, segment: SegmentId, position: int, batch: bytes, before: float) -> list[NodeId]:
        """Stores that had this batch at this position, as its decision, before this event."""
        slot = self._slots.get(segment, {}).get(position)
        if slot is None or slot.decision is None or values.kind_of(slot.decision.value) != ValueKind.APPEND:
            return []
        if batch not in values.payload_of(slot.decision.value):  # it may share the position with others
            return []
        return sorted(node for node, at in slot.stored[slot.decision.value].items() if at <= before)


def _truncates_to(value: bytes) -> int:
    return values.truncation_of(value).to if values.kind_of(value) == ValueKind.TRUNCATE else 0


def _told(record: PaxosRecord) -> str:
    learned = ", learned" if record.learned else ""
    return f"promised {record.promised}, accepted with {record.performed}{learned}"
