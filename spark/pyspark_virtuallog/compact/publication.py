"""Publication: assembles the tables of tasks into a store, compares it with that of the replay, and
publishes a compaction.

The tables of a compaction become files of its store unchanged: RocksDB ingests them without
rewriting one. Only the few kilobytes that RocksDB needs besides are uploaded here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import attrs
from crc32c import crc32c

from pyspark_virtuallog.compact.merge import WrittenTable
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.state_digests import StateDigest, differences
from virtuallog_database.ports import CheckpointFile
from virtuallog_database.rocks.tables import assemble, pairs_of
from virtuallog_database.snapshots.compaction_manifest import Manifest, StoreFile, Table
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_loglets.archive.drivers.files import Files


@attrs.frozen(kw_only=True)
class ReplayedState:
    """Result of the replay, which the compaction must equal."""

    cluster: bytes
    position: LogPosition
    time_ms: int
    engines: tuple[str, ...]
    """Engines enabled there."""
    digests: Mapping[str, str]
    pairs: int


async def publish(
    place: CompactionStore, played: ReplayedState, written: Sequence[WrittenTable], work: Path
) -> Manifest:
    """Publish a compaction; on return every file of it has been read back.

    Args:
        place: location of its files.
        played: the expected state.
        written: its tables, in order of their keys.
        work: private directory; removed in the end.

    Raises:
        CorruptionError: the tables differ from the replay; nothing is published.
        VirtualLogError: as `Files`, and of the disk.
    """
    files = place.files(played.cluster, played.position)
    try:
        _make(work)
        _check_order(written)
        paths = [await _fetched(files, each, work / f"{number:06d}.sst") for number, each in enumerate(written)]
        store = assemble(work / "store", paths)
        _check_pairs(work / "store", played)
        tables = [await _checked(files, each) for each in written]
        names = {(each.sst_bytes, each.sst_checksum): each.sst for each in written}
        manifest = Manifest(
            cluster=played.cluster,
            position=played.position,
            time_ms=played.time_ms,
            engines=played.engines,
            pairs=played.pairs,
            digests=played.digests,
            store=tuple([await _stored(place, played, work / "store", file, names) for file in store]),
            tables=tuple(tables),
            writer=f"virtuallog {version('virtuallog')}",
        )
        published = await place.publish(manifest)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    await _remove_others(files, published)
    return published


def _check_order(written: Sequence[WrittenTable]) -> None:
    for former, each in pairwise(written):
        if former.last >= each.first:
            raise CorruptionError(f"two tables overlap: at {former.last.hex()} and {each.first.hex()}")


async def _fetched(files: Files, each: WrittenTable, path: Path) -> Path:
    _save(path, await _content(files, each.sst, each.sst_bytes, each.sst_checksum))
    return path


def _make(folder: Path) -> None:
    """Create the directory empty: its content is a killed run's."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _save(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def _checked(files: Files, each: WrittenTable) -> Table:
    await _content(files, each.table, each.table_bytes, each.table_checksum)
    return Table(each.table, each.table_bytes, each.table_checksum, each.pairs, each.first, each.last)


async def _content(files: Files, name: str, size: int, checksum: int) -> bytes:
    content = await files.read(name)
    if content is None or (len(content), crc32c(content)) != (size, checksum):
        raise CorruptionError(f"{name} is not what a task has written")
    return content


def _check_pairs(store: Path, played: ReplayedState) -> None:
    """Compare all pairs, in the order of RocksDB."""
    fold = StateDigest()
    fold.add(pairs_of(store))
    if wrong := differences(fold.finish(), played.digests):
        raise CorruptionError(f"the state at {played.position} is not that of the replay: {', '.join(wrong)}")


async def _stored(
    place: CompactionStore,
    played: ReplayedState,
    store: Path,
    file: CheckpointFile,
    names: Mapping[tuple[int, int], str],
) -> StoreFile:
    if (name := names.get((file.size, file.checksum))) is not None:
        return StoreFile(file, name)
    path = store / file.name
    stored = await place.write_file(played.cluster, played.position, path.stem, path.read_bytes(), path.suffix)
    return StoreFile(file, stored)


async def _remove_others(files: Files, manifest: Manifest) -> None:
    """Remove files of attempts that do not count."""
    named = {each.stored for each in manifest.store} | {table.stored for table in manifest.tables}
    for name in await files.list():
        if name not in named:
            await files.delete(name)
