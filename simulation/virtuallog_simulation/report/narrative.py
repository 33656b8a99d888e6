"""Tells a history: the short story of a broken promise for a person, or all of it, or as JSON for a program.

The short story is about the operations that prove the violation: requests and answers, the messages
and durable writes in between, and the deaths meanwhile. Runs recorded in detail give the best
stories (`runs/message_record.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from virtuallog.testing.checker.history import Event, Failed, Fault, History, Invoked, Returned, Unknown
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.report.abbreviations import brief
from virtuallog_simulation.runs.message_record import Durable, Message
from virtuallog_simulation.runs.runner import SeedReport

EVENTS_MAX: Final = 42
"""Most events of a short story. With the lines that count omitted ones it stays within about sixty."""
WIDTH_MAX: Final = 150
_WHO_WIDTH: Final = 15
_VERB_WIDTH: Final = 10
_PENDING_MAX: Final = 8
_LAST_EVENTS: Final = 20
"""Events shown for a violation that no event proves: something that should have happened did not."""
_PROOF, _FAULTS, _OWN_MESSAGES, _OTHER_REQUESTS, _DURABLE, _OTHER_OPERATIONS, _OTHER_MESSAGES = range(7)
"""Ranks of events, the most important first. `_OWN_MESSAGES`: of the client whose operation it is."""
_TOLD_MAX: Final = {_FAULTS: 8, _OWN_MESSAGES: 26, _OTHER_REQUESTS: 12, _DURABLE: 10, _OTHER_OPERATIONS: 6}
"""Most events of some ranks, those near the proof first: an operation may have taken very long."""
_ON_THE_WAY: Final = ("delayed", "slowed", "clogged", "reordered", "duplicated", "replayed")
"""Fates of a message that arrives all the same, so it is shown again."""
_NODE_OF_CLIENT: Final = re.compile(r"(\d+)(?:\.\d+)?$")
"""Clients are called "appender 1003", nodes "node 2.1"."""

LEGEND: Final = (
    "'>' proves it; #6 is an operation; 1 -> 2 is a message; -- is a fault or a log line; times in simulated seconds"
)


def short_story(history: History, violation: Violation) -> list[str]:
    """Events that concern the violation, in the order in which they happened."""
    return list(_Story(history, violation).lines())


def full_story(history: History, violation: Violation) -> Iterator[str]:
    """Everything."""
    words = _Words(history)
    for index, event in enumerate(history.events):
        yield words.line(event, proves=index in violation.events)


@attrs.define(eq=False)
class _Words:
    """Puts events into lines: mark, time, who, what."""

    history: History
    _invoked: dict[int, Invoked] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._invoked = {event.operation: event for event in self.history.events if isinstance(event, Invoked)}

    def line(self, event: Event, *, proves: bool) -> str:
        who, what = self._told(event)
        line = f"{'>' if proves else ' '} {event.time:10.4f}  {who:<{_WHO_WIDTH}} {what}"
        return line if len(line) <= WIDTH_MAX else line[: WIDTH_MAX - 3] + "..."

    def invoked(self, operation: int) -> Invoked:
        return self._invoked[operation]

    def pending(self) -> list[Invoked]:
        """Operations that have not ended."""
        waiting = dict(self._invoked)
        for event in self.history.events:
            if isinstance(event, Returned | Failed | Unknown):
                waiting.pop(event.operation, None)
        return list(waiting.values())

    def _told(self, event: Event) -> tuple[str, str]:
        match event:
            case Invoked(_, operation, client, action):
                return client, f"{'asks':<{_VERB_WIDTH}} {brief(action)}  #{operation}"
            case Returned(_, operation, result):
                return self._ended(event, operation, "hears", brief(result))
            case Failed(_, operation, error):
                return self._ended(event, operation, "refused", error)
            case Unknown(_, operation, error):
                return self._ended(event, operation, "unknown", error)
            case Message():
                return f"{event.source} -> {event.target}", f"{event.fate:<{_VERB_WIDTH}} {brief(event.content)}"
            case Durable():
                return f"node {event.node}", f"{'durable':<{_VERB_WIDTH}} {event.what.partition(': ')[2]}"
            case Fault(_, what):
                return "--", what

    def _ended(self, event: Event, operation: int, verb: str, what: str) -> tuple[str, str]:
        asked = self._invoked[operation]
        name = type(asked.action).__name__
        return (
            asked.client,
            f"{verb:<{_VERB_WIDTH}} {what}  ({name} #{operation}, after {event.time - asked.time:.4f} s)",
        )


@attrs.define(eq=False)
class _Story:
    """Chooses what to tell: everything gets a rank, and the best ranks fit."""

    history: History
    violation: Violation
    _words: _Words = attrs.field(init=False)
    _proof: set[int] = attrs.field(init=False)
    _operations: set[int] = attrs.field(init=False)
    """Operations that the proof is about."""
    _spans: list[tuple[int, int, int | None]] = attrs.field(init=False)
    """First and last index of each of them, and the node of its client, if it has one."""
    _segments: set[Any] = attrs.field(init=False)
    """Loglets that they are about; empty: the log as a whole."""

    def __attrs_post_init__(self) -> None:
        events = self.history.events
        self._words = _Words(self.history)
        self._proof = {index for index in self.violation.events if 0 <= index < len(events)}
        self._operations = {number for index in self._proof if (number := _operation(events[index])) is not None}
        self._spans = list(self._find_spans())
        actions = [self._words.invoked(number).action for number in self._operations]
        self._segments = {action.segment for action in actions if hasattr(action, "segment")}

    def lines(self) -> Iterator[str]:
        yield f"  {'time':>10}  {'who':<{_WHO_WIDTH}} what"
        yield from self._events(self._chosen())
        if not self._operations:
            yield from self._waiting()

    def _events(self, chosen: list[int]) -> Iterator[str]:
        previous = None
        for index in chosen:
            if previous is not None and index > previous + 1:
                yield f"  {'':>10}  {'':<{_WHO_WIDTH}} ... {index - previous - 1} more"
            yield self._words.line(self.history.events[index], proves=index in self._proof)
            previous = index

    def _waiting(self) -> Iterator[str]:
        """Operations that should have ended."""
        pending = self._words.pending()
        if pending:
            yield f"  still waiting at the end, of {len(pending)} operations:"
        for event in pending[:_PENDING_MAX]:
            yield self._words.line(event, proves=False)

    def _chosen(self) -> list[int]:
        if not self._operations:
            end = len(self.history.events)
            return list(range(max(0, end - _LAST_EVENTS), end))
        chosen: set[int] = set()
        told = Counter[int]()
        for rank, _, index in sorted(self._ranked()):
            if len(chosen) < EVENTS_MAX and told[rank] < _TOLD_MAX.get(rank, EVENTS_MAX):
                told[rank] += 1
                chosen.add(index)
        return sorted(chosen | _single_gaps(chosen))

    def _ranked(self) -> Iterator[tuple[int, int, int]]:
        """(rank, distance from the proof, index) of all events that may be shown."""
        first, last = min(start for start, _, _ in self._spans), max(stop for _, stop, _ in self._spans)
        for index in range(first, last + 1):
            rank = self._rank(index, self.history.events[index])
            if rank is not None:
                yield rank, min(abs(index - proof) for proof in self._proof), index

    def _rank(self, index: int, event: Event) -> int | None:
        """Rank of an event; None if it is irrelevant."""
        if index in self._proof or _operation(event) in self._operations:
            return _PROOF
        clients = [client for start, stop, client in self._spans if start <= index <= stop]
        match event:
            case Message():
                if self._is_elsewhere(event) or not clients:
                    return None
                if event.fate in _ON_THE_WAY:
                    return _OTHER_MESSAGES
                if {event.source, event.target} & set(clients):
                    return _OWN_MESSAGES
                return _OTHER_REQUESTS if event.fate == "request" else _OTHER_MESSAGES
            case Durable():
                return _DURABLE if clients else None
            case Fault():
                return _FAULTS
            case _:
                return _OTHER_OPERATIONS if clients else None

    def _is_elsewhere(self, event: Message) -> bool:
        """A message that names another loglet."""
        segment = getattr(event.content, "segment", None)
        return bool(self._segments) and segment is not None and segment not in self._segments

    def _find_spans(self) -> Iterator[tuple[int, int, int | None]]:
        events = self.history.events
        starts, stops = dict[int, int](), dict[int, int]()
        for index, event in enumerate(events):
            number = _operation(event)
            if number in self._operations:
                assert number is not None
                starts.setdefault(number, index)
                stops[number] = index if not isinstance(event, Invoked) else max(self._proof)
        for number in sorted(starts):
            found = _NODE_OF_CLIENT.search(self._words.invoked(number).client)
            yield starts[number], stops[number], int(found[1]) if found else None


def _single_gaps(chosen: set[int]) -> set[int]:
    """Events that are alone between two shown ones: leaving one out takes as much room as showing
    it."""
    return {index + 1 for index in chosen if index + 1 not in chosen and index + 2 in chosen}


def _operation(event: Event) -> int | None:
    return event.operation if isinstance(event, Invoked | Returned | Failed | Unknown) else None


def as_json(report: SeedReport) -> Iterator[dict[str, Any]]:
    """One object per event, then one with the verdict. Nothing in it depends on the real time or on the process."""
    yield from _events_as_json(report.history.events)
    yield {
        "event": "verdict",
        "scenario": report.scenario,
        "seed": report.seed,
        "violations": [{"check": violation.check, "message": violation.message} for violation in report.violations],
        "faults": dict(sorted(report.counts.items())),
        "simulated_seconds": report.simulated_seconds,
    }


def _events_as_json(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    for event in events:
        head = {"event": type(event).__name__.lower(), "time": event.time}
        match event:
            case Invoked(_, operation, client, action):
                yield {**head, "operation": operation, "client": client, "action": repr(action)}
            case Returned(_, operation, result):
                yield {**head, "operation": operation, "result": repr(result)}
            case Failed(_, operation, error) | Unknown(_, operation, error):
                yield {**head, "operation": operation, "error": error}
            case Fault(_, what):
                yield {**head, "what": what}
