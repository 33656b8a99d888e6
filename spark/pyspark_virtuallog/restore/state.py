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

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from pyspark_virtuallog.compact.merge import TABLE_BYTES, write_part
from pyspark_virtuallog.compact.publication import ReplayedState, publish
from virtuallog_database.engines.core.enabled_engines import switches
from virtuallog_database.engines.core.inherited_state import Pair, inherited, pairs_within
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.core.state_digests import StateDigest
from virtuallog_database.ports import StoreReader
from virtuallog_database.rocks.tables import split_pairs
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore


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
    for pairs in split_pairs(pairs_within(state) if with_engines else inherited(state), TABLE_BYTES):
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


def _arrow(pairs: Sequence[Pair]) -> pa.Table:
    keys, values = zip(*pairs, strict=True)
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
