"""Restores the state of a database at a position, and publishes it for the servers of a new
cluster.

    store     a directory of RocksDB, as servers have it: the last compaction that is not too
              new, if there is one, and the log from there up to the position. Killed anywhere, the
              next run continues where the store stands.
    place     the same state as a compaction for the new cluster

Usually without the engines' records of the former cluster
(`virtuallog_database.engines.core.inherited_state`). With them if the new cluster gets the log,
too: its servers may then come to the position by the whole log as well, and must have the same
state there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from pyspark_virtuallog.compact.merge import TABLE_BYTES, write_part
from pyspark_virtuallog.compact.publication import ReplayedState, publish
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_database.engines.core.enabled_engines import switches
from virtuallog_database.engines.core.inherited_state import Pair, inherited, pairs_within
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.core.state_digests import StateDigest
from virtuallog_database.ports import LocalStore, StoreReader
from virtuallog_database.replica.replay import Replay
from virtuallog_database.rocks.directory import RocksDirectory
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_source import CompactionSource
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.transfer import fetch
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment


async def install(directory: RocksDirectory, base: CompactionSource) -> None:
    """Make a compaction the store of a directory, whose store is closed.

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


async def publish_state(
    place: CompactionStore, cluster: bytes, state: StoreReader, time_ms: int, work: Path, *, with_engines: bool = False
) -> Manifest:
    """Publish a state as a compaction of another cluster. On return every file of it has been read
    back.

    Args:
        place: target location.
        cluster: the new cluster.
        state: state of the former cluster.
        time_ms: wall-clock time of its last entry; 0 if unknown.
        work: private directory; removed in the end.
        with_engines: True to keep the records of engines.

    Raises:
        CorruptionError: the result differs from the state.
        VirtualLogError: as `Files`, and of the disk; nothing is published.
    """
    position, fold = read_cursor(state), StateDigest()
    url, written = place.location(cluster, position), []
    for pairs in tables(pairs_within(state) if with_engines else inherited(state)):
        fold.add(pairs)
        written.append(write_part(url, _arrow(pairs)))
    on = sorted(name for name, is_on in switches(state).items() if is_on)
    played = ReplayedState(
        cluster=cluster,
        position=position,
        time_ms=time_ms,
        engines=tuple(on) if with_engines else (),
        digests=fold.finish(),
        pairs=fold.pairs,
    )
    return await publish(place, played, written, work)


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


def _arrow(pairs: Sequence[Pair]) -> pa.Table:
    keys, values = zip(*pairs, strict=True)
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
