"""What clients asked and heard, in the order in which it happened. Checkers read nothing else of a run.           Pure.

What is asked of a log, a loglet or the register is in `actions.py`; a history of something else has actions of its own.

All clients of a history live in one process, a simulator's or a test's, so the order of events is the real order: an
operation whose `Returned` stands before another's `Invoked` had surely ended before the other began. That order is the
only clock that counts; the times beside it help a human reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.testing.checker.actions import nothing_done


@attrs.frozen
class Invoked:
    time: float
    operation: int
    client: str
    action: Any


@attrs.frozen
class Returned:
    time: float
    operation: int
    result: Any


@attrs.frozen
class Failed:
    """The operation surely had no effect, or needs none (it is a read)."""

    time: float
    operation: int
    error: str


@attrs.frozen
class Unknown:
    """The operation may have had its effect, or may still have it."""

    time: float
    operation: int
    error: str


@attrs.frozen
class Fault:
    """Something that was done to the world, for the timeline of a failing run."""

    time: float
    what: str


Recorder: TypeAlias = Callable[[Any], None]
"""Call it with the result of the operation."""

Event: TypeAlias = Invoked | Returned | Failed | Unknown | Fault


@attrs.define(eq=False)
class Operation:
    """The events of one operation, put together."""

    number: int
    client: str
    action: Any
    invoked: int
    """Index of its first event in the history."""
    ended: int | None = None
    """Index of its last event; None if it never ended."""
    result: Any = None
    returned: bool = False
    failed: bool = False
    """With an error which says that nothing was done."""
    error: BaseException | None = None

    @property
    def done(self) -> float:
        """Index of the event before which it surely had its effect; infinite while that is unknown."""
        return self.ended if self.returned and self.ended is not None else math.inf

    def before(self, other: Operation) -> bool:
        """Whether this one had ended when `other` began."""
        return self.ended is not None and self.ended < other.invoked


@attrs.define(eq=False)
class History:
    """Events, and the operations that they belong to, by kind."""

    now: Callable[[], float] | None = None
    """Tells the time; without it, the number of the event is the time."""
    events: list[Event] = attrs.field(factory=list)
    derived: dict[Hashable, tuple[int, Any]] = attrs.field(factory=dict, repr=False)
    """For `once`."""
    _by_kind: dict[type, list[Operation]] = attrs.field(factory=dict, repr=False)
    _count: int = 0

    def fault(self, what: str) -> None:
        self.events.append(Fault(self._time(), what))

    @contextmanager
    def record(self, client: str, action: object) -> Iterator[Recorder]:
        """Record what happens inside: call what it gives with the result, or let the error pass through.

        What ends by itself and without a result has returned None.
        """
        operation = self._invoked(client, action)

        def returned(result: Any) -> None:
            self._returned(operation, result)

        try:
            yield returned
            if not operation.returned:
                returned(None)
        except VirtualLogError as error:
            self._refused(operation, error)
            raise
        except BaseException as error:  # cancelled, or the process crashed: nobody will ever hear of the outcome
            self._fail(operation, error, type(error).__name__, refused=False)
            raise

    def begin(self, client: str, action: object) -> Recorder:
        """Record what has no end in this place: call what comes back with the result or the error. Whom nobody tells hears nothing."""
        operation = self._invoked(client, action)

        def told(outcome: Any) -> None:
            if isinstance(outcome, VirtualLogError):
                self._refused(operation, outcome)
            else:
                self._returned(operation, outcome)

        return told

    def _invoked(self, client: str, action: object) -> Operation:
        operation = Operation(self._count, client, action, len(self.events))
        self.events.append(Invoked(self._time(), operation.number, client, action))
        self.add(operation)
        return operation

    def _returned(self, operation: Operation, result: Any) -> None:
        operation.result, operation.returned, operation.ended = result, True, len(self.events)
        self.events.append(Returned(self._time(), operation.number, result))

    def _refused(self, operation: Operation, error: VirtualLogError) -> None:
        told = f"{type(error).__name__}: {error}"
        self._fail(operation, error, told, refused=nothing_done(operation.action, error))

    def _fail(self, operation: Operation, error: BaseException, told: str, *, refused: bool) -> None:
        if operation.returned:
            return  # it went wrong later, with something else
        operation.ended, operation.failed, operation.error = len(self.events), refused, error
        self.events.append((Failed if refused else Unknown)(self._time(), operation.number, told))

    def observed(self, client: str, action: object, result: Any) -> None:
        """An operation that takes no time."""
        with self.record(client, action) as returned:
            returned(result)

    def add(self, operation: Operation) -> None:
        """An operation whose events are written elsewhere, or not at all."""
        self._count += 1
        self._by_kind.setdefault(type(operation.action), []).append(operation)

    def operations(self, *kinds: type) -> Sequence[Operation]:
        """All operations of these kinds of action, in the order in which they began."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        found = [operation for kind in kinds for operation in self._by_kind.get(kind, [])]
        return sorted(found, key=lambda operation: operation.number)

    def _time(self) -> float:
        return self.now() if self.now is not None else float(len(self.events))
