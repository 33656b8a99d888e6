"""The KeyValues port on a simulated disk: slow, failing and damaged on request; what was written survives a crash.

    disk = SimulatedKeyValuesDisk(random)           lives as long as the machine's disk
    store = disk.open(process, clock)               lives as long as the process

A write that is under way when the process crashes, or whose caller is cancelled, happens wholly or not at all; which of
the two is drawn. It is drawn at the latest when the disk is opened again, so no later life sees it undecided.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import attrs
import trio

from virtuallog.errors import StorageError
from virtuallog.ports import Clock
from virtuallog.testing.process import Process

_Changes = Mapping[bytes, bytes | None]


@attrs.define(eq=False)
class SimulatedKeyValuesDisk:
    """What survives a crash, and the faults to inject."""

    random: random.Random
    write_seconds: float = 0.0
    """How long a write takes, on the writer's clock."""
    writes: int = attrs.field(default=0, init=False)
    """Writes that were begun."""
    pairs: dict[bytes, bytes] = attrs.field(factory=dict, init=False)
    """What is on the disk; tests may look at it and change it."""
    _under_way: list[_Changes] = attrs.field(factory=list, init=False)
    _fail_in: int | None = attrs.field(default=None, init=False)

    def open(self, process: Process, clock: Clock) -> SimulatedKeyValues:
        """The store as a process sees it. Only one process may use a disk at a time; the one before is dead."""
        self.crash()
        return SimulatedKeyValues(self, process, clock)

    def crash(self) -> None:
        """Settle the writes that were under way. Safe to call again; the process itself must be crashed first."""
        under_way, self._under_way = self._under_way, []
        for changes in under_way:
            self._settle(changes)

    def fail_write(self, after: int = 0) -> None:
        """The write after the next `after` ones fails, and with it everything that this life asks for later."""
        self._fail_in = after

    def mend(self) -> None:
        """Call off a failure that has not happened yet."""
        self._fail_in = None

    def wipe(self) -> None:
        """Somebody replaced the disk. The process must be dead."""
        self.pairs.clear()
        self._under_way.clear()

    def damage(self, key: bytes) -> None:
        """Flip one bit of the value of `key`."""
        value = bytearray(self.pairs[key])
        value[self.random.randrange(len(value))] ^= 1 << self.random.randrange(8)
        self.pairs[key] = bytes(value)

    def begin(self, changes: _Changes) -> bool:
        """A write starts; returns whether it will fail. For the store."""
        self.writes += 1
        self._under_way.append(changes)
        if self._fail_in is None:
            return False
        self._fail_in -= 1
        if self._fail_in >= 0:
            return False
        self._fail_in = None
        return True

    def end(self, changes: _Changes, *, failed: bool) -> None:
        """The write is over, unless a crash has settled it before. For the store."""
        for index, pending in enumerate(self._under_way):
            if pending is changes:
                del self._under_way[index]
                if failed:
                    self._settle(changes)
                else:
                    self._apply(changes)
                return

    def _settle(self, changes: _Changes) -> None:
        if self.random.random() < 0.5:
            self._apply(changes)

    def _apply(self, changes: _Changes) -> None:
        for key, value in changes.items():
            if value is None:
                self.pairs.pop(key, None)
            else:
                self.pairs[key] = value


@attrs.define(eq=False)
class SimulatedKeyValues:
    """`ports.KeyValues` of one process. Every use after a crash raises `CrashedError`, after a failure `StorageError`."""

    _disk: SimulatedKeyValuesDisk
    _process: Process
    _clock: Clock
    _poisoned: bool = attrs.field(default=False, init=False)
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Operations happen one after the other, as in the real store."""

    async def get(self, key: bytes) -> bytes | None:
        async with self._turn:
            await self._ready()
            return self._disk.pairs.get(key)

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        async with self._turn:
            await self._ready()
            return sorted(pair for pair in self._disk.pairs.items() if pair[0].startswith(prefix))

    async def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        async with self._turn:
            await self._ready()
            changes = dict(changes)
            fails = self._disk.begin(changes)
            finished = False
            try:
                await self._clock.sleep(self._disk.write_seconds)
                finished = True
            finally:
                # Also when cancelled: the disk does not know that nobody waits. After a crash the disk itself settles.
                if self._process.alive:
                    self._disk.end(changes, failed=fails or not finished)
            if fails:
                self._poisoned = True
                raise StorageError("injected: the disk failed a write")

    async def _ready(self) -> None:
        await trio.lowlevel.checkpoint()
        await self._process.wait_running()
        if self._poisoned:
            raise StorageError("the store failed before")
