"""Writes down what many clients of one log ask and hear, for `virtuallog.testing.linearizability` to judge.

Time is the number of the event: all clients of a history live in one process, a simulator's or a test's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

import attrs

from virtuallog.api import Loglet, Placed
from virtuallog.batch import Batch
from virtuallog.errors import OutOfOrderError, OverloadedError, SealedError, TailMismatchError
from virtuallog.types import LogletOffset, Tail

NOTHING_DONE: Final = (OutOfOrderError, OverloadedError, TailMismatchError)
"""Errors that promise that the append did not and will not happen."""


@attrs.define(eq=False, kw_only=True)
class Operation:
    """One call of one client."""

    started: int
    ended: float = math.inf
    """Infinite while the outcome is unknown: it may still happen."""


OperationT = TypeVar("OperationT", bound=Operation)


@attrs.define(eq=False, kw_only=True)
class Append(Operation):
    batch: Batch
    places: range | None = None
    """Set when acknowledged."""
    refused: bool = False
    """Failed with an error that promises that it did not and will not happen."""


@attrs.define(eq=False, kw_only=True)
class CheckTail(Operation):
    tail: Tail | None = None
    lagging: bool = False
    """From `wait_tail`: an `Open` one may be old."""


@attrs.define(eq=False, kw_only=True)
class Read(Operation):
    start: int
    stop: int
    items: Sequence[Placed] = ()


@attrs.define(eq=False, kw_only=True)
class Seal(Operation):
    pass


@attrs.define(eq=False, kw_only=True)
class Trim(Operation):
    requested: int
    trim_point: int = 0


@attrs.define
class History:
    """What happened, in order of events. Fill it through `RecordedLoglet`s."""

    operations: list[Operation] = attrs.field(factory=list)
    _now: int = 0

    def of(self, kind: type[OperationT]) -> list[OperationT]:
        return [operation for operation in self.operations if isinstance(operation, kind)]

    def tick(self) -> int:
        self._now += 1
        return self._now


@attrs.define
class RecordedLoglet:
    """A client whose calls go into a history. Implements `virtuallog.api.Loglet`."""

    _loglet: Loglet
    _history: History

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        operation = Append(started=self._history.tick(), batch=batch)
        self._history.operations.append(operation)
        try:
            operation.places = await self._loglet.append(batch, opens=opens, expected_tail=expected_tail)
        except NOTHING_DONE:
            operation.refused = True
            raise
        except SealedError as error:
            operation.refused = error.refused
            raise
        operation.ended = self._history.tick()
        return operation.places

    async def check_tail(self) -> Tail:
        operation = CheckTail(started=self._history.tick())
        self._history.operations.append(operation)
        operation.tail = await self._loglet.check_tail()
        operation.ended = self._history.tick()
        return operation.tail

    async def wait_tail(self, past: LogletOffset) -> Tail:
        operation = CheckTail(started=self._history.tick(), lagging=True)
        self._history.operations.append(operation)
        operation.tail = await self._loglet.wait_tail(past)
        operation.ended = self._history.tick()
        return operation.tail

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        operation = Read(started=self._history.tick(), start=start, stop=stop)
        self._history.operations.append(operation)
        operation.items = await self._loglet.read(start, stop, max_bytes)
        operation.ended = self._history.tick()
        return operation.items

    async def seal(self) -> None:
        operation = Seal(started=self._history.tick())
        self._history.operations.append(operation)
        await self._loglet.seal()
        operation.ended = self._history.tick()

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        operation = Trim(started=self._history.tick(), requested=offset)
        self._history.operations.append(operation)
        trim_point = await self._loglet.prefix_trim(offset)
        operation.trim_point, operation.ended = trim_point, self._history.tick()
        return trim_point
