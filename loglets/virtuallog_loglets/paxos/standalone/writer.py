"""Appends to a log that is used by itself, as the Writer of Mesos does, with its defects mended.

              start                      None, an error, a cancelled call
    idle ---------------> leading ---------------------------------------> idle, until `start`

Source: Mesos, `src/log/log.cpp`, LogWriterProcess. Departures:
* Who got None writes no more before `start`: a coordinator never goes on with the number of the one that turned it out (defect 3).
* A cancelled append ends the lead, as its outcome is unknown (MESOS-1038).
* Several appends may be under way, if the user wants that. They are decided in their order; behind a maybe all are maybe.
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
"""Of one entry."""
NOT_STARTED: Final = "No election has been performed"
TURNED_OUT: Final = "This writer has been turned out, or does not know what became of its last write: start it again"

_Done: TypeAlias = Callable[[int | VirtualLogError], None]


@attrs.define
class WriterError(TerminalError):
    """The writer cannot do this as it stands: not started, turned out, or busy. Nothing has been done."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define(eq=False)
class LogWriter:
    """Appends to the log, until another writer starts, here or anywhere.

    Args:
        log: of the local replica.
        outstanding: how many writes may be under way at a time, at most OUTSTANDING_MAX; Mesos has one.
    """

    _log: Log
    _outstanding: int = attrs.field(default=1, validator=[attrs.validators.ge(1), attrs.validators.le(OUTSTANDING_MAX)])
    _coordinator: CoordinatorDriver | None = attrs.field(default=None, init=False)
    """A new one for each start. It competes with those of other writers, wherever these are."""
    _running: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    """Of its task."""
    _idle: str | None = attrs.field(default=NOT_STARTED, init=False)
    """Why nothing can be written; None: it leads."""
    _under_way: int = attrs.field(default=0, init=False)
    _end: int = attrs.field(default=0, init=False)
    """The last position that is known to be decided."""

    async def start(self) -> Position | None:
        """Turn out every other writer and learn all that they have written; returns where the log ends.

        None: somebody else was faster, or too few replicas vote or answer. Try again after a moment.

        Raises:
            WriterError: a write of this writer is under way.
            VirtualLogError: this log has ended, as the error says.
        """
        self._check_free(0)
        with self._in_use():
            await self._log.recovered()
            self._give_up(NOT_STARTED)
            try:
                self._end = await self._candidate().stand()
            except RetryableError:
                self._give_up(NOT_STARTED)
                return None
        self._idle = None
        return Position(self._end)

    async def append(self, data: bytes) -> Position | None:
        """Write one entry; returns where it is, durable on a quorum.

        None: *maybe*. It is in the log, or will be, or never. This writer leads no longer. `start` again, then read what
        there is before anything is written once more. Cancelled, it is a maybe as well.

        Raises:
            WriterError, TooLargeError: nothing has been done.
            VirtualLogError: what has ended this log; a maybe.
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
        """Drop everything below `to`; returns the position of the entry that says so. None: maybe, as for `append`.

        Raises:
            WriterError: nothing has been done.
            BeyondTailError: the same: `to` is not in the log.
            VirtualLogError: what has ended this log; a maybe.
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
            # Cancelled, above all, which is no Exception; but however the wait ended, what was sent may be decided yet. So this
            # writer may not go on as if it led. Giving up waits for nothing, and what ended the wait goes on.
            self._give_up(TURNED_OUT)
            raise
        finally:
            self._under_way -= 1

    def _settled(self, outcome: int | VirtualLogError) -> Position | None:
        if isinstance(outcome, int):
            self._end = max(self._end, outcome)
            return Position(outcome)
        self._give_up(TURNED_OUT if isinstance(outcome, UnavailableError) else str(outcome))
        if isinstance(outcome, UnavailableError):
            return None
        raise outcome

    def _give_up(self, reason: str) -> None:
        """Lead no longer; what is under way is a maybe, and is told so."""
        self._idle = reason
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            coordinator.resign()
            self._running.cancel()

    @staticmethod
    async def _run(coordinator: CoordinatorDriver, scope: trio.CancelScope) -> None:
        with scope:
            await coordinator.run()
