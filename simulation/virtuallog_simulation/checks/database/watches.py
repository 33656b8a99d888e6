"""Promises about watches: each fires once, at the first change behind it, before anything shows
that change.

Every connection is replayed by itself. A read that sets a watch names with its zxid the state it
was set on, so the changes that the watch must report are known, and so is their order. Events
before an answer must reach as far as the state that the answer shows; they may reach further, as
commands are applied in groups. Changes of one zxid come in any order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_database.testing.model_acl import may
from virtuallog_database.tree.commands import Identity, Permission
from virtuallog_database.tree.results import Change, ChangeKind, Error
from virtuallog_simulation.checks.database.replay import Replay, answered, replay
from virtuallog_simulation.workload.database.authentication_model import ProvenIdentities, standings
from virtuallog_simulation.workload.database.requests import (
    AddWatch,
    CheckWatches,
    Event,
    Exists,
    GetChildren,
    GetData,
    RemoveWatches,
    SetWatches,
)

TOLD: Final = "watch events compared"
"""Counted, so that a run without any is noticed."""
_ANY_TIME: Final = 0
_READ: Final = int(Permission.READ)
_Frames: TypeAlias = Sequence[Told]


@attrs.define(eq=False)
class Tables:
    """The watches of one connection."""

    data: set[str] = attrs.field(factory=set)
    child: set[str] = attrs.field(factory=set)
    persistent: set[str] = attrs.field(factory=set)
    recursive: set[str] = attrs.field(factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.data or self.child or self.persistent or self.recursive)

    def fire(self, change: Change) -> bool:
        """Report a change if it is watched; one-time watches are gone then. Returns True if it is
        reported."""
        kind, path = change
        stays = path in self.persistent or (kind is not ChangeKind.CHILDREN_CHANGED and self._is_below(path))
        once = False
        if kind is not ChangeKind.CHILDREN_CHANGED:
            once = path in self.data
            self.data.discard(path)
        if kind in {ChangeKind.CHILDREN_CHANGED, ChangeKind.DELETED}:
            once = once or path in self.child
            self.child.discard(path)
        return once or stays

    def have(self, path: str, kind: int, *, remove: bool) -> bool:
        """True if there is a standard watch, of children (1) or data (2)."""
        table = self.child if kind == 1 else self.data
        found = path in table
        if remove:
            table.discard(path)
        return found

    def _is_below(self, path: str) -> bool:
        return any(path == above or path.startswith(above.rstrip("/") + "/") for above in self.recursive)


@attrs.define(eq=False)
class _Connection:
    """The replay of one."""

    replay: Replay
    zxids: Sequence[int]
    """Zxids of all changes, in order."""
    standings: Mapping[int, tuple[ProvenIdentities, ProvenIdentities]]
    identities: tuple[Identity, ...] = ()
    """Identities that the connection has proved so far."""
    tables: Tables = attrs.field(factory=Tables)
    received: deque[Told] = attrs.field(factory=deque)
    shown: int = _ANY_TIME
    """The newest state that was seen to its end."""
    next: int = 0
    """Index in `zxids` of the first change behind it."""
    compared: int = 0

    def judge(self, frames: _Frames) -> Iterator[Violation]:
        for told in frames:
            if isinstance(told.action, Event):
                self.received.append(told)
                continue
            self.identities = self.standings[told.number][0].identities
            if told.result.zxid > 0:
                violation = self._advance(told.result.zxid, told)
                if violation is not None:
                    yield violation
                    return
            self.identities = self.standings[told.number][1].identities
            violation = self._set(told)
            if violation is not None:
                yield violation
                return
        yield from self._drain()

    def _advance(self, zxid: int, told: Told) -> Violation | None:
        """Advance to this state: all events up to it must have been reported."""
        while self.next < len(self.zxids) and self.zxids[self.next] <= zxid:
            expected = self._expected()
            heard = [self.received.popleft() for _ in range(min(len(expected), len(self.received)))]
            self.compared += len(expected)
            if Counter(_change(one) for one in heard) != Counter(expected):
                message = (
                    f"zxid {self.shown}: {_named(expected)} is to be told before zxid {zxid} is shown, "
                    f"and {_named([_change(one) for one in heard])} was"
                )
                return Violation("watches fire once and first", message, proof(*heard, told))
        return None

    def _drain(self) -> Iterator[Violation]:
        """End the connection: events reported ahead must be those that come next."""
        while self.received:
            first = self.received[0]
            if self.next == len(self.zxids):
                yield Violation("watches fire once and first", f"nothing is behind {_change(first)}", proof(first))
                return
            expected = Counter(self._expected())
            for _ in range(min(expected.total(), len(self.received))):
                one = self.received.popleft()
                if not expected[_change(one)]:
                    message = f"{_named([_change(one)])} was told, where {_named(list(expected.elements()))} comes next"
                    yield Violation("watches fire once and first", message, proof(one))
                    return
                expected[_change(one)] -= 1
                self.compared += 1

    def _expected(self) -> list[Change]:
        """Events of these watches at the next zxid with changes."""
        self.shown = self.zxids[self.next]
        self.next += 1
        if self.tables.is_empty:
            return []
        told = zip(self.replay.changes[self.shown], self.replay.acls[self.shown], strict=True)
        return [change for change, acl in told if self.tables.fire(change) and may(acl, _READ, self.identities)]

    def _set(self, told: Told) -> Violation | None:
        """The watches that a request has set."""
        request, error = told.action.request, told.result.error
        tables = self.tables
        match request:
            case Exists(path, True) if error in {Error.OK, Error.NO_NODE}:
                tables.data.add(path)
            case GetData(path, True) if error == Error.OK:
                tables.data.add(path)
            case GetChildren(path, True) if error == Error.OK:
                tables.child.add(path)
            case AddWatch(path, recursive) if error == Error.OK:
                (tables.recursive if recursive else tables.persistent).add(path)
            case CheckWatches(path, kind) | RemoveWatches(path, kind) if error in {Error.OK, Error.NO_WATCHER}:
                found = tables.have(path, kind, remove=isinstance(request, RemoveWatches))
                if found != (error == Error.OK):
                    message = f"{request} was answered {Error(error).name}, and there is {'one' if found else 'none'}"
                    return Violation("watches are found", message, proof(told))
            case SetWatches() if error == Error.OK:
                return self._set_again(told)
            case _:
                pass
        return None

    def _set_again(self, told: Told) -> Violation | None:
        """Restore watches: missed changes have been reported before the answer; the other watches
        are set."""
        request, missed = told.action.request, self.replay.missed[told.number]
        due = [change for change in missed if change not in self.replay.hidden[told.number]]
        heard = [self.received.popleft() for _ in range(min(len(due), len(self.received)))]
        self.compared += len(due)
        if Counter(_change(one) for one in heard) != Counter(due):
            message = f"{_named(due)} was missed, and {_named([_change(one) for one in heard])} was told"
            return Violation("watches that come back", message, proof(*heard, told))
        gone = {ChangeKind.DATA_CHANGED: set[str](), ChangeKind.CREATED: set(), ChangeKind.CHILDREN_CHANGED: set()}
        deleted = Counter(path for kind, path in missed if kind is ChangeKind.DELETED)
        for kind, path in missed:
            gone.setdefault(kind, set()).add(path)
        self.tables.data |= {p for p in request.data if p not in gone[ChangeKind.DATA_CHANGED] and not deleted[p]}
        self.tables.data |= set(request.exist) - gone[ChangeKind.CREATED]
        self.tables.child |= {p for p in request.child if p not in gone[ChangeKind.CHILDREN_CHANGED] and not deleted[p]}
        self.tables.persistent |= set(request.persistent)
        self.tables.recursive |= set(request.recursive)
        return None


def watches_fire_once_and_first(history: History) -> Iterator[Violation]:
    """Check the watches of every connection."""
    facts = replay(history)
    zxids = sorted(facts.changes)
    for frames in connections(history).values():
        yield from _Connection(facts, zxids, standings(history)).judge(frames)


def events_compared(history: History) -> int:
    """Number of events compared."""
    facts = replay(history)
    zxids, total = sorted(facts.changes), 0
    for frames in connections(history).values():
        connection = _Connection(facts, zxids, standings(history))
        list(connection.judge(frames))
        total += connection.compared
    return total


def connections(history: History) -> Mapping[int, _Frames]:
    """Frames of each connection, in order."""
    found: dict[int, list[tuple[int, Told]]] = {}
    for told in answered(history):
        found.setdefault(told.action.connection, []).append((told.ended or 0, told))
    for told in history.operations(Event):
        found.setdefault(told.action.connection, []).append((told.invoked, told))
    return {
        number: [told for _, told in sorted(frames, key=lambda frame: frame[0])] for number, frames in found.items()
    }


def _change(told: Told) -> Change:
    return told.action.kind, told.action.path


def _named(changes: Sequence[Change]) -> str:
    return ", ".join(f"{kind.name} {path}" for kind, path in changes) or "nothing"


WATCH_CHECKS: Final[tuple[Check, ...]] = (watches_fire_once_and_first,)
