"""The LocalStore port in memory, with crashes: what was not flushed may be lost, as of some moment, never by halves.

disk = MemoryDisk()                     lives as long as the machine's disk
store = disk.open(process, clock)       lives as long as the process
disk.crash(random)                      after a crash of the process: some of the unflushed writes are gone

Whose disk fails is told so by `MemoryDisk.failure`; how long a flush takes is simulated, too.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence

import attrs
import trio

from virtuallog.contract.errors import StorageError, VirtualLogError
from virtuallog.contract.ports import Clock, Span
from virtuallog.testing.sim.process import Process
from virtuallog_database.ports import StoreReader


@attrs.define(eq=False)
class SortedPairs:
    """An ordered map of bytes to bytes. Implements `ports.StoreReader`."""

    pairs: dict[bytes, bytes] = attrs.field(factory=dict)
    _keys: list[bytes] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._keys = sorted(self.pairs)

    def get(self, key: bytes) -> bytes | None:
        return self.pairs.get(key)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        return [(key, self.pairs[key]) for key in self.keys(span)[:count]]

    def keys(self, span: Span) -> list[bytes]:
        """Those in `span`, in order."""
        start, stop = span
        return self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]

    def change(self, key: bytes, value: bytes | None) -> bytes | None:
        """Put, or delete where the value is None; returns what was there."""
        former = self.pairs.get(key)
        if value is None:
            if former is not None:
                del self.pairs[key]
                del self._keys[bisect_left(self._keys, key)]
        else:
            if former is None:
                insort(self._keys, key)
            self.pairs[key] = value
        return former


@attrs.define(eq=False)
class MemoryDisk:
    """What survives a crash, and the failures to inject."""

    flush_seconds: float = 0.0
    """How long a flush takes, on the clock of whoever has the store open."""
    failure: Callable[[], VirtualLogError | None] = lambda: None
    """Asked before each write and flush: what is to be raised instead."""
    is_behind: bool = False
    """What the store says of it."""
    content: SortedPairs = attrs.field(factory=SortedPairs)
    """What is to be seen now, flushed or not."""
    writes: int = attrs.field(default=0, init=False)
    """That were made since the disk is there."""
    _undo: list[dict[bytes, bytes | None]] = attrs.field(factory=list, init=False)
    """For each write that is not flushed, the oldest first: what it has replaced."""

    @property
    def unflushed(self) -> int:
        """Writes that a crash may take."""
        return len(self._undo)

    def open(self, process: Process | None = None, clock: Clock | None = None) -> MemoryStore:
        """The store as a process sees it. Only one may use it at a time; the one before is dead, or has closed it."""
        return MemoryStore(self, process, clock)

    def crash(self, chance: random.Random) -> None:
        """Go back to some moment between the last flush and now. The process that uses the disk must be dead."""
        keep = chance.randint(0, len(self._undo))
        while len(self._undo) > keep:
            for key, former in self._undo.pop().items():
                self.content.change(key, former)
        self._undo.clear()

    def wipe(self) -> None:
        """Somebody replaced the disk. The process that used it must be dead."""
        self.content = SortedPairs()
        self._undo.clear()

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span]) -> None:
        """For the store."""
        self.fail_if_asked()
        content = self.content
        undo = {key: content.change(key, None) for span in dropped for key in content.keys(span)}
        for key, value in changes.items():
            former = content.change(key, value)
            undo.setdefault(key, former)
        self._undo.append(undo)
        self.writes += 1

    def fail_if_asked(self) -> None:
        """For the store."""
        if (error := self.failure()) is not None:
            raise error

    def flushed(self, writes: int) -> None:
        """The oldest `writes` ones are durable. For the store."""
        del self._undo[:writes]


@attrs.define(eq=False)
class MemoryStore:
    """`ports.LocalStore` of one process. Once a write or a flush has failed, every use raises."""

    _disk: MemoryDisk
    _process: Process | None
    _clock: Clock | None
    _failed: VirtualLogError | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _flushing: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def get(self, key: bytes) -> bytes | None:
        self._check()
        return self._disk.content.get(key)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        self._check()
        return self._disk.content.scan(span, count)

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        self._check()
        try:
            self._disk.write(changes, dropped)
        except VirtualLogError as error:
            self._failed = error
            raise

    @property
    def is_behind(self) -> bool:
        return self._disk.is_behind

    async def flush(self) -> None:
        async with self._flushing:
            self._check()
            covered = self._disk.unflushed
            await self._pause()
            try:
                self._disk.fail_if_asked()
            except VirtualLogError as error:
                self._failed = error
                raise
            self._disk.flushed(covered)

    def snapshot(self) -> StoreReader:
        self._check()
        return SortedPairs(dict(self._disk.content.pairs))

    async def close(self) -> None:
        """Nothing is flushed by it."""
        self._closed = True
        await trio.lowlevel.checkpoint()

    async def _pause(self) -> None:
        if self._clock is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._clock.sleep(self._disk.flush_seconds)
        self._check()

    def _check(self) -> None:
        if self._process is not None:
            self._process.check()
        if self._closed:
            raise StorageError("the store is closed")
        if self._failed is not None:
            raise StorageError(f"the store failed before: {self._failed}")
