"""Changes of the tree as an async iterator for asyncio."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, Pieces
from virtuallog_database.client.watch_stream import Event, WatchStream


class AsyncioWatchStream:
    """See `WatchStream`. All changes that wait come with one way to the other loop, so two backlogs wait for a slow reader."""

    def __init__(self, stream: WatchStream, bridge: AsyncioBridge) -> None:
        """Set no watch yet: it is set while the block runs."""
        self._stream = stream
        self._bridge = bridge
        self._pieces = Pieces(bridge, self._fetch)
        self._events: deque[Event] = deque()
        """Changes of the last piece that were not handed out."""
        self._held: AbstractAsyncContextManager[WatchStream] | None = None
        """None outside the block."""

    async def __aenter__(self) -> AsyncioWatchStream:
        held = self._bridge.hold(lambda: self._stream)
        await held.__aenter__()
        self._held = held
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._held is not None
        held, self._held = self._held, None
        await held.__aexit__(kind, value, trace)

    def __aiter__(self) -> AsyncioWatchStream:
        return self

    async def __anext__(self) -> Event:
        """The next change; waits for it. A cancelled call loses nothing."""
        if not self._events:
            self._events.extend(await self._pieces.next())
        return self._events.popleft()

    async def _fetch(self) -> list[Event]:
        return [await anext(self._stream), *self._stream.take_waiting()]
