"""Recording wrappers of clients of loglets and of the register. They change nothing.

The conformance suites, the simulator and tests of loglets wrap their clients in them, then judge
the history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Loglet, Placed, SupportsPost, SupportsSealedTail
from virtuallog.contract.metastore import MetaStore, SupportsNewerVersion, SupportsPreparedPut
from virtuallog.contract.types import LogletOffset, NodeId, Tail
from virtuallog.testing.checker.actions import (
    LogletAppend,
    LogletRead,
    LogletSeal,
    LogletTail,
    LogletTrim,
    RegisterGet,
    RegisterPut,
)
from virtuallog.testing.checker.history import History

ONLY_SEGMENT: Final = SegmentId(1, 0)
"""Id of the loglet in histories of a single one."""


@attrs.frozen
class RecordedLoglet:
    """A recorded client of a loglet. Implements `virtuallog.contract.loglet.Loglet`."""

    _loglet: Loglet
    _history: History
    _segment: SegmentId = ONLY_SEGMENT
    _who: str = "client"
    _of_copy: bool = False
    """True if the loglet was moved: `LogletTail.of_copy`."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        with self._history.record(self._who, LogletAppend(self._segment, batch, expected_tail)) as returned:
            places = await self._loglet.append(batch, opens=opens, expected_tail=expected_tail)
            returned(places)
            return places

    async def check_tail(self) -> Tail:
        with self._history.record(self._who, LogletTail(self._segment, of_copy=self._of_copy)) as returned:
            tail = await self._loglet.check_tail()
            returned(tail)
            return tail

    async def wait_tail(self, past: LogletOffset) -> Tail:
        with self._history.record(self._who, LogletTail(self._segment, True, self._of_copy)) as returned:
            tail = await self._loglet.wait_tail(past)
            returned(tail)
            return tail

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        with self._history.record(self._who, LogletRead(self._segment, start, stop)) as returned:
            found = await self._loglet.read(start, stop, max_bytes)
            returned(found)
            return found

    async def seal(self) -> None:
        with self._history.record(self._who, LogletSeal(self._segment)) as returned:
            await self._loglet.seal()
            returned(None)

    async def seal_and_check_tail(self) -> Tail:
        """See `virtuallog.contract.loglet.SupportsSealedTail`. Other loglets do one after the other."""
        if not isinstance(self._loglet, SupportsSealedTail):
            await self.seal()
            return await self.check_tail()
        seal, check = LogletSeal(self._segment), LogletTail(self._segment, of_copy=self._of_copy)
        with self._history.record(self._who, seal) as sealed, self._history.record(self._who, check) as checked:
            tail = await self._loglet.seal_and_check_tail()
            sealed(None)
            checked(tail)
            return tail

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        with self._history.record(self._who, LogletTrim(self._segment, offset)) as returned:
            trim_point = await self._loglet.prefix_trim(offset)
            returned(trim_point)
            return trim_point


@attrs.frozen
class RecordedPosts(RecordedLoglet):
    """A recorded client of a loglet that implements `virtuallog.contract.loglet.SupportsPost`."""

    def post_append(self, batch: Batch, *, opens: bool, done: Callable[[range | VirtualLogError], None]) -> None:
        assert isinstance(self._loglet, SupportsPost)
        told = self._history.begin(self._who, LogletAppend(self._segment, batch, None))

        def answered(outcome: range | VirtualLogError) -> None:
            told(outcome)
            done(outcome)

        self._loglet.post_append(batch, opens=opens, done=answered)


@attrs.frozen
class RecordedMetaStore:
    """A recorded client of the register. Implements `virtuallog.contract.metastore.MetaStore`."""

    _metastore: MetaStore
    _history: History
    _who: str = "client"

    async def get(self) -> tuple[int, bytes]:
        with self._history.record(self._who, RegisterGet()) as returned:
            found = await self._metastore.get()
            returned(found)
            return found

    async def get_newer(self, than: int) -> tuple[int, bytes]:
        """See `virtuallog.contract.metastore.SupportsNewerVersion`. Not recorded: it need not be the newest."""
        if isinstance(self._metastore, SupportsNewerVersion):
            return await self._metastore.get_newer(than)
        return await self.get()

    async def prepare_put(self, expected_version: int) -> None:
        """See `virtuallog.contract.metastore.SupportsPreparedPut`."""
        if isinstance(self._metastore, SupportsPreparedPut):
            await self._metastore.prepare_put(expected_version)

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        with self._history.record(self._who, RegisterPut(expected_version + 1, value, attempt)) as returned:
            version = await self._metastore.put(value, expected_version, attempt, members)
            returned(version)
            return version
