"""Full backups of a database without a range: the state of a drawn log at a position."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.database.history.drawn_log import START_MS, DrawnLog
from tests.server.backup.places import URL, MemoryPlace
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.replica.replay import Replay
from virtuallog_loglets.archive.core.manifest import checksum
from virtuallog_server.backup.core.manifest import BackupManifest, SavedState
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.scratch_store import scratch_directory
from virtuallog_server.backup.state_files import upload_store

CLUSTER: Final = b"c" * 16


async def saved_state(
    place: MemoryPlace, folder: Path, log: DrawnLog, position: int, number: int = 1
) -> BackupManifest:
    """A full backup, which is not published, with its state, which is."""
    async with scratch_directory(folder / f"saved-{position}") as directory:
        store = await directory.open()
        Replay(store).apply(log.clipped(0, position))
        made = await upload_store(BackupPlace(URL, place).states, directory, store, CLUSTER, START_MS)
        digests = dict(state_digest_of(store).finish())
    blob = await BackupPlace(URL, place).state_blob(CLUSTER.hex(), position)
    assert blob is not None
    state = SavedState(position=position, time_ms=START_MS, pairs=made.pairs, bytes=made.size, checksum=checksum(blob))
    return BackupManifest(
        number=number, base=number, cluster=CLUSTER.hex(), database=True, start=position, stop=position,
        covered_ms=START_MS, digests=digests, state=state, ranges=(), writer="test",
    )  # fmt: skip
