"""Was it a log? Judges the history of many clients that used one log at once.                             Pure.

In general that takes a search, but a log hands out a witness: places. Put every entry at its place, every tail that
was seen just before the entry at that place, the seal behind all that it must not disturb, and the sealed tails behind
the seal. Then two questions remain.

* Does the model (`virtuallog.testing.model`), taken through the steps in that order, agree?
* Is the order possible in time? No step may come before one that had ended when it began.

A sealed tail may grow, as entries land that nobody acknowledged (Delos, OSDI'20, section 3.4); an entry without an
acknowledgement may stand behind the seal, so that is no special case here. Batches are looked at entry by entry: a
striped log interleaves them. What was read is compared place by place.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import attrs

from virtuallog.batch import Batch, SessionId
from virtuallog.testing.expect import covered, expect
from virtuallog.testing.history import Append, CheckTail, History, Read, Seal, Trim
from virtuallog.testing.model import LogModel
from virtuallog.types import Data, Gap, GapKind, Open, PlacedBatch

Name: TypeAlias = tuple[SessionId, int]
"""What names an entry: session and sequence number."""

_OPEN, _SEAL, _SEALED, _ENTRY = range(4)
"""Order of the steps at one place."""


@attrs.define
class Entry:
    """An entry that somebody offered, once or several times."""

    name: Name
    payload: bytes
    started: int
    ended: float = math.inf
    """First acknowledgement."""
    refused: bool = True
    """Every offer was refused with nothing done."""
    place: int | None = None

    def __str__(self) -> str:
        return f"entry {self.name[1]} of session {self.name[0].hex()[:8]}"


@attrs.frozen
class Step:
    """A moment in the witness order."""

    place: int
    line: int
    started: int
    ended: float
    what: str
    entry: Entry | None = None

    @property
    def bound(self) -> int:
        """The least tail of a log in which this step was taken."""
        return self.place + (self.line == _ENTRY)

    @property
    def unsealed(self) -> bool:
        """Whether no seal can have come before: an acknowledged entry or an open tail."""
        return self.line == _OPEN or (self.line == _ENTRY and self.ended < math.inf)


def check_log(history: History) -> None:
    """Raise an AssertionError that names the first contradiction, if the history is not that of a log."""
    entries = _offered(history.of(Append))
    placed = _placed(entries, history)
    _check_gaps(placed, history)
    _check_trims(history.of(Trim))
    steps = sorted(_steps(placed, history), key=lambda step: (step.place, step.line, step.started))
    _check_model(steps)
    _check_time(steps)


def _offered(appends: Iterable[Append]) -> dict[Name, Entry]:
    entries: dict[Name, Entry] = {}
    for append in appends:
        batch = append.batch
        for sequence, payload in enumerate(batch.payloads, start=batch.first_sequence):
            name = (batch.session, sequence)
            entry = entries.setdefault(name, Entry(name, payload, append.started))
            expect(entry.payload == payload, f"the workload offered two payloads as {entry}")
            entry.ended = min(entry.ended, append.ended)
            entry.refused &= append.refused
    return entries


def _placed(entries: dict[Name, Entry], history: History) -> dict[int, Entry]:
    """Where the entries lie, as acknowledgements and reads say with one voice."""
    placed: dict[int, Entry] = {}

    def place(entry: Entry, at: int, source: str) -> None:
        holder = placed.setdefault(at, entry)
        expect(holder is entry, f"{source} puts {entry} at place {at}, where {holder} is")
        expect(entry.place in {None, at}, f"{source} puts {entry} at place {at}; it is at {entry.place} as well")
        entry.place = at

    for append in history.of(Append):
        if append.places is not None:
            expect(len(append.places) == append.batch.count, f"{append.batch} was given places {append.places}")
            for index, at in enumerate(append.places):
                place(entries[append.batch.session, append.batch.first_sequence + index], at, "an acknowledgement")
    for read, record in _records(history):
        found = entries.get((record.session, record.sequence))
        if found is None or found.started > read.ended or found.payload != record.payload:
            raise AssertionError(f"a read found {record} that nobody had offered")
        expect(not found.refused, f"a read found {found}, which had been refused with nothing done")
        place(found, record.position, "a read")
    return placed


def _records(history: History) -> Iterator[tuple[Read, Data]]:
    for read in history.of(Read):
        for item in read.items:
            if isinstance(item, PlacedBatch):
                yield from ((read, record) for record in item.records())


def _check_gaps(placed: dict[int, Entry], history: History) -> None:
    """Reads have no holes, filler hides no entry, and only what somebody wanted trimmed is trimmed."""
    places = sorted(placed)
    for read in history.of(Read):
        if read.ended < math.inf:
            covered(read.items, read.start, read.stop)
        for gap in read.items:
            if isinstance(gap, Gap) and gap.kind is GapKind.TRIMMED:
                asked = max((trim.requested for trim in history.of(Trim) if trim.started < read.ended), default=0)
                expect(gap.stop <= asked, f"{gap} was read when nobody had asked to trim beyond {asked}")
            elif isinstance(gap, Gap):
                index = bisect.bisect_left(places, gap.start)
                if index < len(places) and places[index] < gap.stop:
                    raise AssertionError(f"{gap} was read where {placed[places[index]]} is, at {places[index]}")


def _check_trims(trims: Sequence[Trim]) -> None:
    """The trim point never goes back."""
    for earlier, later in itertools.permutations(trims, 2):
        if earlier.ended < later.started and later.ended < math.inf:
            what = f"the trim point went back from {earlier.trim_point} to {later.trim_point}"
            expect(earlier.trim_point <= later.trim_point, what)


def _steps(placed: dict[int, Entry], history: History) -> list[Step]:
    """The witness order, unsorted."""
    steps = [Step(at, _ENTRY, entry.started, entry.ended, f"{entry} at {at}", entry) for at, entry in placed.items()]
    for check in history.of(CheckTail):
        if check.tail is not None and not (check.lagging and isinstance(check.tail, Open)):
            line = _OPEN if isinstance(check.tail, Open) else _SEALED
            steps.append(Step(check.tail.tail, line, check.started, check.ended, str(check.tail)))
    if seals := history.of(Seal):
        steps.append(_seal_step(seals, [step for step in steps if step.unsealed]))
    return steps


def _seal_step(seals: Sequence[Seal], unsealed: Sequence[Step]) -> Step:
    """Many seals are one: it happened after the first began and before the first returned, behind all that was
    acknowledged and all tails that were open."""
    last = max(unsealed, key=lambda step: step.bound, default=None)
    what = f"the seal (behind {last.what})" if last else "the seal"
    started, ended = min(seal.started for seal in seals), min(seal.ended for seal in seals)
    return Step(last.bound if last else 0, _SEAL, started, ended, what)


def _check_model(steps: Sequence[Step]) -> None:
    model = LogModel()
    seal = next((step.what for step in steps if step.line == _SEAL), "any seal")
    for step in steps:
        if step.line == _SEAL:
            model.seal()
        elif step.line == _SEALED:
            expect(model.sealed, f"{step.what} was seen, which lies before {seal}")
        elif step.entry is not None:
            session, sequence = step.entry.name
            expect(
                sequence >= model.next_sequence.get(session, 0), f"{step.what} comes after a later one of its session"
            )
            model.land(Batch.build(session, sequence, [step.entry.payload]), range(step.place, step.place + 1))


def _check_time(steps: Iterable[Step]) -> None:
    """No step stands before one that had ended when it began."""
    latest: Step | None = None
    for step in steps:
        if latest is not None and step.ended < latest.started:
            raise AssertionError(f"{latest.what} stands before {step.what}, but began only after that had ended")
        if latest is None or step.started > latest.started:
            latest = step
