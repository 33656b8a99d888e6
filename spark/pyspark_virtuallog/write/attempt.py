"""One attempt of a task: writes its rows under a session of its own, in order, with a bound on
bytes in flight.

Another attempt of the same task may have run before, or runs beside it. The driver decides which of
their sessions counts (`batch_commit.py`). So an attempt may die at any point, and its rows are
never seen then. An attempt keeps one session: if that were replaced after an error, rows could be
attributed to a session that does not have them.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from pyspark_virtuallog.markers.marker import Winner
from virtuallog.client.appender import Appender, AppenderSettings
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import LogPosition

SETTINGS: Final = AppenderSettings(one_session=True)
UNDER_WAY_BYTES: Final = 16 << 20
"""Twice the bytes that an appender has in flight, so that it never waits for rows; bounds the
memory of a task."""


@attrs.define(eq=False)
class Attempt:
    """The rows of one attempt, in flight."""

    _appender: Appender
    _first: LogPosition | None = None
    _last: LogPosition | None = None
    _entries: int = 0
    _bytes: int = 0
    _chunks: int = 0
    _under_way: int = 0
    """Bytes of posted chunks without an outcome."""
    _failure: VirtualLogError | None = None
    _changed: trio.Event = attrs.field(factory=trio.Event)

    async def write(self, payloads: list[bytes]) -> None:
        """Post a chunk behind all before; returns before it is in the log.

        Raises:
            VirtualLogError: this chunk, or one before it, is not in the log, or its outcome is
                unknown: the attempt has failed.
        """
        size = sum(map(len, payloads))
        while self._chunks and self._under_way + size > UNDER_WAY_BYTES:
            await self._wait()
        self._check()
        self._chunks, self._under_way = self._chunks + 1, self._under_way + size
        self._appender.post_many(payloads, lambda outcome: self._settled(size, outcome))

    async def finish(self) -> Winner | None:
        """Wait until all rows are in the log: durable, each once, in order. None if there were no
        rows. Raises as `write`."""
        while self._chunks:
            await self._wait()
        self._check()
        if self._first is None or self._last is None:
            return None
        return Winner(self._appender.session, self._first, self._last, self._entries, self._bytes)

    def close(self) -> None:
        """End the session. Chunks in flight may be in the log, now or later."""
        self._appender.close()

    async def _wait(self) -> None:
        self._check()
        self._changed = trio.Event()
        await self._changed.wait()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _settled(self, size: int, outcome: range | VirtualLogError) -> None:
        """Take an outcome. Outcomes may come out of order, positions are in order."""
        self._chunks, self._under_way = self._chunks - 1, self._under_way - size
        if isinstance(outcome, VirtualLogError):
            self._failure = self._failure or outcome
        else:
            self._first = LogPosition(min(outcome[0], outcome[0] if self._first is None else self._first))
            self._last = LogPosition(max(outcome[-1], outcome[-1] if self._last is None else self._last))
            self._entries += len(outcome)
            self._bytes += size
        self._changed.set()


async def open_attempt(log: VirtualLog) -> Attempt:
    """An attempt, to be closed by the caller."""
    return Attempt(log.appender(SETTINGS))
