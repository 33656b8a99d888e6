"""The witness order: decides without a search if a history can be that of one log.

Deciding that for any history takes a search in general. But a log gives a witness: places. Put
every entry at its place, every tail that was seen just before the entry at that place, and so on;
then one question remains: is this order possible in time? It is, if no step stands before one that
had ended when it began. One loglet and a whole log are judged alike (`linearizability.py`,
`virtuallog_simulation.checks.history.log`); only their steps differ.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import attrs

from virtuallog.testing.checker.history import Operation

NameT = TypeVar("NameT", bound=Hashable)

ANY_TIME = -1
"""Start of a step that may have happened long before it was reported: only a lower bound for the tail."""


@attrs.define(eq=False)
class Entry(Generic[NameT]):
    """An entry that was offered, once or several times."""

    name: NameT
    label: str
    offers: list[Operation] = attrs.field(factory=list)
    refused: bool = True
    """True if every offer was refused with nothing done."""
    acknowledged: Operation | None = None
    """The first offer that was acknowledged; None if none was."""
    place: int | None = None
    known_by: Operation | None = None
    """The operation that first reported its place; None if none has."""
    seen: float = math.inf
    """Index of the first event before which it was surely in the log: an acknowledgement, or the
    end of a read."""

    @property
    def started(self) -> int:
        return self.offers[0].invoked

    def __str__(self) -> str:
        return self.label


@attrs.define(eq=False)
class Entries(Generic[NameT]):
    """All entries and their places, as acknowledgements and reads report unanimously."""

    named: dict[NameT, Entry[NameT]] = attrs.field(factory=dict)
    at: dict[int, Entry[NameT]] = attrs.field(factory=dict)

    def offer(self, name: NameT, label: str, operation: Operation) -> Entry[NameT]:
        """Record that an append of this entry has begun. Call in the order in which they began."""
        entry = self.named.get(name)
        if entry is None:
            entry = self.named[name] = Entry(name, label)
        entry.offers.append(operation)
        entry.refused &= operation.failed
        return entry

    def place(self, entry: Entry[NameT], place: int, operation: Operation) -> tuple[str, Operation] | None:
        """Record that `operation` reports this place. Returns a contradiction and its operation, or
        None."""
        if entry.place is not None and entry.place != place:
            assert entry.known_by is not None
            return f"puts {entry} at place {place}; it is at {entry.place} as well", entry.known_by
        holder = self.at.setdefault(place, entry)
        if holder is not entry:
            assert holder.known_by is not None
            return f"puts {entry} at place {place}, where {holder} is", holder.known_by
        if entry.place is None:
            entry.place, entry.known_by = place, operation
        entry.seen = min(entry.seen, operation.done)
        return None


@attrs.frozen(eq=False)
class Step:
    """A moment in the witness order."""

    place: int
    line: int
    """Order of the steps at one place."""
    started: float
    done: float
    what: str
    operation: Operation | None
    """The operation that proves it; None if there is none."""
    entry: Entry[Any] | None = None


def in_order(steps: Iterable[Step]) -> list[Step]:
    """Sort into the witness order. Steps of one place and line stay in the order in which they began."""
    return sorted(steps, key=lambda step: (step.place, step.line, step.started))


def out_of_time(steps: Iterable[Step]) -> Iterator[tuple[Step, Step]]:
    """Yield pairs of steps in impossible order: the first began only after the second had ended."""
    latest: Step | None = None
    for step in steps:
        if latest is not None and step.done < latest.started:
            yield latest, step
        if latest is None or step.started > latest.started:
            latest = step
