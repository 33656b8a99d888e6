"""Restores the state of a database at a position, and puts it where servers of a new cluster find it.

    store     a directory of RocksDB, as servers have it: the last compaction that is not too new, if there is one, and what the log
              says from there up to the position. Killed anywhere, the next one goes on where the store stands.
    place     the same state, without what engines remember of the former cluster, as a compaction for the new one

The former servers, their holds, reports and backups are not those of the new cluster: its engines begin as they do on an empty log. What
clients have written stays, their sessions included: those that do not come back expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

from database.engines.cursor import read_cursor
from database.engines.digests import EVERYTHING, Fold, differences
from database.engines.keys import CURSOR, ENGINES
from database.ports import CheckpointFile, LocalStore, Reading
from database.replay import Replay
from database.rocks.directory import RocksDirectory
from database.rocks.tables import assemble, pairs_of, write_table
from database.snapshots.compaction import Manifest, StoreFile, Table
from database.snapshots.fetching import fetch
from database.snapshots.place import Place
from database.snapshots.placed import PlacedSource
from loglets.archive.source import Readable
from virtuallog.errors import CorruptionError, InvalidSettingError
from virtuallog.types import LogPosition, PlacedBatch

Pair = tuple[bytes, bytes]
_PAIRS_AT_ONCE: Final = 1024
TABLE_BYTES: Final = 16 << 20
"""Of keys and values in one table: as files of a store are, and what is in memory."""


async def install(directory: RocksDirectory, base: PlacedSource) -> None:
    """Make a compaction the store of a directory, whose store is closed.

    Raises:
        UnavailableError, CorruptionError: it cannot be read, or is damaged.
        VirtualLogError: of the disk.
    """
    await fetch(base, directory.staging)
    await directory.staging.install()


async def play_up_to(
    store: LocalStore, reading: Readable, position: LogPosition, tell: Callable[[int], None] = lambda position: None
) -> int:
    """Bring a store to a position, durably; returns the wall-clock time of the last entry that was played, in milliseconds, 0 if
    there was none.

    Raises:
        InvalidSettingError: the store is past the position.
        CorruptionError: a part of the log is lost.
        BinaryTooOldError: the database uses an engine that this program does not know.
        VirtualLogError: as the reading, and the store; what was played stays.
    """
    replay, time_ms = Replay(store), 0
    if replay.cursor > position:
        raise InvalidSettingError("store", f"has applied the log up to {replay.cursor}, and {position} is wanted")
    while replay.cursor < position:
        found = await reading.read(replay.cursor, position)
        for _ in replay.play(found):
            if store.is_behind:
                await store.flush()
        times = [placed.time_ms for placed in found if isinstance(placed, PlacedBatch)]
        time_ms = times[-1] if times else time_ms
        tell(replay.cursor)
    await store.flush()
    return time_ms


@attrs.define(eq=False, kw_only=True)
class Publishing:
    """Makes the state of a store a compaction of another cluster.

    Args:
        place: where to.
        cluster: the new one.
        work: an empty directory for what is being made.
    """

    place: Place
    cluster: bytes
    work: Path
    _tables: list[Table] = attrs.field(factory=list, init=False)
    _files: list[Path] = attrs.field(factory=list, init=False)
    _fold: Fold = attrs.field(factory=Fold, init=False)

    async def run(self, state: Reading, time_ms: int) -> Manifest:
        """On return it is published, and has been read back.

        Raises:
            CorruptionError: what was made is not what was meant.
            VirtualLogError: as `Files`, and of the disk; there is nothing that anybody would take.
        """
        position = read_cursor(state)
        for pairs in tables(pairs_to_restore(state)):
            await self._add(position, pairs)
        store = self.work / "store"
        files = assemble(store, self._files)
        digests = self._fold.finish()
        self._check(store, digests)
        stored = [StoreFile(file, await self._put(position, store, file)) for file in files]
        manifest = Manifest(
            cluster=self.cluster, position=position, time_ms=time_ms, engines=(), pairs=self._fold.pairs, digests=digests,
            store=tuple(stored), tables=tuple(self._tables), writer=f"virtuallog {version('virtuallog')}",
        )  # fmt: skip
        return await self.place.publish(manifest)

    async def _add(self, position: LogPosition, pairs: Sequence[Pair]) -> None:
        path = self.work / f"{len(self._files):06d}.sst"
        write_table(path, pairs)
        self._files.append(path)
        self._fold.add(pairs)
        content = parquet(pairs)
        stored = await self.place.write_file(self.cluster, position, path.stem, content, ".parquet")
        self._tables.append(
            Table(
                stored=stored, size=len(content), checksum=crc32c(content), pairs=len(pairs),
                first=pairs[0][0], last=pairs[-1][0],
            )
        )  # fmt: skip

    def _check(self, store: Path, digests: Mapping[str, str]) -> None:
        found = Fold()
        found.add(pairs_of(store))
        if wrong := differences(found.finish(), digests):
            raise CorruptionError(f"a store that was made has other contents than it should: {', '.join(wrong)}")

    async def _put(self, position: LogPosition, store: Path, file: CheckpointFile) -> str:
        path = store / file.name
        return await self.place.write_file(self.cluster, position, path.stem, path.read_bytes(), path.suffix)


def pairs_to_restore(state: Reading) -> Iterator[Pair]:
    """What a new cluster begins with, in order of the keys: what the application has, and how far the log is applied."""
    cursor = state.get(CURSOR)
    if cursor is not None:
        yield CURSOR, cursor
    yield from _scan(state, ENGINES[1], EVERYTHING[1])


def _scan(state: Reading, start: bytes, stop: bytes) -> Iterator[Pair]:
    while pairs := state.scan((start, stop), _PAIRS_AT_ONCE):
        yield from pairs
        start = pairs[-1][0] + b"\0"


def tables(pairs: Iterable[Pair], table_bytes: int = TABLE_BYTES) -> Iterator[Sequence[Pair]]:
    """The pairs in lists of about so many bytes."""
    table, size = list[Pair](), 0
    for pair in pairs:
        table.append(pair)
        size += len(pair[0]) + len(pair[1])
        if size >= table_bytes:
            yield table
            table, size = [], 0
    if table:
        yield table


def parquet(pairs: Sequence[Pair]) -> bytes:
    """The pairs as a Parquet file of a compaction."""
    keys, values = zip(*pairs, strict=True)
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content
