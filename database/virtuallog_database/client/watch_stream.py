"""Changes of the tree as an async iterator, fed by a watch.

Changes come in their order. If the reader is slower, they wait here up to a bound. Beyond it they
are dropped, and the stream reports so at their place: a reader that needs the state reads it again.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog_database.client.database_handle import DatabaseHandle
from virtuallog_database.replica.database import Database
from virtuallog_database.tree.commands import Identity
from virtuallog_database.tree.results import ChangeKind
from virtuallog_database.tree.watches import WatchMode

BACKLOG_MAX: Final = 1024
"""Changes that wait for one reader: a burst of one full group of commands, some 200 KB with usual
paths."""


@attrs.frozen
class Changed:
    """The znode `path` was changed by the command `zxid`. Reads of the same replica show it."""

    kind: ChangeKind
    path: str
    zxid: int


@attrs.frozen
class Missed:
    """Changes up to the command `zxid` were dropped here: the reader was too slow, or the replica
    has installed a snapshot instead of them. Read the watched znodes again: that shows all changes."""

    count: int
    """Number of dropped changes; 0 if unknown."""
    zxid: int


Event: TypeAlias = Changed | Missed


@attrs.define(eq=False)
class WatchStream:
    """Async iterator and context manager: the watch is set while the block runs. For one task.

    Raises:
        BusyResourceError (of trio): entered within its own block.
    """

    _handle: DatabaseHandle
    _path: str
    _mode: WatchMode
    _backlog: int = BACKLOG_MAX
    _events: deque[Event] = attrs.field(factory=deque, init=False)
    _came: trio.Event = attrs.field(factory=trio.Event, init=False)
    _database: Database | None = attrs.field(default=None, init=False)
    """The database in which the watch is set. None outside the block."""

    async def __aenter__(self) -> WatchStream:
        if self._database is not None:
            raise trio.BusyResourceError("a stream of changes is for one block at a time")
        self._handle.enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.leave(self)
        if self._database is not None:
            self._database.watches.remove_all(self)
            self._database = None

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> Event:
        """The next change; waits for it. A cancelled call loses nothing."""
        await trio.lowlevel.checkpoint()
        while not self._events:
            self._came = trio.Event()
            await self._came.wait()
        return self._events.popleft()

    def take_waiting(self) -> list[Event]:
        """Take all changes that wait here. Does not wait for one."""
        taken = list(self._events)
        self._events.clear()
        return taken

    def begin(self, database: Database) -> None:
        """Set the watch in a new database (called by `DatabaseHandle`)."""
        former, self._database = self._database, database
        database.watches.add(self._path, self, self._mode)
        if former is not None:
            self._miss(0, database.tree.last_zxid)

    @property
    def identities(self) -> tuple[Identity, ...]:
        """Identities for ACL checks (read by `Watches`)."""
        return self._handle.identities

    def fire(self, kind: ChangeKind, path: str, zxid: int) -> None:
        """Queue one change (called by `Watches`)."""
        if len(self._events) >= self._backlog:
            self._miss(1, zxid)
        else:
            self._events.append(Changed(kind, path, zxid))
            self._came.set()

    def _miss(self, count: int, zxid: int) -> None:
        """Report missed changes at the end of the queue, which then holds one more than the
        backlog."""
        last = self._events[-1] if self._events else None
        if isinstance(last, Missed):
            self._events[-1] = Missed(last.count + count if last.count and count else 0, zxid)
        else:
            self._events.append(Missed(count, zxid))
        self._came.set()
