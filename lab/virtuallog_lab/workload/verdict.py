"""Verdict on a log: compares the acknowledgements of writers with the contents of the log.

Seen one by one in the order of the log, so that a log of any length can be judged while it is read. What must hold:

* each acknowledged entry is where its writer was told, and nowhere else;
* each writer's entries, and each session's, are there once, in order, without a hole;
* an entry that was acknowledged before another was offered comes before it, also across writers;
* every entry there was written, and every missing one was trimmed.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from virtuallog.client.reader import records
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import Data, Gap, GapKind, LogPosition, Record
from virtuallog_lab.workload.entries import Entry
from virtuallog_lab.workload.writers import WriterAcknowledgements

NOWHERE: Final = -1
PROBLEMS_MAX: Final = 20
"""Most problems listed; more say nothing new."""


@attrs.frozen
class Verdict:
    """Findings about a log."""

    entries: int
    """Entries in the log."""
    problems: tuple[str, ...]
    """Empty if all is well."""


@attrs.define
class _Found:
    """Entries of one writer found so far."""

    places: array[int] = attrs.field(factory=lambda: array("q"))
    """Positions by number; `NOWHERE` where a number was passed over."""

    def find(self, number: int) -> int:
        return self.places[number] if number < len(self.places) else NOWHERE

    def put(self, number: int, place: int) -> None:
        while len(self.places) <= number:
            self.places.append(NOWHERE)
        self.places[number] = place


@attrs.define(eq=False)
class Judge:
    """Let it `see` everything in the log, in order, then `conclude`. What is going to be trimmed may be seen while writers still
    write."""

    _told: Mapping[int, WriterAcknowledgements]
    _problems: list[str] = attrs.field(factory=list, init=False)
    _entries: int = attrs.field(default=0, init=False)
    _found: dict[int, _Found] = attrs.field(factory=lambda: defaultdict(_Found), init=False)
    _next_sequence: dict[SessionId, int] = attrs.field(factory=dict, init=False)
    _latest_offer: float = attrs.field(default=0.0, init=False)
    """Offer time of the last offered of all acknowledged entries seen so far."""

    def see(self, record: Record) -> None:
        """The next record of the log."""
        if isinstance(record, Gap):
            if record.kind is not GapKind.FILLER:
                self._complain(f"[{record.start}, {record.stop}) is gone: {record.kind.value}")
            return
        self._entries += 1
        self._check_session(record)
        entry = Entry.parse(record.payload)
        if entry is None or not self._may_be(entry):
            self._complain(f"position {record.position} holds what no writer wrote: {record.payload[:40]!r}")
        else:
            self._check_order(entry, record.position)
            self._check_time(entry, record.position)

    def conclude(self) -> Verdict:
        """Once everything up to the tail has been seen."""
        for writer, told in self._told.items():
            found = self._found[writer]
            if found.places[: len(told.places)] == told.places:
                continue  # a million at a glance
            for number, place in enumerate(told.places):
                if found.find(number) != place:
                    where = "no position" if found.find(number) == NOWHERE else found.find(number)
                    self._complain(f"{Entry(writer, number)} was acknowledged at {place} but is at {where}")
        return Verdict(self._entries, tuple(self._problems))

    def _may_be(self, entry: Entry) -> bool:
        """True if this number may be in the log. A writer with answers about numbers 0 to 6 has
        offered 7 at most. An earlier entry that has ended without an answer may be found as
        well."""
        told = self._told.get(entry.writer)
        return told is not None and entry.number <= len(told.places)

    def _check_order(self, entry: Entry, position: LogPosition) -> None:
        found = self._found[entry.writer]
        if (former := found.find(entry.number)) != NOWHERE:
            self._complain(f"{entry} is at {former} and at {position}")
        elif entry.number != len(found.places):
            self._complain(f"{entry} is at {position}, where number {len(found.places)} belongs")
        found.put(entry.number, position)

    def _check_time(self, entry: Entry, position: LogPosition) -> None:
        """Check that no entry before it was offered after it was acknowledged."""
        told = self._told[entry.writer]
        if entry.number == len(told.places):
            return
        if told.ended[entry.number] < self._latest_offer:
            self._complain(f"{entry} is at {position}, behind one that was offered when it had been acknowledged")
        self._latest_offer = max(self._latest_offer, told.began[entry.number])

    def _check_session(self, record: Data) -> None:
        expected = self._next_sequence.get(record.session, record.sequence)
        self._next_sequence[record.session] = record.sequence + 1
        if record.sequence != expected:
            place = f"position {record.position}"
            self._complain(f"{place}: sequence {record.sequence} of a session, where {expected} belongs")

    def _complain(self, problem: str) -> None:
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(problem)


def judge(told: Mapping[int, WriterAcknowledgements], seen: Iterable[Record]) -> Verdict:
    """The verdict on a whole log."""
    court = Judge(told)
    for record in seen:
        court.see(record)
    return court.conclude()


async def judge_log(told: Mapping[int, WriterAcknowledgements], log: VirtualLog) -> Verdict:
    """Read a log from its beginning to its tail, and judge it.

    Raises:
        UnavailableError: its tail cannot be read.
    """
    court, tail = Judge(told), (await log.check_tail()).tail
    await show(court, log, LogPosition(0), LogPosition(tail))
    return court.conclude()


async def show(court: Judge, log: VirtualLog, start: LogPosition, stop: LogPosition) -> None:
    """Let the judge see what is in [start, stop), below the tail.

    Raises:
        UnavailableError: it cannot be read.
    """
    async for placed in log.reader(start, stop).batches():
        for record in records(placed):
            court.see(record)
