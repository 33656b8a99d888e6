"""Effects of the entries of a part of the log, as Parquet files: the progress of an unfinished
compaction.

    PLACE/compacting/CLUSTER/START-STOP.parquet           effects of the entries in [START, STOP)
    PLACE/compacting/CLUSTER/START-STOP-PART.parquet      further files of the same, written before

Columns: position (of the entry), time (when it was ordered), key, value (null: deleted). Each key
comes once for each position. A chunk exists once its file without a part exists. The content of a
chunk is a function of the log, so one that is written again has the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.replica.replay import AppliedEffects

DIRECTORY: Final = "compacting"
SCHEMA: Final = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
    ]
)
_NAME: Final = re.compile(r"(\d{20})-(\d{20})(?:-(\d{6}))?\.parquet")


@attrs.frozen
class Chunk:
    """Effects of the log in [start, stop)."""

    start: int
    stop: int
    files: tuple[str, ...]
    """Names of its files; the one that completes it comes last."""


def name_of(start: int, stop: int, part: int | None = None) -> str:
    """Name of one file of a chunk; without `part`, of the one that is written last."""
    suffix = "" if part is None else f"-{part:06d}"
    return f"{start:020d}-{stop:020d}{suffix}.parquet"


def chunks(names: Iterable[str]) -> list[Chunk]:
    """Complete chunks, in order."""
    found: Mapping[tuple[int, int], list[str]] = defaultdict(list)
    for name in names:
        if (match := _NAME.fullmatch(name)) is not None:
            found[int(match[1]), int(match[2])].append(name)
    whole = [(ends, sorted(files)) for ends, files in sorted(found.items()) if name_of(*ends) in files]
    return [Chunk(start, stop, tuple(files)) for (start, stop), files in whole]


def chain(found: Sequence[Chunk], start: int, stop: int) -> list[Chunk] | None:
    """Chunks that lead from `start` to `stop` without a hole. None if there is no such chain. Each
    begins where one ends, as the chunks behind a store are removed before others are written."""
    by_start = {chunk.start: chunk for chunk in found if chunk.stop <= stop}
    linked: list[Chunk] = []
    at = start
    while at < stop:
        if (following := by_start.get(at)) is None:
            return None
        linked.append(following)
        at = following.stop
    return linked if at == stop else None


def encode(effects: Sequence[AppliedEffects]) -> bytes:
    """A file with these effects."""
    rows = [(each.position, each.time_ms, key, value) for each in effects for key, value in each.changes.items()]
    positions, times, keys, values = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = [
        pa.array(column, field.type) for column, field in zip((positions, times, keys, values), SCHEMA, strict=True)
    ]
    return to_parquet(pa.table(columns, schema=SCHEMA))


def to_parquet(table: pa.Table) -> bytes:
    """A file with checksums in its pages."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_parquet(content: bytes, what: str = "a Parquet file") -> pa.Table:
    """Parse a file of `to_parquet`.

    Raises:
        CorruptionError: a byte has changed; names `what`.
    """
    try:
        return pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"{what} cannot be read: {error}") from error


def last_time_ms(content: bytes) -> int:
    """Time at which the last entry of a file with effects was ordered; 0 if it has none."""
    times = from_parquet(content).column("time")
    return int(times[-1].value) if len(times) else 0
