"""Changes of the tree as a stream: an async iterator over what a watch tells.

A watch tells of changes in their order, and a reader that is slower than they come has them wait here, up to a bound. Beyond it
changes are dropped, and the stream says so where they would have stood: whoever wants to know the state reads it again.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Final, TypeAlias

import attrs
import trio

from database.kv.results import ChangeKind
from database.kv.watches import Watches, WatchMode

BACKLOG_MAX: Final = 1024
"""Changes that wait for one reader: a burst of one full group of commands, some 200 KB with usual paths."""


@attrs.frozen
class Changed:
    """Something happened to the znode `path`, by the command `zxid`. Reads of the same replica show it."""

    kind: ChangeKind
    path: str
    zxid: int


@attrs.frozen
class Missed:
    """So many changes were dropped here, since the reader was too slow; the last one was by the command `zxid`. Read again
    what you watch: that shows them all."""

    count: int
    zxid: int


Event: TypeAlias = Changed | Missed


@attrs.define(eq=False)
class WatchStream:
    """An async iterator and a context manager: the watch is set from entering the block until leaving it. For one task."""

    _watches: Watches
    _path: str
    _mode: WatchMode
    _backlog: int = BACKLOG_MAX
    _events: deque[Event] = attrs.field(factory=deque, init=False)
    _came: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def __aenter__(self) -> WatchStream:
        self._watches.add(self._path, self, self._mode)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watches.remove_all(self)

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> Event:
        """The next change; waits for it. Cancelled, nothing is lost."""
        await trio.lowlevel.checkpoint()
        while not self._events:
            self._came = trio.Event()
            await self._came.wait()
        return self._events.popleft()

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        """For `Watches`."""
        last = self._events[-1] if self._events else None
        if isinstance(last, Missed):
            self._events[-1] = Missed(last.count + 1, zxid)
        elif len(self._events) >= self._backlog:
            self._events.append(Missed(1, zxid))
        else:
            self._events.append(Changed(kind, path, zxid))
        self._came.set()
