"""States of databases at a place: the files of a store, uploaded, read back, and published as a compaction.

They are without tables of Parquet, so neither Arrow nor Spark is needed. Servers, and `virtuallog spark restore`,
take them like any other compaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.worker import Worker
from virtuallog_database.engines.core.enabled_engines import switches
from virtuallog_database.engines.core.inherited_state import inherited, pairs_within
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.core.state_digests import StateDigest
from virtuallog_database.ports import CheckpointFile, LocalStore, StoreDirectory, StoreReader
from virtuallog_database.rocks.tables import assemble, split_pairs, write_table
from virtuallog_database.snapshots.compaction_manifest import Manifest, StoreFile
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_loglets.archive.config import join

TABLE_BYTES: Final = 16 << 20
"""Bytes of keys and values in one table of a made store: as in files of other stores."""
_CHECKPOINT: Final = "backup"

ReadFile = Callable[[CheckpointFile], Awaitable[bytes]]
"""Reads one file of a store, all of it."""


@attrs.frozen(kw_only=True)
class StateDescription:
    """A state to be published."""

    cluster: bytes
    position: LogPosition
    time_ms: int
    engines: tuple[str, ...]
    digest: StateDigest


async def upload_store(
    place: CompactionStore, directory: StoreDirectory, store: LocalStore, cluster: bytes, time_ms: int
) -> Manifest:
    """Publish the whole state of an open store, as it is now. On return every file of it was read back.

    Args:
        place: target location.
        directory: directory of the store.
        store: nothing may write to it meanwhile.
        cluster: cluster whose state it is.
        time_ms: wall-clock time of its last entry; 0 if unknown.

    Raises:
        CorruptionError: a file was not read back as it was written.
        VirtualLogError: as `Files`, and of the disk; nothing is published.
    """
    checkpoints = directory.checkpoints
    await checkpoints.remove(_CHECKPOINT)
    await checkpoints.take(_CHECKPOINT)

    async def read(file: CheckpointFile) -> bytes:
        return await checkpoints.read(_CHECKPOINT, file.name, 0, file.size)

    digest = StateDigest()
    digest.add(pairs_within(store))
    on = tuple(sorted(name for name, is_on in switches(store).items() if is_on))
    described = StateDescription(
        cluster=cluster, position=read_cursor(store), time_ms=time_ms, engines=on, digest=digest
    )
    manifest = await _publish(place, described, await checkpoints.files(_CHECKPOINT), read)
    await checkpoints.remove(_CHECKPOINT)
    return manifest


async def upload_inherited(
    place: CompactionStore, state: StoreReader, cluster: bytes, time_ms: int, work: Path
) -> Manifest:
    """Publish the part of a state that a new cluster begins with. On return every file of it was read back.

    Args:
        place: target location.
        state: state of the former cluster.
        cluster: the new cluster.
        time_ms: wall-clock time of its last entry; 0 if unknown.
        work: private directory, which does not exist yet; the one above does.

    Raises: as `upload_store`.
    """
    worker = Worker("tables of a restored state")
    try:
        return await _upload_tables(place, state, cluster, time_ms, work, worker)
    finally:
        worker.stop()


async def _upload_tables(
    place: CompactionStore, state: StoreReader, cluster: bytes, time_ms: int, work: Path, worker: Worker
) -> Manifest:
    digest, tables = StateDigest(), list[Path]()
    await worker.do(work.mkdir)
    for pairs in split_pairs(inherited(state), TABLE_BYTES):
        tables.append(work / f"{len(tables):06d}.sst")
        await worker.do(partial(write_table, tables[-1], pairs))
        digest.add(pairs)
    files = await worker.do(partial(assemble, work / "store", tables))

    async def read(file: CheckpointFile) -> bytes:
        return await worker.do((work / "store" / file.name).read_bytes)

    described = StateDescription(
        cluster=cluster, position=read_cursor(state), time_ms=time_ms, engines=(), digest=digest
    )
    return await _publish(place, described, files, read)


async def check_files(place: CompactionStore, manifest: Manifest) -> None:
    """Read every file of a state.

    Raises:
        CorruptionError: one is damaged or missing; says which.
        VirtualLogError: as `Files`.
    """
    files = place.files(manifest.cluster, manifest.position)
    for each in manifest.store:
        content = await files.read_range(each.stored, 0, each.file.size + 1)
        if content is None or (len(content), crc32c(content)) != (each.file.size, each.file.checksum):
            raise _unusable(place, manifest, each, "missing" if content is None else "not what its checksum says")


async def check_sizes(place: CompactionStore, manifest: Manifest) -> None:
    """Check that every file of a state is there, by one request. Errors as `check_files`."""
    found = await place.files(manifest.cluster, manifest.position).list()
    for each in manifest.store:
        if found.get(each.stored) != each.file.size:
            raise _unusable(place, manifest, each, "not as long as it was" if each.stored in found else "missing")


def _unusable(place: CompactionStore, manifest: Manifest, file: StoreFile, what: str) -> CorruptionError:
    url = join(place.location(manifest.cluster, manifest.position), file.stored)
    return CorruptionError(f"{url}, of the state at {manifest.position}, is {what}")


async def _publish(
    place: CompactionStore, described: StateDescription, files: Sequence[CheckpointFile], read: ReadFile
) -> Manifest:
    stored = list[StoreFile]()
    for file in files:
        stem, suffix = Path(file.name).stem, Path(file.name).suffix
        name = await place.write_file(described.cluster, described.position, stem, await read(file), suffix)
        stored.append(StoreFile(file, name))
    manifest = Manifest(
        cluster=described.cluster,
        position=described.position,
        time_ms=described.time_ms,
        engines=described.engines,
        pairs=described.digest.pairs,
        digests=described.digest.finish(),
        store=tuple(stored),
        tables=(),
        writer=f"virtuallog {version('virtuallog')}",
    )
    if described.position not in await place.positions(described.cluster):
        await check_files(place, manifest)
    published = await place.publish(manifest)
    if published.digests != manifest.digests:
        raise CorruptionError(f"another state at {manifest.position} is at {place.url} already")
    await check_files(
        place, published
    )  # that of a former run, or of a faster one, which has removed the files of this one
    await _remove_others(place, published)
    return published


async def _remove_others(place: CompactionStore, manifest: Manifest) -> None:
    """Remove files of attempts that do not count."""
    files, named = place.files(manifest.cluster, manifest.position), {each.stored for each in manifest.store}
    named |= {table.stored for table in manifest.tables}
    for name in await files.list():
        if name not in named:
            await files.delete(name)
