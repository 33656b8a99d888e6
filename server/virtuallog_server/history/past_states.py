"""States of a database at positions of the past, in scratch stores: the newest snapshot before it, and the log from there on.

    live snapshot | state of a backup | empty tree     the newest of them that is not past the position
            -> scratch store in a temporary directory -> log played up to the position

The servers answer reads of snapshots and of the log. A hold, which has an end, keeps the log for the time of the job.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import TooLargeError, TrimmedError, UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog.runtime import log
from virtuallog.runtime.scratch_folder import scratch_folder
from virtuallog_database.control.client import place_hold, release_hold
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.errors import NoPastStateError, SnapshotNeededError
from virtuallog_database.ports import LocalStore
from virtuallog_database.replica.replay import Replay
from virtuallog_database.rocks.directory import RocksDirectory
from virtuallog_database.snapshots.messages import hold_name
from virtuallog_database.snapshots.played_store import install, play_on, snapshot_restorer
from virtuallog_database.snapshots.transfer import SnapshotSource
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.retried_files import ATTEMPTS_MAX, retried
from virtuallog_server.backup.scratch_store import install_state, scratch_directory
from virtuallog_server.history.core.reach import newest_start
from virtuallog_server.history.core.rows import ROWS_BYTES_MAX
from virtuallog_server.history.past_log import PastLog
from virtuallog_server.history.read_pace import PacedSnapshot, ReadPace

HOLD_SECONDS: Final = 3600.0
"""Seconds for which the log is held for one job; it is released at the end."""
RELEASE_SECONDS: Final = 5.0
"""Longest wait for the release of a hold: without it the hold ends by itself."""
SNAPSHOTS_KEPT_MAX: Final = 16
"""Most snapshots that are looked for at each server, from the newest one backwards. Servers keep two."""
LOOK_SECONDS: Final = 1.0
"""Interval between two looks at the size of the scratch directory: it grows by some 20 MB in that time."""

PastProgress = Callable[[str, int], None]
"""Callback for progress: the present step, and the position up to which it is done."""


@attrs.frozen(kw_only=True)
class ScratchSettings:
    """Bounds of a job."""

    bytes_per_second: float = 16e6
    """Most bytes that are read from the cluster in a second, of the log and of snapshots together."""
    disk_bytes: int = 8 << 30
    """Most bytes of scratch files."""
    answer_bytes: int = ROWS_BYTES_MAX
    """Most bytes of the values and ACLs in an answer, but for one row."""
    folder: Path | None = None
    """Folder for the scratch directory. None for the system's temporary one."""


@attrs.define(eq=False, kw_only=True)
class PastStates:
    """Makes states of one log."""

    log: VirtualLog
    """The live log; its services must know `DATABASE` and `SNAPSHOTS`."""
    past: PastLog
    place: BackupPlace | None
    pace: ReadPace
    settings: ScratchSettings
    tell: PastProgress
    _name: str = attrs.field(init=False)
    """Name of this job in holds."""

    def __attrs_post_init__(self) -> None:
        self._name = f"history-{self.log.view.environment.random.randbytes(4).hex()}"

    @asynccontextmanager
    async def open(self, position: LogPosition) -> AsyncIterator[ScratchState]:
        """A scratch store with the state at a position. It is deleted at the end of the block.

        Raises:
            NoPastStateError: neither a snapshot nor the log reaches so far back.
            TooLargeError: it would take more disk than is allowed.
            UnavailableError: the cluster does not answer.
            VirtualLogError: as reads of the log and of backups, and of the disk.
        """
        async with self._scratch() as (work, stack):
            state = ScratchState(work, await self._begin(work, stack, position), self, stack)
            replay = Replay(state.store)
            await state.play(replay, position, "playing")
            assert replay.cursor == position, "a state that is not past the position was played up to it"
            yield state

    @asynccontextmanager
    async def open_oldest(self, before: LogPosition) -> AsyncIterator[ScratchState]:
        """As `open`, with the oldest state that can be made. Raises NoPastStateError if it would be past `before`."""
        async with self._scratch() as (work, stack):
            store = await self._begin_oldest(await _opened(stack, work / "store"), before)
            if read_cursor(store) > before:
                raise NoPastStateError(before, f"the oldest one that can be made is that at {read_cursor(store)}")
            yield ScratchState(work, store, self, stack)

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[tuple[Path, AsyncExitStack]]:
        """A scratch directory, while the log is held, and what ends with them."""
        async with AsyncExitStack() as stack:
            work = stack.enter_context(scratch_folder("history", self.settings.folder))
            await stack.enter_async_context(self._holds())
            yield work, stack

    # -- the state to begin with --------------------------------------------------------------------------------------

    async def _begin(self, work: Path, stack: AsyncExitStack, position: LogPosition) -> LocalStore:
        """The nearest state before a position, in a store that is closed with the stack."""
        at_most = position
        while True:
            async with AsyncExitStack() as own:
                directory = await _opened(own, work / "store")
                store, tried = await self._begin_in(directory, position, at_most)
                if read_cursor(store) <= position:
                    stack.push_async_exit(own.pop_all())
                    return store
            # The content of a snapshot may be newer than its position, and a store does not go back.
            shutil.rmtree(work / "store")
            at_most = LogPosition(tried - 1)

    async def _begin_in(
        self, directory: RocksDirectory, position: LogPosition, at_most: LogPosition
    ) -> tuple[LocalStore, int]:
        """The nearest state, of a snapshot up to `at_most` or of a backup, in an empty directory; and its position. That of
        a snapshot may have later effects."""
        begin = self.past.beginning(position)
        saved = newest_start(self.past.saved_states, begin, position)
        offer = await self._offer(directory, begin, at_most, is_needed=saved is None and begin > 0)
        if offer is not None and (saved is None or saved <= offer.offer.position):
            await self._install(directory, offer)
            return await directory.open(), offer.offer.position
        if saved is not None:
            await self._install_saved(directory, saved)
        elif begin > 0:
            reason = f"the log before it can be read from {begin} on, and no snapshot from there on is kept"
            raise NoPastStateError(position, reason)
        return await directory.open(), saved or 0

    async def _begin_oldest(self, directory: RocksDirectory, before: LogPosition) -> LocalStore:
        begin = self.past.beginning(before)
        if begin == 0:
            return await directory.open()
        saved = min((start for start in self.past.saved_states if begin <= start <= before), default=None)
        at_most, oldest = before if saved is None else LogPosition(saved - 1), None
        for _ in range(SNAPSHOTS_KEPT_MAX):
            offer = await self._offer(directory, begin, at_most, is_needed=saved is None and oldest is None)
            if offer is None:
                break
            oldest, at_most = offer, LogPosition(offer.offer.position - 1)
        if oldest is not None:
            await self._install(directory, oldest)
        elif saved is not None:
            await self._install_saved(directory, saved)
        else:
            reason = f"the log before it can be read from {begin} on, and no snapshot from there on is kept"
            raise NoPastStateError(before, reason)
        return await directory.open()

    async def _offer(
        self, directory: RocksDirectory, begin: LogPosition, at_most: LogPosition, *, is_needed: bool
    ) -> SnapshotSource | None:
        """The newest snapshot of a server that is old enough. None if there is none. The server holds the log for it.

        Servers that do not answer are waited for, but not for long if the state can be made without them.
        """
        if at_most <= 0:
            return None
        restorer, attempts = await snapshot_restorer(directory, self.log, self._name), ATTEMPTS_MAX if is_needed else 3
        try:
            return await retried(self.pace.clock, lambda: restorer.newest_offer(begin, at_most), attempts)
        except NoPastStateError:
            return None
        except UnavailableError as error:
            if is_needed:
                raise
            log.warning("the state is made without the snapshots of all servers", reason=str(error))
            return None

    async def _install(self, directory: RocksDirectory, source: SnapshotSource) -> None:
        self.tell("fetching a snapshot", source.offer.position)
        self.check_size(sum(file.size for file in source.offer.files))
        await install(directory, PacedSnapshot(source, self.pace))

    async def _install_saved(self, directory: RocksDirectory, start: int) -> None:
        assert self.place is not None
        manifest = self.past.saved_states[start]
        if manifest.state is not None:
            self.tell("fetching the state of a backup", start)
            self.check_size(manifest.state.bytes)
            await install_state(directory, self.place.states, await self.place.read_state(manifest), self.pace.clock)

    def check_size(self, size: int) -> None:
        """Raise TooLargeError if scratch files of this size are more than is allowed."""
        if size > self.settings.disk_bytes:
            raise TooLargeError(what="bytes of scratch files", size=size, limit=self.settings.disk_bytes)

    # -- holds --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _holds(self) -> AsyncIterator[None]:
        """The live log held from where it begins, and released at the end, with what servers hold for their snapshots."""
        with suppress(TrimmedError):  # it may be trimmed at any moment: a read says so then
            await retried(self.pace.clock, lambda: place_hold(self.log, self._name, self.past.trim_point, HOLD_SECONDS))
        try:
            yield
        finally:
            with self.pace.clock.timeout(RELEASE_SECONDS) as scope:
                scope.shield = True
                for name in (self._name, hold_name(self._name)):
                    with suppress(VirtualLogError):  # it ends by itself
                        await release_hold(self.log, name)


@attrs.define(eq=False)
class ScratchState:
    """A state in a scratch store, which may be played on."""

    _work: Path
    store: LocalStore
    _states: PastStates
    _stack: AsyncExitStack
    """Ends with the state."""

    async def play(
        self, replay: Replay, position: LogPosition, step: str, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Play the log up to a position, or until `is_enough` says so behind an entry.

        Raises: as `PastStates.open`.
        """
        states, clock = self._states, self._states.pace.clock
        looked_at = clock.monotonic()

        def tell(position: int) -> None:
            nonlocal looked_at
            states.tell(step, position)
            if clock.monotonic() >= looked_at + LOOK_SECONDS:
                looked_at = clock.monotonic()
                states.check_size(_size_of(self._work))

        try:
            await play_on(replay, states.past, position, tell, is_enough)
            states.check_size(_size_of(self._work))
        except SnapshotNeededError as error:
            reason = f"the log was trimmed up to {error.first} meanwhile"
            raise NoPastStateError(replay.cursor, reason) from error

    async def another_store(self, name: str) -> LocalStore:
        """One more scratch store, empty, for as long as this one."""
        directory = await self._stack.enter_async_context(scratch_directory(self._work / name))
        return await directory.open()


async def _opened(stack: AsyncExitStack, path: Path) -> RocksDirectory:
    """A scratch directory of a store, closed with the stack."""
    return await stack.enter_async_context(scratch_directory(path))


def _size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # the store merges its files meanwhile
                size += Path(path, name).lstat().st_size
    return size
