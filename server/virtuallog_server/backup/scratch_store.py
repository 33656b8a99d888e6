"""Scratch stores: states of a database in private directories, made from a backup."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

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
from virtuallog_database.snapshots.played_store import install
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.state_files import check_files, check_sizes


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
        CorruptionError: a file is damaged or missing; says which.
        UnavailableError: the place does not answer.
        VirtualLogError: as `Files`, and of the disk.
    """
    state.check(state.cluster, KNOWN)
    await check_sizes(place, state)
    fetched = Counter("backup_fetched_bytes", "Bytes of states.")
    try:
        await install(directory, CompactionSource(place=place, manifest=state, clock=clock, fetched=fetched))
    except UnavailableError:
        await check_files(place, state)  # a fetch does not tell a file that is damaged from a place that is slow
        raise


def check_digests(state: StoreReader, manifest: BackupManifest) -> None:
    """Compare a state with that which a backup has recorded for its end.

    Raises:
        CorruptionError: they differ; says in which parts.
    """
    if wrong := differences(state_digest_of(state).finish(), manifest.digests):
        reason = f"the state at {manifest.stop} is not the one of backup {manifest.number}"
        raise CorruptionError(f"{reason}: {', '.join(wrong)} differ")
