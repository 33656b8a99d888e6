"""Stores that no replica owns: begun with a compaction or with a server's snapshot, and played up to a position of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_database.ports import LocalStore, StoreDirectory
from virtuallog_database.replica.replay import Replay
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.restorer import Restorer
from virtuallog_database.snapshots.transfer import SnapshotSource, fetch
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment

SNAPSHOT_SECONDS: Final = 600.0
"""Timeout for a snapshot of a server: gigabytes over a network."""


async def install(directory: StoreDirectory, base: SnapshotSource) -> None:
    """Make a snapshot the store of a directory, whose store is closed.

    Raises:
        UnavailableError, CorruptionError: it cannot be read, or is damaged.
        VirtualLogError: of the disk.
    """
    await fetch(base, directory.staging)
    await directory.staging.install()


async def install_newest_snapshot(directory: StoreDirectory, log: VirtualLog, name: str) -> None:
    """Make the newest snapshot of any server the store of a directory, whose store is closed. If the log has its
    beginning and no server has a snapshot, the store is left as it is: an empty one will do.

    Args:
        directory: a private directory.
        log: log of the cluster; its services must know `SNAPSHOTS`.
        name: name of the caller, for which the server holds the log for a while.

    Raises:
        UnavailableError: no server gave one in time.
        VirtualLogError: of the disk, and of the log.
    """
    restorer = await snapshot_restorer(directory, log, name)
    with log.view.environment.clock.timeout(SNAPSHOT_SECONDS) as scope:
        if await restorer.known_trim_point() == 0 and not await _is_offered(restorer):
            return
        await restorer.restore()
    if scope.cancelled_caught:
        raise UnavailableError(restorer.waiting_for or "no snapshot came in time")


async def snapshot_restorer(directory: StoreDirectory, log: VirtualLog, name: str) -> Restorer:
    """A restorer of snapshots of servers. Arguments as of `install_newest_snapshot`."""
    environment, register = log.view.environment, await log.view.current()
    return Restorer(
        directory=directory,
        services=environment.services,
        clock=environment.clock,
        random=environment.random,
        cluster=register.cluster,
        replica=name,
        peers=lambda: sorted(register.nodes),
        trim_point=log.find_trim_point,
        meter=SnapshotMetrics(),
    )


async def _is_offered(restorer: Restorer) -> bool:
    try:
        await restorer.newest_offer(LogPosition(0))
    except UnavailableError:
        return False
    return True


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
