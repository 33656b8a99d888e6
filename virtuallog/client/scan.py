"""One read of a range in big pieces, as fast as one client can: for jobs and exports.

    async for piece in scan(log, start, stop):
        for placed in piece:
            ...

`Reader` follows a log and waits for servers for ever. A scan ends at `stop`, and gives up after a while: its
job can be tried elsewhere. It reads one piece ahead of its consumer, so a slow consumer holds two pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import attrs
import trio

from virtuallog.client.reader import RETRY_SECONDS
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import InvalidSettingError, RetryableError, UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import LogPosition

PIECE_BYTES: Final = 2 << 20
"""Size of one read: some twenty thousand small entries.

With half of it a reader and its server together took an eighth more CPU, with twice as much no less.
A busy server gives it well within the timeout of a call.
"""
RETRY_LIMIT_SECONDS: Final = 60.0
"""Time that a read is tried again, as long as an append.

A reconfiguration takes some milliseconds, the restart of a machine a minute.
"""


def scan(
    log: VirtualLog,
    start: LogPosition,
    stop: LogPosition,
    *,
    patience: float = RETRY_LIMIT_SECONDS,
    piece_bytes: int = PIECE_BYTES,
) -> Scan:
    """Read [start, stop) as pieces of adjacent batches and gaps, in order, without holes.

    Trimmed and lost parts, and fillers, come as gaps. Needs no closing: left early, it has read one
    piece more than was taken. A call of `__anext__` may be cancelled: the next one goes on with the
    same piece. One consumer at a time.

    Args:
        log: the log to read.
        start: first position.
        stop: one past the last position; at most the tail.
        patience: seconds to try again while no server that has the entries answers. A read under way by
            then is waited for, some seconds more.
        piece_bytes: approximate size of a piece; servers give at most some 8 MiB, and at least one batch.

    Raises (when iterated over):
        BeyondTailError: `stop` is past the tail.
        RetryableError: the last error after `patience`, mostly UnavailableError. `position` says how far it got.
        CorruptionError: every copy of some position is damaged.
    """
    if patience < 0 or piece_bytes < 1:
        raise InvalidSettingError("scan", f"patience {patience:g} s and pieces of {piece_bytes} bytes are too little")
    return Scan(log, stop, patience, piece_bytes, start)


async def read_with_retry(
    log: VirtualLog, start: LogPosition, stop: LogPosition, max_bytes: int, patience: float
) -> Sequence[Placed]:
    """`VirtualLog.read`, tried again for `patience` seconds. Raises the errors of `scan`."""
    clock = log.view.environment.clock
    deadline, (pause, longest) = clock.monotonic() + patience, RETRY_SECONDS
    while True:
        try:
            return await log.read(start, stop, max_bytes)
        except RetryableError:
            if clock.monotonic() >= deadline:
                raise
        await clock.sleep(min(pause, deadline - clock.monotonic()))
        pause = min(2 * pause, longest)


@attrs.define(eq=False)
class Scan(AsyncIterator[Sequence[Placed]]):
    """Iterator over pieces; made by `scan`."""

    _log: VirtualLog
    _stop: LogPosition
    _patience: float
    _piece_bytes: int
    position: LogPosition
    """First position not handed out yet: where another scan would go on."""
    _ahead: _Ahead | None = attrs.field(default=None, init=False)
    """The piece being read ahead; None if there is none."""

    def __aiter__(self) -> Scan:
        return self

    async def __anext__(self) -> Sequence[Placed]:
        if self.position >= self._stop:
            raise StopAsyncIteration
        ahead = self._ahead = self._ahead or self._read_ahead()
        await ahead.ended.wait()
        self._ahead = None
        piece = ahead.take()
        self.position = LogPosition(piece[-1].stop)
        if self.position < self._stop:
            self._ahead = self._read_ahead()
        return piece

    def _read_ahead(self) -> _Ahead:
        ahead = _Ahead()
        self._log.view.environment.nursery.start_soon(self._read, ahead)
        return ahead

    async def _read(self, ahead: _Ahead) -> None:
        """Read one piece. Runs in the client's nursery and ends by itself, with one piece or one error."""
        try:
            ahead.piece = await read_with_retry(self._log, self.position, self._stop, self._piece_bytes, self._patience)
        except VirtualLogError as error:
            ahead.error = error
        finally:
            ahead.ended.set()


@attrs.define(eq=False)
class _Ahead:
    """A piece that is being read, and its outcome."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    piece: Sequence[Placed] = ()
    error: VirtualLogError | None = None

    def take(self) -> Sequence[Placed]:
        if self.error is not None:
            raise self.error
        if not self.piece:
            raise UnavailableError("the client of the log was closed")
        return self.piece
