"""Promises about trims of the log: they trim what was asked for, no more, and report the result.

A copy that takes the place of a segment may know less of trims than the original did
(`VirtualLog.reconfig_modify`): `Copies` decides what that excuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from virtuallog.contract.chain import Segment
from virtuallog.contract.types import LogPosition
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog.testing.checker.actions import LogFindTrimPoint, LogletTrim, LogTrim, ModifyChange, Reconfigure
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.linearizability import FarthestTrim
from virtuallog.testing.checker.violation import Check, Violation, once, proof
from virtuallog.testing.checker.witness_order import Step, in_order, out_of_time
from virtuallog_simulation.checks.history.facts import Decided, chains
from virtuallog_simulation.checks.history.order import floor


def trims_are_modest(history: History) -> Iterator[Violation]:
    """A trim point is never past the highest one requested; nor past the tail
    (`order.possible_in_time`)."""
    asked = FarthestTrim((trim, trim.action.position) for trim in history.operations(LogTrim))
    for told in _told(history):
        if told.result > asked.until(told):
            message = f"trimmed to {told.result}, asked for {asked.until(told)}"
            yield Violation("trims are modest", message, proof(told))


def trims_are_effective(history: History) -> Iterator[Violation]:
    """The tail is established before a trim decides that it has nothing to do: all that was asked for is trimmed, as
    far as the log was known to reach. Striped loglets trim whole batches only."""
    for trim in history.operations(LogTrim):
        if trim.returned:
            known, witness = floor(history).before(trim)
            if trim.result < _whole_batches(history, min(trim.action.position, known)):
                message = f"trimmed to {trim.result}, asked for {trim.action.position}, and tail {known} was known"
                yield Violation("trims are effective", message, proof(witness, trim))


def _whole_batches(history: History, position: int) -> int:
    """Least result of a trim up to this position: in a striped loglet, the batch that it is in. An
    open segment has every position behind it, so an earlier chain may name another loglet, with
    other slots: then the lower one counts."""
    least = position
    for version in chains(history).values() if position else ():
        segment = version.chain.segment_at(LogPosition(position - 1))
        if segment is not None and segment.kind == "striped":
            least = min(least, max(segment.start, position - (position - segment.shift) % SLOT))
    return least


def trim_points_move_forward(history: History) -> Iterator[Violation]:
    """A trim, or a query for the trim point, returns at least the highest point that any client had
    received before it began."""
    steps = [Step(one.result, 0, one.invoked, one.done, str(one.result), one) for one in _told(history)]
    for later, earlier in out_of_time(in_order(steps)):
        if not copies(history).excuse(later.place, later.operation, earlier.operation):
            message = f"the trim point went back from {earlier.what} to {later.what}"
            yield Violation("trim points move forward", message, proof(earlier.operation, later.operation))


TRIM_CHECKS: Final[tuple[Check, ...]] = (trims_are_modest, trims_are_effective, trim_points_move_forward)


def highest_told_before(history: History, operation: Operation) -> Operation | None:
    """Client that received the highest trim point before this operation began."""
    return max((one for one in _told(history) if one.before(operation)), key=lambda one: one.result, default=None)


def _told(history: History) -> Sequence[Operation]:
    """Clients that received a trim point, in the order in which they asked."""
    return [one for one in history.operations(LogTrim, LogFindTrimPoint) if one.returned]


@attrs.frozen
class _Copy:
    """A decided version put a copy in the place of a segment."""

    segment: Segment
    made: Decided
    until: float
    """Event from which on a trim trims the copy; earlier trimmers are heard of again."""

    def excuses(self, place: int, later: Operation, earlier: Operation) -> bool:
        """True if the original knew of the earlier trim and the copy was asked later."""
        assert self.segment.stop is not None
        within = self.segment.start <= place < self.segment.stop
        return (
            within
            and self.made.started < later.done
            and later.invoked < self.until
            and earlier.invoked < self.made.known
        )


class Copies:
    """Every segment replaced by a copy, as far as any client knows."""

    def __init__(self, history: History) -> None:
        self._copies = list(_copies(history))

    def excuse(self, place: int, later: Operation | None, earlier: Operation | None) -> bool:
        """True if `later` may return only this trim point, though `earlier` had returned more."""
        assert later is not None and earlier is not None
        return any(copy.excuses(place, later, earlier) for copy in self._copies)


copies: Final = once(Copies)


def _copies(history: History) -> Iterator[_Copy]:
    for change in history.operations(Reconfigure):
        if isinstance(change.action.change, ModifyChange):
            for segment, made in _replaced(history, change.action.change):
                yield _Copy(segment, made, _carried(history, change))


def _replaced(history: History, asked: ModifyChange) -> Iterator[tuple[Segment, Decided]]:
    """The segment, and the first known version in which another one is in its place; empty if none
    is known."""
    segment: Segment | None = None
    for version in chains(history).values():
        found = version.chain.find(asked.segment)
        if found is not None:
            segment = found
        elif segment is not None and segment.stop is not None and version.chain.segment_at(segment.start) is not None:
            yield segment, version
            return


def _carried(history: History, change: Operation) -> float:
    """Event from which on the copy knows all trims of the original: the end of the change, if the
    original has reported them.

    Otherwise it is the next trim: a change whose client dies, or whose original is gone, leaves
    that open.
    """
    asked = [
        trim
        for trim in history.operations(LogletTrim)
        if trim.action.segment == change.action.change.segment and change.invoked < trim.invoked < change.done
    ]
    return change.done if all(trim.returned for trim in asked) else float("inf")
