"""The DurableMap port on a simulated disk: slow, failing and damaged on request. Finished writes
survive a crash.

    disk = SimulatedKeyValuesDisk(random)           lives as long as the machine's disk
    store = disk.open(process, clock)               lives as long as the process

Faults come from `DiskFaults`, as for the files of the same machine, or from a test. The first
failure ends the store for the life of its process, as in the real one. If a failed write happened
is drawn.

A write that is in progress when the process crashes, or when its caller is cancelled, happens
wholly or not at all; which of the two is drawn. It is drawn at the latest when the disk is opened
again, so no later life sees it undecided.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import StorageError, VirtualLogError
from virtuallog.contract.ports import Changes, Clock, CutChanges, Span
from virtuallog.runtime.end_of_turn import end_of_turn
from virtuallog.testing.sim.disk_faults import DiskFaults
from virtuallog.testing.sim.process import CrashedError, Process

HEADROOM_BYTES: Final = 200 << 10
"""Free bytes of a simulated disk, which is small, below which there is no room for bulk."""


@attrs.define(eq=False)
class SimulatedKeyValuesDisk:
    """The part of a store that survives a crash, and the faults to inject.

    `fired` counts the faults that really happened: store write error, store sync error, store read
    error, store full, store bit flipped.
    """

    random: random.Random
    write_seconds: float = 0.0
    """Duration of a write on the writer's clock, in addition to the faults."""
    faults: DiskFaults = attrs.field(factory=DiskFaults)
    """Faults. `create_error`, `change_seconds` and `capacity_bytes` have no effect here."""
    fired: Counter[str] = attrs.field(factory=Counter)
    watch: Callable[[str], None] | None = None
    """Called with a description of everything that has become durable; None for no calls."""
    stored: Callable[[Changes], None] | None = None
    """Called with all pairs and deletions that have become durable, for observers. Must change
    nothing. None for no calls."""
    writes: int = attrs.field(default=0, init=False)
    """Number of writes that were begun."""
    pairs: dict[bytes, bytes] = attrs.field(factory=dict, init=False)
    """Content of the disk; tests may look at it and change it."""
    _under_way: list[Changes] = attrs.field(factory=list, init=False)
    _writers: list[trio.CancelScope] = attrs.field(factory=list, init=False)
    """Scopes of writes without a caller that waits."""
    _fail_in: int | None = attrs.field(default=None, init=False)
    _is_made: bool = attrs.field(default=False, init=False)

    @property
    def has_room(self) -> bool:
        return self.faults.free_bytes is None or self.faults.free_bytes >= HEADROOM_BYTES

    def keys_in(self, span: Span) -> list[bytes]:
        """Return the keys of a span that are on the disk, in order."""
        start, stop = span
        return sorted(key for key in self.pairs if start <= key < stop)

    @property
    def is_made(self) -> bool:
        """True if there is a store, possibly an empty one."""
        return self._is_made or bool(self.pairs)

    def open(self, process: Process, clock: Clock) -> SimulatedKeyValues:
        """Open the store for a process. Only one process may use a disk at a time; the one before
        is dead."""
        self.crash()
        self._is_made = True
        return SimulatedKeyValues(self, process, clock)

    def crash(self) -> None:
        """Settle the writes that were in progress. Safe to call again; the process itself must be
        crashed first."""
        under_way, self._under_way = self._under_way, []
        for changes in under_way:
            self._settle(changes)
        writers, self._writers = self._writers, []
        for scope in writers:
            scope.cancel()

    def fail_write(self, after: int = 0) -> None:
        """Make the write after the next `after` ones fail, and with it every later operation of
        this life."""
        self._fail_in = after

    def mend(self) -> None:
        """Call off a failure that has not happened yet."""
        self._fail_in = None

    def wipe(self) -> None:
        """Replace the disk by an empty one. The process must be dead."""
        self.pairs.clear()
        self._under_way.clear()
        self._is_made = False

    def damage(self, key: bytes) -> None:
        """Flip one bit of the value of `key`."""
        value = bytearray(self.pairs[key])
        value[self.random.randrange(len(value))] ^= 1 << self.random.randrange(8)
        self.pairs[key] = bytes(value)

    def rot(self) -> bytes | None:
        """Flip one bit of some value; return its key, None if there is nothing to flip."""
        keys = sorted(key for key, value in self.pairs.items() if value)
        if not keys:
            return None
        key = self.random.choice(keys)
        self.damage(key)
        self.fired["store bit flipped"] += 1
        return key

    @contextmanager
    def until_crash(self) -> Iterator[None]:
        """End the block at a crash. For the store."""
        with trio.CancelScope() as scope:
            self._writers.append(scope)
            try:
                yield
            finally:
                if scope in self._writers:
                    self._writers.remove(scope)

    def begin(self, changes: Changes) -> str:
        """Begin a write; return the reason why it will fail, or "". For the store."""
        self.writes += 1
        self._under_way.append(changes)
        if self._fail_in is not None:
            self._fail_in -= 1
            if self._fail_in < 0:
                self._fail_in = None
                return "injected: the disk failed a write"
        faults = self.faults
        if not faults.take_room(sum(len(key) + len(value or b"") for key, value in changes.items())):
            self.fired["store full"] += 1
            return "the disk is full"
        if self.fires(faults.write_error, "store write error") or self.fires(faults.sync_error, "store sync error"):
            return "the disk failed a write"
        return ""

    def fires(self, probability: float, name: str) -> bool:
        """Draw a fault; draws nothing if it cannot happen. For the store."""
        if probability > 0 and self.random.random() < probability:
            self.fired[name] += 1
            return True
        return False

    def duration_seconds(self) -> float:
        """Return the duration of the next write. For the store."""
        shortest, longest = self.faults.write_seconds
        return self.write_seconds + (self.random.uniform(shortest, longest) if longest else 0.0)

    def end(self, changes: Changes, *, failed: bool) -> None:
        """End a write, unless a crash has settled it before. For the store."""
        for index, pending in enumerate(self._under_way):
            if pending is changes:
                del self._under_way[index]
                if failed:
                    self._settle(changes)
                else:
                    self._apply(changes)
                return

    def _settle(self, changes: Changes) -> None:
        if self.random.random() < 0.5:
            self._apply(changes)

    def _apply(self, changes: Changes) -> None:
        for key, value in changes.items():
            if value is None:
                self.pairs.pop(key, None)
            else:
                self.pairs[key] = value
        if self.stored is not None:
            self.stored(changes)
        if self.watch is not None:
            sizes = (
                f"{key!r} {'deleted' if value is None else f'({len(value)} bytes)'}" for key, value in changes.items()
            )
            self.watch(", ".join(sizes))


@attrs.define(eq=False)
class SimulatedKeyValues:
    """`ports.DurableMap` of one process. Every use after a crash raises `CrashedError`, after a failure `StorageError`."""

    _disk: SimulatedKeyValuesDisk
    _process: Process
    _clock: Clock
    _poisoned: bool = attrs.field(default=False, init=False)
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Operations happen one after the other, as in the real store."""

    async def get(self, key: bytes) -> bytes | None:
        async with self._turn:
            await self._ready_to_read()
            return self._disk.pairs.get(key)

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        async with self._turn:
            await self._ready_to_read()
            return sorted(pair for pair in self._disk.pairs.items() if pair[0].startswith(prefix))

    @property
    def has_room(self) -> bool:
        return self._disk.has_room

    async def scan_span(self, span: Span, max_bytes: int) -> list[tuple[bytes, bytes]]:
        async with self._turn:
            await self._ready_to_read()
            found: list[tuple[bytes, bytes]] = []
            for key in self._disk.keys_in(span):
                pair = key, self._disk.pairs[key]
                max_bytes -= len(key) + len(pair[1])
                if found and max_bytes < 0:
                    break
                found.append(pair)
            return found

    async def write(self, changes: Changes, dropped: Sequence[Span] = ()) -> None:
        async with self._turn:
            await self._ready()
            changes = self._with_dropped(changes, dropped)
            failure = self._disk.begin(changes)
            finished = False
            try:
                await self._clock.sleep(self._disk.duration_seconds())
                finished = True
            finally:
                # Also when cancelled: the disk does not know that no task waits. After a crash the
                # disk itself settles.
                if self._process.alive:
                    self._disk.end(changes, failed=bool(failure) or not finished)
            if failure:
                self._poisoned = True
                raise StorageError(failure)

    def write_soon(self, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        disk, context = self._disk, copy_context()  # the caller's, so that all of it is done by the caller's process
        if disk.faults.prompt and disk.random.random() < disk.faults.prompt:
            end_of_turn().put_last(partial(context.run, self._write_now, cut, done))
        else:
            self._spawn(context, cut, done)

    def _spawn(self, context: Context, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        trio.lowlevel.spawn_system_task(self._write, cut, done, context=context)

    def _write_now(self, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        """Write on the event loop, as a `SyncWorker` does."""
        end = end_of_turn()
        if not end.may_wake or self._turn.locked():
            end.later(partial(self._spawn, copy_context(), cut, done))
            return
        failure: VirtualLogError | None = StorageError("this life of the store has ended")
        with suppress(CrashedError):
            failure = self._write_at_once(*cut())
        with suppress(CrashedError):
            done(failure)
        end.flush()

    def _write_at_once(self, changes: Changes, dropped: Sequence[Span]) -> StorageError | None:
        self._process.check()
        if self._poisoned:
            return StorageError("the store failed before")
        changes = self._with_dropped(changes, dropped)
        failure = self._disk.begin(changes)
        self._disk.end(changes, failed=bool(failure))
        self._poisoned = bool(failure)
        return StorageError(failure) if failure else None

    def _with_dropped(self, changes: Changes, dropped: Sequence[Span]) -> Changes:
        return {**{key: None for span in dropped for key in self._disk.keys_in(span)}, **changes}

    async def _write(self, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        """Write without a caller that waits. A process that dies meanwhile notices nothing of it."""
        failure: VirtualLogError | None = StorageError("this life of the store has ended")
        with self._disk.until_crash(), suppress(CrashedError):
            try:
                await self.write(*cut())
                failure = None
            except StorageError as error:
                failure = error
        with suppress(CrashedError):
            done(failure)

    async def reclaim(self, span: Span) -> None:
        """Do nothing: dropped keys take no room here."""
        await self._ready()

    async def _ready(self) -> None:
        await trio.lowlevel.checkpoint()
        await self._process.wait_running()
        if self._poisoned:
            raise StorageError("the store failed before")

    async def _ready_to_read(self) -> None:
        await self._ready()
        if self._disk.fires(self._disk.faults.read_error, "store read error"):
            self._poisoned = True
            raise StorageError("the disk failed a read")
