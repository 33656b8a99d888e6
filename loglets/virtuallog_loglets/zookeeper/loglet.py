"""The client of a ZooKeeperLoglet: what `virtuallog.api.Loglet` promises, over one port to a ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.api import Placed
from virtuallog.batch import Batch
from virtuallog.chain import SegmentId
from virtuallog.ports import Environment
from virtuallog.types import LogletOffset, Tail
from virtuallog.znodes import Znodes
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.layout import Layout
from virtuallog_loglets.zookeeper.reading import Reading
from virtuallog_loglets.zookeeper.skeleton import Skeleton
from virtuallog_loglets.zookeeper.slots import Slots
from virtuallog_loglets.zookeeper.tails import Tails
from virtuallog_loglets.zookeeper.trimming import Trimming
from virtuallog_loglets.zookeeper.writing import Writing


@attrs.define(eq=False)
class ZooKeeperLoglet:
    """One client. Its parts share what is known of the loglet's birth and tail."""

    segment: SegmentId
    config: ZooKeeperConfig
    _znodes: Znodes
    _environment: Environment
    _skeleton: Skeleton = attrs.field(init=False)
    _tails: Tails = attrs.field(init=False)
    _writing: Writing = attrs.field(init=False)
    _reading: Reading = attrs.field(init=False)
    _trimming: Trimming = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        layout, znodes, environment = Layout(self.config.root, self.segment), self._znodes, self._environment
        slots = Slots(layout, znodes)
        self._skeleton = Skeleton(layout, znodes)
        self._tails = Tails(layout, znodes, self._skeleton, environment)
        self._writing = Writing(layout, znodes, self._skeleton, self._tails, slots, environment)
        self._reading = Reading(layout, znodes, self._skeleton, slots)
        self._trimming = Trimming(layout, znodes, self._skeleton, slots, environment)

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        return await self._writing.append(batch, opens=opens, expected_tail=expected_tail)

    async def check_tail(self) -> Tail:
        """As promised; moreover CorruptionError if ZooKeeper has lost what it had."""
        return await self._tails.check()

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self._tails.wait(past)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return await self._reading.read(start, stop, max_bytes)

    async def seal(self) -> None:
        await self._skeleton.seal()

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return LogletOffset(await self._trimming.trim(offset))
