"""Writer of a log used by itself: the Writer of Mesos without its defects.

              start                      None, an error, a cancelled call
    idle ---------------> leading ---------------------------------------> idle, until `start`

Source: Mesos, `src/log/log.cpp`, LogWriterProcess. Departures:
* A writer that got None writes nothing before `start`: a coordinator never continues with the number of the one that
  turned it out (defect 3).
* A cancelled append ends the lead, as its outcome is unknown (MESOS-1038).
* Several appends may be in flight, if the user wants that. They are decided in their order; behind a *maybe* all are maybe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.batch import BATCH_BYTES_MAX
from virtuallog.contract.errors import (
    BeyondTailError,
    RetryableError,
    TerminalError,
    TooLargeError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog_loglets.paxos.drivers.coordinator_driver import CoordinatorDriver
from virtuallog_loglets.paxos.standalone.log import OUTSTANDING_MAX, Log, Position

DATA_BYTES_MAX: Final = BATCH_BYTES_MAX
"""Cap on the bytes of one entry."""
NOT_STARTED: Final = "No election has been performed"
TURNED_OUT: Final = "This writer has been turned out, or does not know what became of its last write: start it again"

_Done: TypeAlias = Callable[[int | VirtualLogError], None]


@attrs.define
class WriterError(TerminalError):
    """Raised by a writer that is not started, turned out or busy. Nothing has been done."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define(eq=False)
class LogWriter:
    """Appends to the log, until another writer starts, here or anywhere.

    Args:
        log: the log, as seen from the local replica.
        outstanding: cap on writes in flight, at most OUTSTANDING_MAX; Mesos has one.
    """

    _log: Log
    _outstanding: int = attrs.field(default=1, validator=[attrs.validators.ge(1), attrs.validators.le(OUTSTANDING_MAX)])
    _coordinator: CoordinatorDriver | None = attrs.field(default=None, init=False)
    """Coordinator of the last start, which competes with those of other writers on any node. None while idle."""
    _running: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    """Cancel scope of the coordinator's task."""
    _idle: str | None = attrs.field(default=NOT_STARTED, init=False)
    """Reason why nothing can be written; None if it leads."""
    hindrance: str = attrs.field(default="", init=False)
    """Error that ended the last election or write; empty if there was none."""
    _under_way: int = attrs.field(default=0, init=False)
    """Calls in flight."""
    _end: int = attrs.field(default=0, init=False)
    """Last position that is known to be decided."""

    async def start(self) -> Position | None:
        """Turn out every other writer and learn all that they have written.

        Returns:
            The last position of the log. None if another writer was faster, or too few replicas vote or answer: try again
            after a moment.

        Raises:
            WriterError: a write of this writer is in flight.
            VirtualLogError: this log has ended with this error.
        """
        self._check_free(0)
        with self._in_use():
            await self._log.recovered()
            self._give_up(NOT_STARTED)
            try:
                self._end = await self._candidate().stand()
            except RetryableError as error:
                self._give_up(NOT_STARTED)
                self.hindrance = str(error)
                return None
        self._idle = None
        return Position(self._end)

    async def append(self, data: bytes) -> Position | None:
        """Write one entry. If cancelled, the outcome is *maybe*, as for None.

        Returns:
            The position of the entry, durable on a quorum. None means *maybe*: the entry is in the log, or will be, or
            never. This writer does not lead any more. `start` again, then read the log before you write again.

        Raises:
            WriterError, TooLargeError: nothing has been done.
            VirtualLogError: this log has ended with this error; the outcome is *maybe*.
        """
        if len(data) > DATA_BYTES_MAX:
            raise TooLargeError("bytes of an entry", len(data), DATA_BYTES_MAX)
        coordinator = self._leading()
        settled, outcomes = trio.Event(), list[int | VirtualLogError]()

        def done(outcome: int | VirtualLogError) -> None:
            outcomes.append(outcome)
            settled.set()

        with self._in_use():
            coordinator.append(data, done)
            await settled.wait()
        return self._settled(outcomes[0])

    async def truncate(self, to: Position) -> Position | None:
        """Drop everything below `to`.

        Returns:
            The position of the TRUNCATE. None means *maybe*, as for `append`.

        Raises:
            WriterError: nothing has been done.
            BeyondTailError: `to` is not in the log; nothing has been done.
            VirtualLogError: this log has ended with this error; the outcome is *maybe*.
        """
        coordinator = self._leading()
        if to.value > self._end + 1:
            raise BeyondTailError(to.value, self._end + 1)
        outcome: int | VirtualLogError
        with self._in_use():
            try:
                outcome = await coordinator.truncate(to.value)
            except VirtualLogError as error:
                outcome = error
        return self._settled(outcome)

    def _leading(self) -> CoordinatorDriver:
        if self._log.failure is not None:
            raise self._log.failure
        if self._idle is not None:
            raise WriterError(self._idle)
        self._check_free(self._outstanding - 1)
        assert self._coordinator is not None
        return self._coordinator

    def _check_free(self, under_way_max: int) -> None:
        if self._under_way > under_way_max:
            raise WriterError(
                f"This writer is currently writing: {self._under_way} of {self._outstanding} are under way"
            )

    def _candidate(self) -> CoordinatorDriver:
        coordinator, scope = CoordinatorDriver(self._log.replica, self._log.environment), trio.CancelScope()
        self._coordinator, self._running = coordinator, scope
        self._log.environment.nursery.start_soon(self._run, coordinator, scope)
        return coordinator

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        except BaseException:
            # Mostly trio.Cancelled, which is no Exception. For any end of the wait, what was sent may still be decided,
            # so this writer must not go on as if it led. Giving up does not block, and the exception propagates.
            self._give_up(TURNED_OUT)
            raise
        finally:
            self._under_way -= 1

    def _settled(self, outcome: int | VirtualLogError) -> Position | None:
        if isinstance(outcome, int):
            self._end = max(self._end, outcome)
            return Position(outcome)
        self._give_up(TURNED_OUT if isinstance(outcome, UnavailableError) else str(outcome))
        self.hindrance = str(outcome)
        if isinstance(outcome, UnavailableError):
            return None
        raise outcome

    def _give_up(self, reason: str) -> None:
        """Give up the lead; calls in flight end as *maybe*."""
        self._idle = reason
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            coordinator.resign()
            self._running.cancel()

    @staticmethod
    async def _run(coordinator: CoordinatorDriver, scope: trio.CancelScope) -> None:
        with scope:
            await coordinator.run()
