"""A simulated disk: the `Storage` port without threads or files, with every fault a disk has,
replayable from a seed.

A `Disk` survives crashes; a `SimulatedStorage` is one incarnation of it, as one boot of a process
sees it:

    disk = Disk(random, DiskFaults(sync_error=0.01))
    storage = disk.mount()          # hand this to the product
    disk.crash()                    # power is lost: any further use of `storage` raises
    storage = disk.mount()          # the next boot

Each file is kept twice: `cached` is what reads see, `durable` is what a power loss leaves. A write
changes the cache at once and the durable bytes when its sync completes. A crash in between decides
for every 512-byte sector by itself if it was written: lost, torn, in any order. A later sync never
repairs one that failed (the kernel marks the pages clean), so its bytes may be read now and be gone
after the next crash.

Like the real adapter, an operation is cancelled before it starts or not at all. Time passes only
through the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from random import Random

import attrs
import trio

from virtuallog.contract.errors import (
    DiskFullError,
    InvalidSettingError,
    StorageError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.ports import Clock, Cut
from virtuallog.runtime.end_of_turn import end_of_turn
from virtuallog.testing.sim.disk_content import DiskContent, DiskWrite, put
from virtuallog.testing.sim.disk_faults import SLOW_SECONDS, STALL_SECONDS, DiskFaults
from virtuallog.testing.sim.process import CrashedError

__all__ = ["Disk", "DiskFaults", "SimulatedFile", "SimulatedStorage"]


@attrs.define(eq=False)
class DirectoryChange:
    """A change of the directory in progress: its completion, and its result if the incarnation ends."""

    apply: Callable[[], None]
    apply_torn: Callable[[], None]


class Disk:
    """A disk that outlives processes. Equal seeds and equal use give equal disks.

    For tests: `mount`, `crash`, `kill`, `rot`, `wipe`, `peek`, `overwrite`, `faults`, `fired`. The
    rest is for the storage on it.

    `fired` counts every fault that really happened, by name: write error, sync error, read error,
    create error, disk full, slow, write stalled, unsynced lost, unsynced torn, unsynced kept,
    change lost, change kept, bit flipped, wiped.
    """

    def __init__(
        self,
        random: Random,
        faults: DiskFaults | None = None,
        clock: Clock | None = None,
        fired: Counter[str] | None = None,
    ) -> None:
        """Make an empty disk.

        Args:
            random: decides every fault.
            faults: faults to inject; None for none but what `crash`, `rot` and `wipe` do.
            clock: clock for faults that take time; None if none do.
            fired: counts shared with other disks; None for counts of its own.
        """
        self.faults = faults or DiskFaults()
        self.fired: Counter[str] = Counter() if fired is None else fired
        self.random = random
        self._clock = clock
        self.files: dict[str, DiskContent] = {}
        self.changes: list[DirectoryChange] = []
        self.mounted: SimulatedStorage | None = None
        self.watch: Callable[[str], None] | None = None
        """Called with a description of everything that has become durable; None for no calls."""
        self._pauses: list[trio.CancelScope] = []

    def mount(self) -> SimulatedStorage:
        """Return the next incarnation. The one before must have been closed or have crashed.

        Raises:
            InvalidSettingError: it is still in use.
        """
        if self.mounted is not None:
            raise InvalidSettingError(where="simulated disk", reason="in use by another process")
        self.mounted = SimulatedStorage(self)
        return self.mounted

    def crash(self) -> None:
        """Lose power: unsynced bytes are lost or torn, changes in progress happen or not, the
        incarnation dies."""
        self._end_incarnation()
        for content in self.files.values():
            self.fired += Counter(content.lose_power(self.random))
        changes, self.changes = self.changes, []
        for change in changes:
            kept = self.random.random() < 0.5
            self.fired["change kept" if kept else "change lost"] += 1
            if kept:
                change.apply_torn()

    def kill(self) -> None:
        """End only the process: its finished writes stay in the cache, synced or not; changes in
        progress happen."""
        self._end_incarnation()
        changes, self.changes = self.changes, []
        for change in changes:
            change.apply_torn()

    def rot(self, name: str | None = None, offset: int | None = None) -> tuple[str, int] | None:
        """Flip one bit of a durable byte: the given one, or one with damage that its owner can
        notice (`place_to_rot`).

        Returns:
            The place of the bit; None if there is nothing to flip.
        """
        names = sorted(self.files) if name is None else [name]
        self.random.shuffle(names)
        for chosen in names:
            content = self.files[chosen]
            at = content.place_to_rot(self.random) if offset is None else offset
            if at is not None:
                content.rot(at, 1 << self.random.randrange(8))
                self.fired["bit flipped"] += 1
                return chosen, at
        return None

    def wipe(self) -> None:
        """Replace the disk by an empty one; the incarnation dies."""
        self.clear()
        self.fired["wiped"] += 1

    def clear(self) -> None:
        """Delete everything; the incarnation dies."""
        self._end_incarnation()
        self.files.clear()
        self.changes.clear()

    @property
    def used_bytes(self) -> int:
        return sum(len(content.cached) for content in self.files.values())

    def peek(self, name: str) -> bytes:
        """Return the durable bytes of a file: those that would surely survive a crash now."""
        return bytes(self.files[name].durable)

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Change durable bytes, or make a file, without the owner's knowledge."""
        content = self.files.setdefault(name, DiskContent.zeros(0))
        put(content.durable, offset, data)
        put(content.cached, offset, data)

    def _end_incarnation(self) -> None:
        self.mounted = None
        pauses, self._pauses = self._pauses, []
        for pause in pauses:
            pause.cancel()

    def fires(self, probability: float, name: str) -> bool:
        # Without the fault no number is drawn: adding a fault class does not change the seeds that lack it.
        if probability > 0 and self.random.random() < probability:
            self.fired[name] += 1
            return True
        return False

    def require_room(self, more_bytes: int) -> None:
        capacity = self.faults.capacity_bytes
        if capacity is not None and self.used_bytes + more_bytes > capacity:
            self.fired["disk full"] += 1
            raise DiskFullError(f"{self.used_bytes} of {capacity} bytes are taken; no room for {more_bytes}")
        if not self.faults.take_room(more_bytes):
            self.fired["disk full"] += 1
            raise DiskFullError(f"no room for {more_bytes} bytes")

    def note_durable(self, what: str) -> None:
        if self.watch is not None:
            self.watch(what)

    async def pause(self, seconds: tuple[float, float]) -> None:
        """Take time. Only the end of the incarnation cancels it."""
        if self._clock is None or seconds == (0.0, 0.0):
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        wait = self.random.uniform(*seconds)
        if wait >= SLOW_SECONDS:
            self.fired["slow" if wait < STALL_SECONDS else "write stalled"] += 1
        with trio.CancelScope(shield=True) as scope:
            self._pauses.append(scope)
            await self._clock.sleep(wait)
        if scope in self._pauses:
            self._pauses.remove(scope)


class SimulatedStorage:
    """One incarnation of a `Disk`; the `Storage` port. Made by `Disk.mount`."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    async def names(self) -> list[str]:
        await trio.lowlevel.checkpoint()
        self.require_alive()
        return sorted(self.disk.files)

    async def create(self, name: str, size: int) -> SimulatedFile:
        await self.begin()
        disk, content = self.disk, DiskContent.zeros(size)

        def apply() -> None:
            disk.require_room(size)
            disk.files[name] = content

        def apply_torn() -> None:
            disk.files[name] = DiskContent.zeros(disk.random.choice((0, disk.random.randint(0, size), size)))

        if name in disk.files:
            raise StorageError(f"{name} exists already")
        if disk.fires(disk.faults.create_error, "create error"):
            raise StorageError(f"{name}: cannot be created")
        await self.change(apply, apply_torn)
        disk.note_durable(f"{name} created with {size} bytes")
        return SimulatedFile(self, name, content)

    async def open(self, name: str) -> SimulatedFile:
        await self.begin()
        return SimulatedFile(self, name, self._content(name))

    async def rename(self, old: str, new: str) -> None:
        await self.begin()
        self._content(old)

        def apply() -> None:
            if old in self.disk.files:
                self.disk.files[new] = self.disk.files.pop(old)

        await self.change(apply, apply)
        self.disk.note_durable(f"{old} renamed to {new}")

    async def remove(self, name: str) -> None:
        await self.begin()

        def apply() -> None:
            removed = self.disk.files.pop(name, None)
            if removed is not None:
                self.disk.faults.take_room(-len(removed.cached))

        await self.change(apply, apply)
        self.disk.note_durable(f"{name} removed")

    def close(self) -> None:
        """Give the disk back, as a process does that ends in order."""
        if self.disk.mounted is self:
            self.disk.kill()

    def _content(self, name: str) -> DiskContent:
        if name not in self.disk.files:
            raise StorageError(f"no file {name}")
        return self.disk.files[name]

    def require_alive(self) -> None:
        if self.disk.mounted is not self:
            raise StorageError("this incarnation of the disk has ended")

    async def begin(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        self.require_alive()

    async def change(self, apply: Callable[[], None], apply_torn: Callable[[], None]) -> None:
        change = DirectoryChange(apply, apply_torn)
        self.disk.changes.append(change)
        await self.disk.pause(self.disk.faults.change_seconds)
        self.require_alive()
        self.disk.changes.remove(change)
        apply()


class SimulatedFile:
    """The `File` port on a simulated disk."""

    def __init__(self, storage: SimulatedStorage, name: str, content: DiskContent) -> None:
        self._storage = storage
        self._disk = storage.disk
        self._name = name
        self._content = content
        self._failed = False
        self._closed = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return len(self._content.cached)

    async def write_synced(self, offset: int, chunks: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        write, fails = self._put(offset, chunks)
        await self._disk.pause(self._disk.faults.write_seconds)
        self._sync(write, fails)

    def write_soon(self, cut: Cut, done: Callable[[VirtualLogError | None], None]) -> None:
        faults, random = self._disk.faults, self._disk.random
        context = copy_context()  # the caller's, so that all of it is done by the caller's process
        if faults.prompt and random.random() < faults.prompt:
            end_of_turn().put_last(partial(context.run, self._write_now, cut, done))
        else:
            self._spawn(context, cut, done)

    def _spawn(self, context: Context, cut: Cut, done: Callable[[VirtualLogError | None], None]) -> None:
        trio.lowlevel.spawn_system_task(self._write, cut, done, context=context)

    def _write_now(self, cut: Cut, done: Callable[[VirtualLogError | None], None]) -> None:
        """Write on the event loop, as a `SyncWorker` does."""
        end = end_of_turn()
        if not end.may_wake:
            end.later(partial(self._spawn, copy_context(), cut, done))
            return
        failure: VirtualLogError | None = None
        try:
            self._sync(*self._put(*cut()))
        except VirtualLogError as error:
            failure = error
        except CrashedError:
            pass
        self._called_back(done, failure)
        end.flush()

    async def _write(self, cut: Cut, done: Callable[[VirtualLogError | None], None]) -> None:
        """Write without a caller that waits."""
        failure: VirtualLogError | None = None
        try:
            await self.write_synced(*cut())
        except VirtualLogError as error:
            failure = error
        except CrashedError:
            pass
        self._called_back(done, failure)

    def _called_back(self, done: Callable[[VirtualLogError | None], None], failure: VirtualLogError | None) -> None:
        if self._disk.mounted is not self._storage:
            failure = UnavailableError("this incarnation of the disk has ended")
        with suppress(CrashedError):
            done(failure)

    def _put(self, offset: int, chunks: Sequence[bytes]) -> tuple[DiskWrite, bool]:
        """Write to the cache. Returns the write, and whether it fails."""
        self._require_open()
        # Not a fault of the disk but of its user: the content after a failed sync must not be built
        # upon.
        assert not self._failed, f"{self._name} was written again after a write or a sync had failed"
        disk, data = self._disk, b"".join(chunks)
        disk.require_room(max(0, offset + len(data) - self.size))
        fails = disk.fires(disk.faults.write_error, "write error")
        write = self._content.write(offset, data[: disk.random.randint(0, len(data))] if fails else data)
        write.doomed = fails
        return write, fails

    def _sync(self, write: DiskWrite, fails: bool) -> None:
        """Make a write durable, unless it fails."""
        disk = self._disk
        self._storage.require_alive()
        if fails or disk.fires(disk.faults.sync_error, "sync error"):
            self._failed = write.doomed = True
            raise StorageError(f"{self._name}: the {'write' if fails else 'sync'} failed")
        self._content.sync(write)
        disk.note_durable(f"{self._name} from {write.offset} to {write.offset + len(write.data)}")

    async def read(self, offset: int, length: int) -> bytes:
        await self._begin()
        await trio.lowlevel.cancel_shielded_checkpoint()
        self._storage.require_alive()
        if self._disk.fires(self._disk.faults.read_error, "read error"):
            raise StorageError(f"{self._name}: the read failed")
        return bytes(self._content.cached[offset : offset + length])

    async def truncate(self, size: int) -> None:
        await self._begin()

        def apply() -> None:
            self._disk.faults.take_room(-max(0, self.size - size))
            self._content.truncate(size)

        await self._storage.change(apply, apply)
        self._disk.note_durable(f"{self._name} cut to {size} bytes")

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self._closed = True

    async def _begin(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        self._require_open()

    def _require_open(self) -> None:
        self._storage.require_alive()
        if self._closed:
            raise StorageError(f"{self._name} is closed")
