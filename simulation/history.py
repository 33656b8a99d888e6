"""What clients did and saw, in the order in which it happened.

The simulator runs in one thread, so the order of events is the real order: an operation whose `Returned` stands before
another's `Invoked` had surely ended before the other began. Checkers (`checkers.py`) read nothing else of a run.
Times are simulated seconds and only help a human reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import attrs

from virtuallog.chain import SegmentId
from virtuallog.errors import (
    BeyondTailError,
    ChainConflictError,
    OutOfOrderError,
    OverloadedError,
    SealedError,
    TailMismatchError,
    TrimmedError,
    VirtualLogError,
)

ActionT = TypeVar("ActionT")


@attrs.frozen
class Append:
    """Result: the positions, a range."""

    payloads: tuple[bytes, ...]


@attrs.frozen
class CheckTail:
    """Result: a `Tail`."""


@attrs.frozen
class Read:
    """Result: the records found from `start` on, a list. A tailing reader makes one of these of all that it sees."""

    start: int
    stop: int


@attrs.frozen
class Trim:
    """Result: the effective trim point."""

    position: int


@attrs.frozen
class Reconfigure:
    """A change of the chain, in words. Result: the version of the register after it."""

    what: str


@attrs.frozen
class LogletAppend:
    """One batch offered to one loglet. Result: its places, a range."""

    segment: SegmentId
    session: bytes = attrs.field(repr=lambda session: session.hex()[:8])
    sequence: int
    count: int


@attrs.frozen
class LogletTail:
    """`check_tail` of a loglet. Result: a `Tail`."""

    segment: SegmentId


@attrs.frozen
class LogletSeal:
    """`seal` of a loglet. Result: None."""

    segment: SegmentId


@attrs.frozen
class LogletRead:
    """`read` of a loglet. Result: [(places, session, sequence)] of the batches found, whole or clipped."""

    segment: SegmentId
    start: int
    stop: int


@attrs.frozen
class Get:
    """A client read the register. Result: (version, value)."""


@attrs.frozen
class Put:
    """A client put a value of its own, as this version. Result: the version."""

    version: int
    value: bytes = attrs.field(repr=False)


Action: TypeAlias = (
    Append | CheckTail | Read | Trim | Reconfigure | LogletAppend | LogletTail | LogletSeal | LogletRead | Get | Put
)


@attrs.frozen
class Invoked:
    time: float
    operation: int
    client: str
    action: Action


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
    """Something the nemesis did, for the timeline of a failing seed."""

    time: float
    what: str


Event: TypeAlias = Invoked | Returned | Failed | Unknown | Fault

NOTHING_DONE = (
    BeyondTailError,
    ChainConflictError,
    OutOfOrderError,
    OverloadedError,
    TailMismatchError,
    TrimmedError,
)
"""Errors after which an operation has surely had no effect. For an append to the log (not to a loglet) SealedError is
another one: the appender has settled that the entry is not in it."""


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

    def before(self, other: Operation) -> bool:
        """Whether this one had ended when `other` began."""
        return self.ended is not None and self.ended < other.invoked


@attrs.define(eq=False)
class History:
    """Events, and the operation that is being recorded by each caller of `record`."""

    now: Any
    """Tells the simulated time."""
    events: list[Event] = attrs.field(factory=list)
    _operations: int = 0

    def fault(self, what: str) -> None:
        self.events.append(Fault(self.now(), what))

    @contextmanager
    def record(self, client: str, action: Action) -> Iterator[Recorder]:
        """Record what happens inside: call the recorder with the result, or let the error pass through."""
        number, self._operations = self._operations, self._operations + 1
        self.events.append(Invoked(self.now(), number, client, action))
        recorder = Recorder(self, number)
        try:
            yield recorder
        except VirtualLogError as error:
            refused = isinstance(error, NOTHING_DONE) or (isinstance(action, Append) and isinstance(error, SealedError))
            ended = Failed if refused else Unknown
            self.events.append(ended(self.now(), number, f"{type(error).__name__}: {error}"))
            raise
        except BaseException as error:  # cancelled, or the process crashed: nobody will ever hear of the outcome
            self.events.append(Unknown(self.now(), number, type(error).__name__))
            raise

    def observed(self, client: str, action: Action, result: Any) -> None:
        """An operation that takes no time."""
        with self.record(client, action) as returned:
            returned(result)

    def operations(self, *kinds: type) -> list[Operation]:
        """All operations of these kinds of action, in the order in which they began."""
        operations: dict[int, Operation] = {}
        for index, event in enumerate(self.events):
            match event:
                case Invoked(_, number, client, action) if isinstance(action, kinds):
                    operations[number] = Operation(number, client, action, index)
                case Returned(_, number, result) if number in operations:
                    operation = operations[number]
                    operation.ended, operation.result, operation.returned = index, result, True
                case Failed(_, number) | Unknown(_, number) if number in operations:
                    operations[number].ended = index
                    operations[number].failed = isinstance(event, Failed)
                case _:
                    pass
        return list(operations.values())


@attrs.define(eq=False)
class Recorder:
    """Call it with the result of the operation."""

    _history: History
    _number: int

    def __call__(self, result: Any) -> None:
        history = self._history
        history.events.append(Returned(history.now(), self._number, result))
