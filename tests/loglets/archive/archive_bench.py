"""Helpers of the archive tests: logs to archive, places to put them, and damage."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import trio

from tests.simulation.conformance.fixtures import NoServices
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import Gap, GapKind, LogletOffset, LogPosition, NodeId, PlacedBatch, Sealed, Tail
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.archive import ArchiveProvider
from virtuallog_loglets.archive.creation.archiver import Archiver, FinishedArchive
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_loglets.archive.drivers.files import Files

CLUSTER = "c1" * 16
URL = "memory://archives"
SESSION = SessionId(b"session of a log")
SMALL = DataFileSizes(group_bytes=1 << 10, file_bytes=4 << 10)
"""Sizes with which a few entries make several row groups, and some files."""


@attrs.define(eq=False)
class DictFiles:
    """Files in memory. Implements `virtuallog_loglets.archive.drivers.files.Files`; a test may change `content` behind its back."""

    content: dict[str, bytes] = attrs.field(factory=dict)
    broken: bool = False
    """True if it does not answer."""
    before_write: Callable[[str], None] = lambda name: None
    """May raise: then nothing was written."""

    async def read(self, name: str) -> bytes | None:
        await self._reach()
        return self.content.get(name)

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        await self._reach()
        found = self.content.get(name)
        return None if found is None else found[start:stop]

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        await self._reach()
        self.before_write(name)
        if not replace and name in self.content:
            return False
        self.content[name] = content
        return True

    async def list(self) -> Mapping[str, int]:
        await self._reach()
        return {name: len(content) for name, content in sorted(self.content.items())}

    async def delete(self, name: str) -> None:
        await self._reach()
        self.content.pop(name, None)

    async def _reach(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise UnavailableError("the place for files does not answer")


@attrs.define(eq=False)
class BlockingDictFiles:
    """The same for callers without trio. Implements
    `virtuallog_loglets.archive.drivers.files.BlockingFiles`."""

    content: dict[str, bytes]
    asked: list[tuple[str, int, int]] = attrs.field(factory=list)
    """The ranges that were read."""

    def read(self, name: str) -> bytes | None:
        return self.content.get(name)

    def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        self.asked.append((name, start, stop))
        found = self.content.get(name)
        return None if found is None else found[start:stop]

    def list(self) -> Mapping[str, int]:
        return {name: len(content) for name, content in sorted(self.content.items())}


@attrs.define(eq=False)
class ArchivePlace:
    """Directories by URL: what an `ArchiveProvider` opens."""

    directories: dict[str, DictFiles] = attrs.field(factory=dict)

    def __call__(self, url: str) -> Files:
        return self.directories.setdefault(url, DictFiles())

    @property
    def only(self) -> DictFiles:
        """Files of the one archive there is."""
        (found,) = self.directories.values()
        return found


@attrs.define(eq=False)
class FixedLoglet:
    """A closed loglet that holds just these items, adjacent from offset 0. Only what reads needs."""

    items: Sequence[Placed]
    trim: int = 0
    reads: int = 0
    broken: bool = False

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        if self.broken:
            raise UnavailableError("no server answers")
        if start < self.trim:
            return [Gap(start, min(stop, self.trim), GapKind.TRIMMED)]
        parts = [item.clip(start, stop) for item in self.items]
        found, size = list[Placed](), 0
        for part in parts:
            if part is None:
                continue
            size += len(part.batch.blob) if isinstance(part, PlacedBatch) else 0
            if found and size > max_bytes:
                break
            found.append(part)
        return found

    async def check_tail(self) -> Tail:
        return Sealed(self.items[-1].stop)

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        self.trim = max(self.trim, offset)
        return LogletOffset(self.trim)

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        raise AssertionError("it is closed")

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self.check_tail()

    async def seal(self) -> None:
        pass


def batches(count: int, entries: int = 3, size: int = 100) -> list[Placed]:
    """`count` batches side by side, whose entries say where they are."""
    found: list[Placed] = []
    for number in range(count):
        first = number * entries
        payloads = [b"%d " % (first + index) + b"x" * size for index in range(entries)]
        batch = Batch.build(SESSION, first, payloads)
        found.append(PlacedBatch(range(first, first + entries), batch, 1_000 + number))
    return found


def segment_of(items: Sequence[Placed], start: int = 0, kind: str = "fixed") -> Segment:
    """A closed segment over all of the items, from this position on."""
    first, stop = LogPosition(start), LogPosition(start + items[-1].stop - items[0].start)
    base = LogletOffset(items[0].start)
    return Segment(id=SegmentId(3, 77), kind=kind, config=b"hot", start=first, stop=stop, base=base)


def environment(nursery: trio.Nursery, node: int = 1) -> Environment:
    clock = SimulatedClock(Process(NodeId(node)))
    return Environment(services=NoServices(), clock=clock, random=random.Random(node), nursery=nursery)


def archiving(
    provider: ArchiveProvider, found: Environment, sizes: DataFileSizes = SMALL, grace: float = 60.0
) -> Archiver:
    return Archiver(provider=provider, cluster=CLUSTER, url=URL, environment=found, grace_seconds=grace, sizes=sizes)


@attrs.frozen
class Made:
    """An archive, and what it was made of."""

    provider: ArchiveProvider
    shelf: ArchivePlace
    archived: FinishedArchive
    segment: Segment
    hot: FixedLoglet
    environment: Environment

    def open(self, *, with_hot: bool = False) -> Loglet:
        """A new client."""
        config = self.archived.config
        if not with_hot:
            config = attrs.evolve(config, hot=None)
        return self.provider.open(self.segment.id, config.encode(), self.environment)


async def make(nursery: trio.Nursery, items: Sequence[Placed], start: int = 0, sizes: DataFileSizes = SMALL) -> Made:
    """Archive a segment of these items."""
    shelf, hot, found = ArchivePlace(), FixedLoglet(items), environment(nursery)
    provider = ArchiveProvider(open_files=shelf)
    providers: dict[str, Any] = {"fixed": FixedProvider(hot), "archive": provider}
    provider.over(providers)
    segment = segment_of(items, start)
    archived = await archiving(provider, found, sizes).run(segment, hot)
    return Made(provider, shelf, archived, segment, hot, found)


@attrs.define
class FixedProvider:
    """Opens one loglet. As much of a `LogletProvider` as archives need."""

    loglet: FixedLoglet
    kind: str = "fixed"

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        return self.loglet


async def read_all(loglet: Loglet, start: int, stop: int, max_bytes: int = 1 << 20) -> list[Placed]:
    """Everything in the range, each read a step further."""
    found: list[Placed] = []
    while start < stop:
        items = await loglet.read(LogletOffset(start), LogletOffset(stop), max_bytes)
        assert items[0].start == start
        found += items
        start = items[-1].stop
    return found
