"""Loglet in the memory of one process: for tests, examples and documentation.

**Nothing is durable, and nothing is shared between processes.** All clients that one
`MemoryProvider` opened see the same logs; they vanish with the provider. The behaviour is in
`virtuallog.testing.model`. This module adds what a real loglet cannot avoid: every call takes a
moment before it acts and another before its caller hears of it. So calls overlap, and a cancelled
append may have happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.batch import Batch
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, SealedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Clock, Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import LogletOffset, Tail
from virtuallog.testing.model import LogModel

WAIT_SECONDS: Final = 10.0
"""Seconds that `wait_tail` waits for news: short enough to notice a chain that changed elsewhere."""


@attrs.define
class SharedLog:
    """State that all clients of one loglet share."""

    model: LogModel
    dropped: bool = False
    changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    """`wait_tail` waits here for a longer or a sealed log."""


@attrs.define
class MemoryLoglet:
    """Client of one log in memory. Implements `virtuallog.contract.loglet.Loglet`."""

    _shared: SharedLog
    _clock: Clock

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        model = await self._reach()
        time_ms = int(self._clock.wall() * 1000)
        places = model.append(batch, opens=opens, expected_tail=expected_tail, time_ms=time_ms)
        self._shared.changed.unpark_all()
        await trio.lowlevel.checkpoint()  # the reply travels; cancelled here, the append has happened all the same
        return places

    async def check_tail(self) -> Tail:
        tail = (await self._reach()).check_tail()
        await trio.lowlevel.checkpoint()
        return tail

    async def wait_tail(self, past: LogletOffset) -> Tail:
        model = await self._reach()
        with self._clock.timeout(WAIT_SECONDS):
            while not model.sealed and model.tail <= past:
                await self._shared.changed.park()
        return model.check_tail()

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return (await self._reach()).read(start, stop, max_bytes)

    async def seal(self) -> None:
        (await self._reach()).seal()
        self._shared.changed.unpark_all()
        await trio.lowlevel.checkpoint()

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        trim_point = (await self._reach()).prefix_trim(offset)
        await trio.lowlevel.checkpoint()
        return trim_point

    async def _reach(self) -> LogModel:
        """The log, after the delay of a request."""
        await trio.lowlevel.checkpoint()
        if self._shared.dropped:
            raise SealedError("the chain no longer holds this segment", refused=True)
        return self._shared.model


@attrs.define
class MemoryProvider:
    """Logs in memory, found by segment id. Implements `virtuallog.contract.provider.LogletProvider`."""

    kind: str = "memory"
    align: int = 1
    """See `LogModel.align`: more than 1 makes sparse loglets, to test code that must handle them."""
    _logs: dict[SegmentId, SharedLog] = attrs.field(factory=dict, init=False)
    _lowest_live_version: int = attrs.field(default=0, init=False)
    interfaces: Sequence[Interface] = attrs.field(default=(), init=False)

    @property
    def contiguous(self) -> bool:
        return self.align == 1

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        for name in settings:
            raise InvalidSettingError(name, f"a loglet of kind {self.kind} has no settings")
        return b""

    def describe(self, config: bytes) -> Mapping[str, Any]:
        return {}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        fresh = SharedLog(LogModel(align=self.align), dropped=segment.version < self._lowest_live_version)
        return MemoryLoglet(fresh if fresh.dropped else self._logs.setdefault(segment, fresh), environment.clock)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        return {}

    async def forget(self, lowest_live_version: int) -> None:
        self._lowest_live_version = max(self._lowest_live_version, lowest_live_version)
        for segment in [segment for segment in self._logs if segment.version < self._lowest_live_version]:
            self._logs.pop(segment).dropped = True
