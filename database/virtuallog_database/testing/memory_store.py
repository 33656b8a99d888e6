"""The LocalStore port in memory, with crashes: unflushed writes may be lost, in order and never by
halves.

    disk = MemoryDisk()                     lives as long as the machine's disk
    store = disk.open(process, clock)       lives as long as the process
    disk.crash(random)                      after a crash of the process: some of the unflushed writes are gone

`MemoryDisk.failure` injects failures of the disk; the duration of a flush is simulated, too.
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
        """Keys in `span`, in order."""
        start, stop = span
        return self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]

    def change(self, key: bytes, value: bytes | None) -> bytes | None:
        """Put, or delete where the value is None; returns the former value."""
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
    """Content that survives a crash, and failures to inject."""

    flush_seconds: float = 0.0
    """Duration of a flush, on the clock of the process that has the store open."""
    failure: Callable[[], VirtualLogError | None] = lambda: None
    """Called before each write and flush; returns an error to raise, or None."""
    is_behind: bool = False
    """Result of `is_behind` of the store."""
    content: SortedPairs = attrs.field(factory=SortedPairs)
    """Visible content, flushed or not."""
    writes: int = attrs.field(default=0, init=False)
    """Writes so far."""
    _undo: list[dict[bytes, bytes | None]] = attrs.field(factory=list, init=False)
    """Replaced values of each unflushed write, the oldest first."""

    @property
    def unflushed(self) -> int:
        """Number of writes that a crash may take."""
        return len(self._undo)

    def open(self, process: Process | None = None, clock: Clock | None = None) -> MemoryStore:
        """Open the store in a process. Only one may use it at a time: the former one is dead, or
        has closed it."""
        return MemoryStore(self, process, clock)

    def crash(self, chance: random.Random) -> None:
        """Go back to some moment between the last flush and now. The process that uses the disk
        must be dead."""
        keep = chance.randint(0, len(self._undo))
        while len(self._undo) > keep:
            for key, former in self._undo.pop().items():
                self.content.change(key, former)
        self._undo.clear()

    def wipe(self) -> None:
        """Replace the disk by an empty one. The process that used it must be dead."""
        self.content = SortedPairs()
        self._undo.clear()

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span]) -> None:
        """Write to the disk (called by the store)."""
        self.fail_if_asked()
        content = self.content
        undo = {key: content.change(key, None) for span in dropped for key in content.keys(span)}
        for key, value in changes.items():
            former = content.change(key, value)
            undo.setdefault(key, former)
        self._undo.append(undo)
        self.writes += 1

    def fail_if_asked(self) -> None:
        """Raise the injected failure, if any (called by the store)."""
        if (error := self.failure()) is not None:
            raise error

    def flushed(self, writes: int) -> None:
        """Mark the oldest `writes` ones as durable (called by the store)."""
        del self._undo[:writes]


@attrs.define(eq=False)
class MemoryStore:
    """Implements `ports.LocalStore` for one process. Once a write or a flush has failed, every use
    raises."""

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
        """Close without a flush."""
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
