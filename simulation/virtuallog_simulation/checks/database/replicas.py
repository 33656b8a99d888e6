"""Promises among replicas of a database: equal states at equal cursors, and a log that keeps all
that any of them needs.

The first half watches stores while a run goes on, the second half judges the history.

    I8   the store is a function of the log up to its cursor; the two move together
    I9   the log is trimmed no further than every replica of the view has a durable snapshot, and every hold allows

(`specs/delos.md`, section 10.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.checker.actions import LogletTrim
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.keys import CURSOR, read_cursor, section_span
from virtuallog_database.identity import node_of
from virtuallog_database.ports import StoreReader
from virtuallog_database.snapshots.policy import position_of
from virtuallog_database.testing.memory_store import SortedPairs
from virtuallog_simulation.checks.history.facts import chains
from virtuallog_simulation.world.store_disk import StoreDisk

STATES: Final = "zelos states compared"
REPLAYED: Final = "zelos states replayed"
ANNOUNCED: Final = "zelos announcements compared"
ALLOWED: Final = "zelos trims allowed"
LATE_SECONDS: Final = 5.0
"""Longest time that an append of a dead process may be on its way."""
_VIEW: Final = section_span(view.NAME)
_NO_REPLICA: Final = NodeId(0)


@attrs.frozen
class Allowed:
    """A replica's state says that the log may be trimmed up to here; never said before."""

    position: LogPosition


@attrs.define(eq=False)
class StateWatch:
    """Sees every write of every store of a run."""

    history: History
    violations: list[Violation]
    counts: dict[str, int]
    _digests: dict[int, tuple[int, NodeId]] = attrs.field(factory=dict, init=False)
    """Digest of the whole store at a cursor, and the replica that had it first."""
    _first: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """Position where the log begins."""
    _allowed: LogPosition = attrs.field(default=LogPosition(0), init=False)
    _bereft: dict[NodeId, tuple[int, int]] = attrs.field(factory=dict, init=False)
    """Machines whose store was lost: how far any replica had got in the log by then, and the number
    of the next event. Their earlier statements are played again, and no longer hold."""

    _copies: dict[int, dict[bytes, bytes]] = attrs.field(factory=dict, init=False)
    """Stores at some cursors: whenever more of the log was allowed to be trimmed. All that follows is in the log until the next one."""

    def began(self, position: LogPosition, disk: StoreDisk) -> None:
        """The log begins there, and replicas with this store."""
        self._first = position
        self._digests[position] = disk.full_digest(), _NO_REPLICA
        self._copies[position] = dict(disk.content.pairs)

    def opened(self, node: NodeId, disk: StoreDisk) -> None:
        """Called for the store of a new life, or of a life that has installed a snapshot."""
        if disk.content.get(CURSOR) is None and max(self._digests, default=self._first) > self._first:
            self._bereft[node] = max(self._digests), len(self.history.events)
        self._compare(node, disk)

    def wrote(self, node: NodeId, disk: StoreDisk, changes: Mapping[bytes, bytes | None]) -> None:
        """One transaction."""
        if CURSOR not in changes:
            message = f"node {node} wrote {sorted(changes)[:3]} without its cursor"
            self.violations.append(Violation("effects and cursor move together", message))
        self._compare(node, disk)
        if any(_VIEW[0] <= key < _VIEW[1] for key in changes):
            self._look_at_view(node, disk)

    def oldest_copy(self, trim_point: LogPosition) -> SortedPairs:
        """A store from which the log can be played on: the oldest that was seen with nothing missing behind it."""
        usable = [cursor for cursor in self._copies if cursor >= trim_point]
        return SortedPairs(dict(self._copies[min(usable)])) if trim_point else SortedPairs()

    def replayed(self, cursor: LogPosition, digest: int) -> None:
        """Called when a replay without a replica has come to this state."""
        known = self._digests.get(cursor)
        if known is None:
            return
        self.counts[REPLAYED] += 1
        if known[0] != digest:
            message = f"a replay has another state at cursor {cursor} than node {known[1]}"
            self.violations.append(Violation("a replay is as the replicas", message))

    def _compare(self, node: NodeId, disk: StoreDisk) -> None:
        value = disk.content.get(CURSOR)
        if value is None:
            return
        cursor = int.from_bytes(value, "big")
        digest, first = self._digests.setdefault(cursor, (disk.digest, node))
        if digest != disk.digest:
            message = f"nodes {first} and {node} have different states at cursor {cursor}"
            self.violations.append(Violation("equal cursors have equal states", message))
        elif first != node:
            self.counts[STATES] += 1

    def _look_at_view(self, node: NodeId, disk: StoreDisk) -> None:
        members, floor = view.members(disk.content), view.floor(disk.content)
        for name, member in members.items():
            if node_of(name) == node and not self._is_of_a_lost_store(node, member.heard):
                self._compare_own(node, disk, member.durable)
        if floor > self._allowed:
            self._allowed = floor
            self.counts[ALLOWED] += 1
            self._copies[read_cursor(disk.content)] = dict(disk.content.pairs)
            self.history.observed(f"node {node}", Allowed(floor), None)
        self._compare_needs(disk.former, disk.content)

    def _compare_needs(self, former: StoreReader, now: StoreReader) -> None:
        """Check that no member of the view needs anything below a floor that a transaction has
        raised. A member ejected in this very transaction that has come back may: it was heard of
        behind the former cursor. So an announcement is judged where it comes first in its
        transaction, and most are alone in theirs on some replica."""
        floor, first = view.floor(now), read_cursor(former)
        if floor <= view.floor(former):
            return
        needed = {name: hold.position for name, hold in view.holds(now).items()}
        needed |= {name: member.durable for name, member in view.members(now).items() if member.heard <= first}
        for name, position in needed.items():
            if position < floor:
                message = f"{floor} was allowed, and {name} needs everything from {position} on"
                self.violations.append(Violation("trims leave what is needed", message))

    def _is_of_a_lost_store(self, node: NodeId, position: LogPosition) -> bool:
        """True if this was said before, or was on its way into the log when the store was lost."""
        reached, event = self._bereft.get(node, (-1, 0))
        if position < reached:
            return True
        lost_at = self.history.events[event].time if 0 < event < len(self.history.events) else -LATE_SECONDS
        return self.history.events[-1].time < lost_at + LATE_SECONDS

    def _compare_own(self, node: NodeId, disk: StoreDisk, durable: LogPosition) -> None:
        """Compare a replica's announcement of its snapshots with its disk: it has one that is as
        new, or a store that is, as right after another replica's snapshot was installed."""
        found = [position for name in disk.checkpoints if (position := position_of(name)) is not None]
        newest = max([disk.durable_cursor, *found])
        self.counts[ANNOUNCED] += 1
        if durable > newest:
            message = f"node {node} has told of a durable snapshot at {durable}; what is durable ends at {newest}"
            self.violations.append(Violation("snapshots are durable before they are told", message))


def trims_stay_below_what_is_allowed(history: History) -> Iterator[Violation]:
    """Trims of the log's loglets were allowed before."""
    allowed = sorted(history.operations(Allowed), key=lambda told: told.invoked)
    for trim in history.operations(LogletTrim):
        position = trimmed_to(history, trim)
        highest = max((told.action.position for told in allowed if told.invoked < trim.invoked), default=LogPosition(0))
        if position is not None and position > highest:
            message = f"the log was trimmed up to {position}, and {highest} was allowed"
            yield Violation("trims leave what is needed", message, proof(trim))


def trimmed_to(history: History, trim: Told) -> int | None:
    """Log position where this trim of a loglet ends. None if it takes nothing of its segment, as a
    query for the trim point does, or if the segment is unknown."""
    for version in chains(history).values():
        segment = version.chain.find(trim.action.segment)
        if segment is not None:
            position: int = trim.action.offset + segment.shift
            if position <= segment.start:
                return None
            return min(position, segment.stop) if segment.stop is not None else position
    return None


REPLICA_CHECKS: Final[tuple[Check, ...]] = (trims_stay_below_what_is_allowed,)
