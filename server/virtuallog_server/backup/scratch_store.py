"""Scratch stores: states of a database in private directories, made from a backup or from a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog.contract.metrics import Counter
from virtuallog.contract.ports import Clock
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.core.state_digests import differences, state_digest_of
from virtuallog_database.engines.stack import KNOWN
from virtuallog_database.ports import LocalStore, StoreReader
from virtuallog_database.rocks.directory import RocksDirectory, open_store_directory
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_source import CompactionSource
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.played_store import install
from virtuallog_database.snapshots.restorer import Restorer
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace


@asynccontextmanager
async def scratch_directory(path: Path) -> AsyncIterator[RocksDirectory]:
    """A directory of a store, new or of a former run; closed at the end of the block."""
    directory = await open_store_directory(path)
    try:
        yield directory
    finally:
        with trio.CancelScope(shield=True):  # ends soon; otherwise the directory stays locked while the process lives
            await directory.close()


async def open_saved_state(
    directory: RocksDirectory, place: BackupPlace, manifest: BackupManifest, clock: Clock
) -> LocalStore:
    """Open a new store with the state that a backup begins with; an empty one if it begins at 0.

    Raises:
        CorruptionError: the state is damaged or missing.
        VirtualLogError: as `Files`, and of the disk.
    """
    if manifest.state is not None:
        await install_state(directory, place.states, await place.read_state(manifest), clock)
    store = await directory.open()
    if read_cursor(store) != manifest.start:
        raise CorruptionError(f"the state of backup {manifest.number} stands at {read_cursor(store)}, not at its start")
    return store


async def install_state(directory: RocksDirectory, place: CompactionStore, state: Manifest, clock: Clock) -> None:
    """Make a published state the store of a directory, whose store is closed.

    Raises:
        BinaryTooOldError: it uses an engine that this program does not know.
        CorruptionError: a file is damaged or missing.
        VirtualLogError: as `Files`, and of the disk.
    """
    state.check(state.cluster, KNOWN)
    fetched = Counter("backup_fetched_bytes", "Bytes of states.")
    try:
        await install(directory, CompactionSource(place=place, manifest=state, clock=clock, fetched=fetched))
    except UnavailableError as error:
        raise CorruptionError(f"the state at {state.position}: {error}") from error


async def open_newest_snapshot(directory: RocksDirectory, log: VirtualLog, name: str) -> LocalStore:
    """Open a store with the newest snapshot of any server. An empty one if no server has one and the log has its
    beginning.

    Args:
        directory: directory of the store, which is closed. Its content is replaced.
        log: log of the cluster; its services must know `SNAPSHOTS`.
        name: name of the caller, for which the server holds the log for a while.

    Raises:
        UnavailableError: the log was trimmed, and no server gave a snapshot.
        VirtualLogError: of the disk.
    """
    restorer, trim_point = await snapshot_restorer(directory, log, name), await log.find_trim_point()
    try:
        source = await restorer.newest_offer(trim_point)
    except UnavailableError:
        if trim_point > 0:
            raise
    else:
        await install(directory, source)
    return await directory.open()


async def snapshot_restorer(directory: RocksDirectory, log: VirtualLog, name: str) -> Restorer:
    """A restorer of snapshots of servers. Arguments as of `open_newest_snapshot`."""
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


def check_digests(state: StoreReader, manifest: BackupManifest) -> None:
    """Compare a state with that which a backup has recorded for its end.

    Raises:
        CorruptionError: they differ; says in which parts.
    """
    if wrong := differences(state_digest_of(state).finish(), manifest.digests):
        reason = f"the state at {manifest.stop} is not the one of backup {manifest.number}"
        raise CorruptionError(f"{reason}: {', '.join(wrong)} differ")
