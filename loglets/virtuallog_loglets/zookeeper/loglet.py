"""Client of a ZooKeeperLoglet: implements `virtuallog.contract.loglet.Loglet` over the znodes port."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Tail
from virtuallog.contract.znodes import Znodes
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.drivers.base_znodes import BaseZnodes
from virtuallog_loglets.zookeeper.drivers.slot_reader import SlotReader
from virtuallog_loglets.zookeeper.drivers.slots import ZooKeeperSlots
from virtuallog_loglets.zookeeper.drivers.tail_check import ZooKeeperTailCheck
from virtuallog_loglets.zookeeper.drivers.trimmer import ZooKeeperTrimmer
from virtuallog_loglets.zookeeper.drivers.writer_driver import ZooKeeperWriterDriver


@attrs.define(eq=False)
class ZooKeeperLoglet:
    """Client of one ZooKeeperLoglet. Its parts share the loglet's creation id and known tail."""

    segment: SegmentId
    config: ZooKeeperConfig
    _znodes: Znodes
    _environment: Environment
    _base_znodes: BaseZnodes = attrs.field(init=False)
    _tails: ZooKeeperTailCheck = attrs.field(init=False)
    _writing: ZooKeeperWriterDriver = attrs.field(init=False)
    _reading: SlotReader = attrs.field(init=False)
    _trimming: ZooKeeperTrimmer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        layout, znodes, environment = ZooKeeperLayout(self.config.root, self.segment), self._znodes, self._environment
        slots = ZooKeeperSlots(layout, znodes)
        self._base_znodes = BaseZnodes(layout, znodes)
        self._tails = ZooKeeperTailCheck(layout, znodes, self._base_znodes, environment)
        self._writing = ZooKeeperWriterDriver(layout, znodes, self._base_znodes, self._tails, slots, environment)
        self._reading = SlotReader(layout, znodes, self._base_znodes, slots)
        self._trimming = ZooKeeperTrimmer(layout, znodes, self._base_znodes, slots, environment)

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        return await self._writing.append(batch, opens=opens, expected_tail=expected_tail)

    async def check_tail(self) -> Tail:
        """Check the tail as the contract says. Raises also CorruptionError if ZooKeeper has lost data."""
        return await self._tails.check()

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self._tails.wait(past)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return await self._reading.read(start, stop, max_bytes)

    async def seal(self) -> None:
        await self._base_znodes.seal()

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return LogletOffset(await self._trimming.trim(offset))
