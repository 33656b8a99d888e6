"""What one task makes of its rows, which are adjacent and in order: observations, some dozens for thousands of rows.    Pure.

Whatever can be told from neighbouring rows is told here. What needs rows of other tasks (is a number of a session there twice?
does this piece go on where the one before ends?) leaves as runs and pieces, for Spark to bring together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog.audit.observations import BUCKET_MS, of_columns, rows_of
from pyspark_virtuallog.audit.runs import runs_of
from virtuallog.types import GapKind

Numbers = npt.NDArray[Any]

AGAIN: Final = "position again"
MISSING: Final = "position missing"
TIME_BACK: Final = "time goes back"
FILLER: Final = GapKind.FILLER.value


class Look(Protocol):
    """Sees something in the payloads of entries."""

    def entries(self, entries: pa.RecordBatch, buckets: Numbers) -> Iterator[pa.RecordBatch]:
        """Rows of entries that follow, and the spans of time that they are in."""

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What has not been told yet."""


def observe(batches: Iterable[pa.RecordBatch], looks: Sequence[Look] = ()) -> Iterator[pa.RecordBatch]:
    """All observations of adjacent rows, which have the columns of the source."""
    observer = Observer()
    for batch in batches:
        if not batch.num_rows:
            continue
        yield from observer.rows(batch)
        entries = batch.filter(batch["gap"].is_null())
        buckets = milliseconds(entries) // BUCKET_MS
        for look in looks:
            yield from look.entries(entries, buckets)
    yield from observer.finish()
    for look in looks:
        yield from look.finish()


@attrs.define
class Observer:
    """Remembers the last row, to compare the next one with."""

    _first: dict[str, Any] | None = attrs.field(default=None, init=False)
    _last: dict[str, Any] | None = attrs.field(default=None, init=False)
    _first_time: int | None = attrs.field(default=None, init=False)
    _last_time: int | None = attrs.field(default=None, init=False)
    _last_time_segment: str = attrs.field(default="", init=False)

    def rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What there is to tell of the rows that follow."""
        position, is_gap = batch["position"].to_numpy(zero_copy_only=False), _is_gap(batch)
        yield from self._neighbours(position, is_gap)
        yield from self._gaps(batch, position, is_gap)
        entries = batch.filter(pa.array(~is_gap))
        if entries.num_rows:
            yield from self._times(entries)
            yield of_columns("run", runs_of(entries["session"], *_numbers(entries, "sequence", "position", "size")))
        yield _tally(batch, is_gap)
        last = batch.slice(batch.num_rows - 1).to_pylist()[0]
        self._first, self._last = self._first or batch.slice(0, 1).to_pylist()[0], last

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The piece that all rows were, if there were any."""
        first, last = self._first, self._last
        if first is None or last is None:
            return
        if last["gap"] not in {None, FILLER}:
            yield rows_of("gap", [_gap(last["gap"], last["segment"], last["position"], None)])
        yield rows_of("piece", [{
            "first": first["position"], "last": last["position"], "ends_in_gap": last["gap"] is not None,
            "first_segment": first["segment"], "last_segment": last["segment"],
            "first_time_ms": self._first_time, "last_time_ms": self._last_time,
        }])  # fmt: skip

    def _neighbours(self, position: Numbers, is_gap: Numbers) -> Iterator[pa.RecordBatch]:
        """An entry takes one position, a gap all of them up to the next row."""
        if self._last is not None:
            position = np.concatenate(([self._last["position"]], position))
            is_gap = np.concatenate(([self._last["gap"] is not None], is_gap))
        before, after = position[:-1], position[1:]
        if (again := np.flatnonzero(after <= before)).size:
            at = int(after[again[0]])
            yield _remark(AGAIN, len(again), at, f"position {at} stands behind {int(before[again[0]])}")
        if (holes := np.flatnonzero(~is_gap[:-1] & (after > before + 1))).size:
            low, high = int(before[holes[0]]) + 1, int(after[holes[0]])
            yield _remark(MISSING, int((after - before - 1)[holes].sum()), low, f"no row for [{low}, {high})")

    def _gaps(self, batch: pa.RecordBatch, position: Numbers, is_gap: Numbers) -> Iterator[pa.RecordBatch]:
        """Those that end in these rows: only the next row says where."""
        found = []
        if self._last is not None and self._last["gap"] not in {None, FILLER}:
            found.append(_gap(self._last["gap"], self._last["segment"], self._last["position"], int(position[0])))
        kinds = batch["gap"]
        for index in np.flatnonzero(is_gap[:-1]).tolist():
            if (kind := kinds[index].as_py()) != FILLER:
                start, stop = int(position[index]), int(position[index + 1])
                found.append(_gap(kind, batch["segment"][index].as_py(), start, stop))
        if found:
            yield rows_of("gap", found)

    def _times(self, entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Within a segment time should not go back: its sequencer sees to that, while it stays the same."""
        times, (position,) = milliseconds(entries), _numbers(entries, "position")
        segments = entries["segment"].to_numpy(zero_copy_only=False)
        before = np.concatenate(([times[0] if self._last_time is None else self._last_time], times[:-1]))
        neighbours = np.concatenate(([self._last_time_segment], segments[:-1]))
        back = np.flatnonzero((times < before) & (segments == neighbours))
        if back.size:
            by, at = int((before - times)[back[0]]), int(position[back[0]])
            yield _remark(TIME_BACK, back.size, at, f"by {by} ms at {at}")
        self._first_time = int(times[0]) if self._first_time is None else self._first_time
        self._last_time, self._last_time_segment = int(times[-1]), segments[-1]


def _tally(batch: pa.RecordBatch, is_gap: Numbers) -> pa.RecordBatch:
    """What each segment holds of each span of time."""
    is_filler = pc.fill_null(pc.equal(batch["gap"], FILLER), False)
    table = pa.table({
        "segment": batch["segment"], "loglet": batch["loglet"], "position": batch["position"],
        "bucket": pc.divide(_epoch_ms(batch["time"]), BUCKET_MS),
        "entry": (~is_gap).astype(np.int64), "filler": is_filler.cast(pa.int64()),
        "size": pc.fill_null(batch["size"].cast(pa.int64()), 0),
    })  # fmt: skip
    sums = table.group_by(["segment", "loglet", "bucket"], use_threads=False).aggregate(
        [("entry", "sum"), ("size", "sum"), ("filler", "sum"), ("position", "min"), ("position", "max")]
    )
    columns = sums.rename_columns(
        ["segment", "loglet", "bucket", "entries", "bytes", "fillers", "first", "last"]
    ).combine_chunks()
    return of_columns("tally", {name: _whole(columns[name]) for name in columns.column_names})


def _remark(check: str, count: int, position: int, text: str) -> pa.RecordBatch:
    return rows_of("remark", [{"check": check, "count": count, "position": position, "text": text}])


def _gap(kind: str, segment: str, start: int, stop: int | None) -> dict[str, Any]:
    return {"kind": kind, "segment": segment, "start": start, "stop": stop}


def _is_gap(batch: pa.RecordBatch) -> Numbers:
    found: Numbers = batch["gap"].is_valid().to_numpy(zero_copy_only=False)
    return found


def milliseconds(entries: pa.RecordBatch) -> Numbers:
    found: Numbers = _epoch_ms(entries["time"]).to_numpy(zero_copy_only=False)
    return found


def _epoch_ms(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())


def _numbers(entries: pa.RecordBatch, *names: str) -> list[Numbers]:
    return [entries[name].cast(pa.int64()).to_numpy(zero_copy_only=False) for name in names]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
