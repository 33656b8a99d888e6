"""Histories: invocations and results of clients, in real order. Checkers read nothing else of a run.

`actions.py` has the actions of a log, a loglet or the register; a history of something else has
actions of its own.

All clients of a history live in one process, a simulator's or a test's, so the order of events is
the real order: an operation with its `Returned` before another's `Invoked` had surely ended before
the other began. That order is the only clock that counts; the times beside it help a human reader.
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
    """A fault injected into the world, for the timeline of a failing run."""

    time: float
    what: str


Recorder: TypeAlias = Callable[[Any], None]
"""Call it with the result of the operation."""

Event: TypeAlias = Invoked | Returned | Failed | Unknown | Fault


@attrs.define(eq=False)
class Operation:
    """One operation, assembled from its events."""

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
    """True if it failed with an error which promises that nothing was done."""
    error: BaseException | None = None

    @property
    def done(self) -> float:
        """Index of the event before which it surely had its effect; infinite while that is unknown."""
        return self.ended if self.returned and self.ended is not None else math.inf

    def before(self, other: Operation) -> bool:
        """True if this one had ended when `other` began."""
        return self.ended is not None and self.ended < other.invoked


@attrs.define(eq=False)
class History:
    """Events, and their operations by kind."""

    now: Callable[[], float] | None = None
    """Returns the time; None to use the number of the event instead."""
    events: list[Event] = attrs.field(factory=list)
    derived: dict[Hashable, tuple[int, Any]] = attrs.field(factory=dict, repr=False)
    """Facts that `once` has computed."""
    _by_kind: dict[type, list[Operation]] = attrs.field(factory=dict, repr=False)
    _count: int = 0

    def fault(self, what: str) -> None:
        self.events.append(Fault(self._time(), what))

    @contextmanager
    def record(self, client: str, action: object) -> Iterator[Recorder]:
        """Record the body of a `with` block. Call the recorder with the result, or let the error
        pass through.

        A body that ends without a result has returned None.
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
        except BaseException as error:  # cancelled, or the process crashed: the outcome will never be known
            self._fail(operation, error, type(error).__name__, refused=False)
            raise

    def begin(self, client: str, action: object) -> Recorder:
        """Record an operation that ends elsewhere. Call the recorder with the result or the error,
        or never."""
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
            return  # it went wrong later, with another cause
        operation.ended, operation.failed, operation.error = len(self.events), refused, error
        self.events.append((Failed if refused else Unknown)(self._time(), operation.number, told))

    def observed(self, client: str, action: object, result: Any) -> None:
        """Record an operation that takes no time."""
        with self.record(client, action) as returned:
            returned(result)

    def add(self, operation: Operation) -> None:
        """Add an operation with events that are recorded elsewhere, or not at all."""
        self._count += 1
        self._by_kind.setdefault(type(operation.action), []).append(operation)

    def operations(self, *kinds: type) -> Sequence[Operation]:
        """Return all operations of these kinds of action, in the order in which they began."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        found = [operation for kind in kinds for operation in self._by_kind.get(kind, [])]
        return sorted(found, key=lambda operation: operation.number)

    def _time(self) -> float:
        return self.now() if self.now is not None else float(len(self.events))
