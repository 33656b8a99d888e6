"""A session of the log for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType

from virtuallog.aio.grouped_appends import GroupedAppends
from virtuallog.client.appender import Appender, AppenderSettings
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge


class AsyncioAppender:
    """A session of an AsyncioLog; an async context manager. Entries of calls by one task are in the log in that order."""

    def __init__(self, log: VirtualLog, bridge: AsyncioBridge, settings: AppenderSettings | None) -> None:
        """Make no call yet: the session begins with the block."""
        self._log = log
        self._bridge = bridge
        self._settings = settings
        self._held = bridge.hold(self._open)
        self._opened: Appender | None = None
        self._appends: GroupedAppends | None = None

    async def __aenter__(self) -> AsyncioAppender:
        self._opened = opened = await self._held.__aenter__()
        settings = self._settings or self._log.appender_settings
        self._appends = GroupedAppends(self._bridge, settings, opened.try_post, opened.append)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._held.__aexit__(kind, value, trace)

    @property
    def session(self) -> SessionId:
        """See `Appender.session`."""
        return self._appender.session

    @property
    def queued_bytes(self) -> int:
        """See `Appender.queued_bytes`."""
        return self._appender.queued_bytes

    @property
    def is_full(self) -> bool:
        """See `Appender.is_full`."""
        return self._appender.is_full

    @property
    def batches_in_flight(self) -> int:
        """See `Appender.batches_in_flight`."""
        return self._appender.batches_in_flight

    def close(self) -> None:
        """End the session soon; see `Appender.close`."""
        self._bridge.post(self._appender.close)

    async def append(self, payloads: Sequence[bytes], expected_tail: LogPosition | None = None) -> range:
        """See `Appender.append`. Cancelled, it has an unknown outcome unless `__cause__` of the CancelledError has one."""
        appender, copied = self._appender, list(payloads)
        if expected_tail is not None or not copied:
            return await self._bridge.call(appender.append, copied, expected_tail)
        assert self._appends is not None
        return await self._appends.append(copied)

    @property
    def _appender(self) -> Appender:
        if self._opened is None:
            raise RuntimeError("a session is open within its block only: async with log.appender() as session")
        return self._opened

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Appender]:
        with self._log.appender(self._settings) as appender:
            yield appender
