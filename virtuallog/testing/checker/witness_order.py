"""The witness order: how to tell, without a search, whether a history can be that of one log.                      Pure.

To decide that for any history takes a search in general. But a log hands out a witness: places. Put every entry at its
place, every tail that was seen just before the entry at that place, and so on; then one question remains: is this order
possible in time? It is, if no step stands before one that had ended when it began. One loglet and a whole log are
judged alike (`linearizability.py`, `virtuallog_simulation.checks.history.log`); only their steps differ.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import attrs

from virtuallog.testing.checker.history import Operation

NameT = TypeVar("NameT", bound=Hashable)

ANY_TIME = -1
"""Start of a step that may have happened long before somebody told of it: a lower bound for the tail, no more."""


@attrs.define(eq=False)
class Entry(Generic[NameT]):
    """An entry that somebody offered, once or several times."""

    name: NameT
    label: str
    offers: list[Operation] = attrs.field(factory=list)
    refused: bool = True
    """Every offer was refused with nothing done."""
    acknowledged: Operation | None = None
    """The offer that was acknowledged first."""
    place: int | None = None
    known_by: Operation | None = None
    """Who told its place first."""
    seen: float = math.inf
    """Index of the first event before which it was surely in the log: an acknowledgement, or the end of a read."""

    @property
    def started(self) -> int:
        return self.offers[0].invoked

    def __str__(self) -> str:
        return self.label


@attrs.define(eq=False)
class Entries(Generic[NameT]):
    """All entries, and where they lie, as acknowledgements and reads say with one voice."""

    named: dict[NameT, Entry[NameT]] = attrs.field(factory=dict)
    at: dict[int, Entry[NameT]] = attrs.field(factory=dict)

    def offer(self, name: NameT, label: str, operation: Operation) -> Entry[NameT]:
        """Somebody has begun to append this entry; in the order in which they began."""
        entry = self.named.get(name)
        if entry is None:
            entry = self.named[name] = Entry(name, label)
        entry.offers.append(operation)
        entry.refused &= operation.failed
        return entry

    def place(self, entry: Entry[NameT], place: int, operation: Operation) -> tuple[str, Operation] | None:
        """`operation` says that the entry lies there; returns who says otherwise, and what, if somebody does."""
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
    """Who proves it."""
    entry: Entry[Any] | None = None


def in_order(steps: Iterable[Step]) -> list[Step]:
    """The witness order. Steps of one place and line stand in the order in which they began: nothing else orders them."""
    return sorted(steps, key=lambda step: (step.place, step.line, step.started))


def out_of_time(steps: Iterable[Step]) -> Iterator[tuple[Step, Step]]:
    """Pairs of steps of which the first began only after the second had ended, though it stands before it."""
    latest: Step | None = None
    for step in steps:
        if latest is not None and step.done < latest.started:
            yield latest, step
        if latest is None or step.started > latest.started:
            latest = step
