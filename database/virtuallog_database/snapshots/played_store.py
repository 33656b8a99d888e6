"""Stores that no replica owns: begun with a compaction, and played up to a position of the log."""

from __future__ import annotations

from collections.abc import Callable

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_database.ports import LocalStore, StoreDirectory
from virtuallog_database.replica.replay import Replay
from virtuallog_database.snapshots.transfer import SnapshotSource, fetch
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment


async def install(directory: StoreDirectory, base: SnapshotSource) -> None:
    """Make a snapshot the store of a directory, whose store is closed.

    Raises:
        UnavailableError, CorruptionError: it cannot be read, or is damaged.
        VirtualLogError: of the disk.
    """
    await fetch(base, directory.staging)
    await directory.staging.install()


async def play_up_to(
    store: LocalStore,
    reading: ReadableSegment,
    position: LogPosition,
    tell: Callable[[int], None] = lambda position: None,
) -> int:
    """Bring a store to a position, durably. Returns the wall-clock time of the last played entry,
    in milliseconds; 0 if there was none.

    Raises:
        InvalidSettingError: the store is past the position.
        CorruptionError: a part of the log is lost.
        BinaryTooOldError: the database uses an engine that this program does not know.
        VirtualLogError: as the reading, and the store; what was played stays.
    """
    replay = Replay(store)
    if replay.cursor > position:
        raise InvalidSettingError("store", f"has applied the log up to {replay.cursor}, and {position} is wanted")
    time_ms = await play_on(replay, reading, position, tell)
    await store.flush()
    return time_ms


async def play_on(
    replay: Replay,
    reading: ReadableSegment,
    position: LogPosition,
    tell: Callable[[int], None] = lambda position: None,
    is_enough: Callable[[], bool] = lambda: False,
) -> int:
    """Play the log up to a position, or until `is_enough` says so behind an entry. Returns as `play_up_to`, and raises
    what that raises."""
    store, time_ms = replay.store, 0
    while replay.cursor < position and not is_enough():
        found = await reading.read(replay.cursor, position)
        for _ in replay.play(found):
            if store.is_behind:
                await store.flush()
            if is_enough():
                break
        times = [placed.time_ms for placed in found if isinstance(placed, PlacedBatch)]
        time_ms = times[-1] if times else time_ms
        tell(replay.cursor)
    return time_ms
