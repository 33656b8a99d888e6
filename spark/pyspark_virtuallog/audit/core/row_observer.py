"""Observation of one task's rows, which are adjacent and in order: some dozens of observations.

All that neighbouring rows can tell is decided here. Questions that need rows of other tasks (is a
number of a session there twice? does this piece continue the one before?) leave as runs and pieces,
which Spark and the driver bring together.

Runs are adjacent sequence numbers of a session. Appenders take turns in a log, so their entries are
interleaved. Sorted by session, thousands of rows become a run for each session, unless something is
wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog.audit.core.anomalies import Anomalies
from pyspark_virtuallog.audit.core.observations import of_columns, rows_of
from pyspark_virtuallog.audit.core.time_buckets import BUCKET_MS, Counts, TimeBuckets
from virtuallog.contract.types import GapKind

Numbers = npt.NDArray[Any]


def runs_of(session: pa.Array, sequence: Numbers, position: Numbers, size: Numbers) -> dict[str, Any]:
    """Columns of the observation `run`, for entries in the order of their rows; none of them is a
    gap."""
    encoded = session.dictionary_encode()
    codes = _narrow(encoded)
    by_session = np.argsort(codes, kind="stable")  # stable: each session's entries stay in the order of the log
    codes, sequence, position, size = codes[by_session], sequence[by_session], position[by_session], size[by_session]
    goes_on = (codes[1:] == codes[:-1]) & (sequence[1:] == sequence[:-1] + 1)
    begins = np.flatnonzero(np.concatenate(([len(codes) > 0], ~goes_on)))
    ends = np.append(begins[1:], len(codes))
    return {
        "session": encoded.dictionary.take(pa.array(codes[begins])),
        "first": sequence[begins],
        "count": ends - begins,
        "start": position[begins],
        "last": position[ends - 1],
        "bytes": np.add.reduceat(size, begins) if len(begins) else begins,
    }


def codes_of(column: pa.Array) -> Numbers:
    """A number for each value, equal for equal values."""
    return _narrow(column.dictionary_encode())


def _narrow(encoded: pa.DictionaryArray) -> Numbers:
    """The codes in 16 bits if they fit, which are sorted several times faster; a few thousand rows
    usually have no more values. Null is -1."""
    codes: Numbers = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int16) if len(encoded.dictionary) < 1 << 15 else codes


AGAIN: Final = "position again"
MISSING: Final = "position missing"
TIME_BACK: Final = "time goes back"
UNREADABLE: Final = "damaged"
FILLER: Final = GapKind.FILLER.value
TRIMMED: Final = GapKind.TRIMMED.value


class PayloadObserver(Protocol):
    """Observer of the payloads of entries."""

    def entries(self, entries: pa.RecordBatch, buckets: Numbers, remarks: Anomalies) -> Iterator[pa.RecordBatch]:
        """Observe the next entries, with their time buckets; returns observations, and may add
        remarks."""

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Observations that were held back until the end."""


def observe(
    batches: Iterable[pa.RecordBatch], looks: Sequence[PayloadObserver] = (), observer: RowObserver | None = None
) -> Iterator[pa.RecordBatch]:
    """All observations of adjacent rows, which have the columns of the source. Callers may add
    remarks to the observer.

    No batch is empty: Spark takes a batch without rows for the end of all.
    """
    found = _observe(batches, looks, observer or RowObserver())
    return (batch for batch in found if batch.num_rows)


def _observe(
    batches: Iterable[pa.RecordBatch], looks: Sequence[PayloadObserver], observer: RowObserver
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.num_rows:
            continue
        entries = batch.filter(batch["gap"].is_null())
        observer.rows(batch, entries)
        if entries.num_rows:
            yield of_columns("run", runs_of(entries["session"], *_numbers(entries, "sequence", "position", "size")))
        buckets = _milliseconds(entries) // BUCKET_MS
        for look in looks:
            yield from look.entries(entries, buckets, observer.remarks)
    for look in looks:
        yield from look.finish()
    yield from observer.finish()


@attrs.define
class _End:
    """One end of the rows."""

    position: int
    gap: str | None
    segment: str


@attrs.define
class RowObserver:
    """Observer with counts, and the last row to compare the next one with."""

    remarks: Anomalies = attrs.field(factory=Anomalies, init=False)
    _gaps: Anomalies = attrs.field(factory=Anomalies, init=False)
    _tallies: TimeBuckets = attrs.field(factory=TimeBuckets, init=False)
    _first: _End | None = attrs.field(default=None, init=False)
    _last: _End | None = attrs.field(default=None, init=False)
    _first_time: int | None = attrs.field(default=None, init=False)
    _last_time: int | None = attrs.field(default=None, init=False)
    _last_time_segment: str = attrs.field(default="", init=False)
    _kept_from: int | None = attrs.field(default=None, init=False)

    def rows(self, batch: pa.RecordBatch, entries: pa.RecordBatch) -> None:
        """Observe the next rows, and those of them that are entries."""
        position, is_gap = batch["position"].to_numpy(zero_copy_only=False), _is_gap(batch)
        self._neighbours(position, is_gap)
        self._non_fillers(batch, position, is_gap)
        if entries.num_rows:
            self._times(entries)
        self._tally(batch, is_gap)
        self._first, self._last = self._first or _end(batch, 0), _end(batch, batch.num_rows - 1)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Observations over all rows."""
        yield rows_of("remark", [
            {"check": each.check, "count": each.count, "position": each.position, "text": each.detail} for each in self.remarks
        ])  # fmt: skip
        if self._first is not None and self._last is not None:
            yield from self._whole(self._first, self._last)

    def _whole(self, first: _End, last: _End) -> Iterator[pa.RecordBatch]:
        if last.gap is not None and last.gap != FILLER:
            self._gap(last.gap, last.position, None)
        yield rows_of("gap", [
            {"kind": gap.check, "count": gap.count, "start": gap.position, "stop": gap.detail} for gap in self._gaps
        ])  # fmt: skip
        yield rows_of("tally", self._tallies.rows())
        yield rows_of("piece", [{
            "first": first.position, "last": last.position, "ends_in_gap": last.gap is not None,
            "first_segment": first.segment, "last_segment": last.segment,
            "first_time_ms": self._first_time, "last_time_ms": self._last_time, "kept_from": self._kept_from,
        }])  # fmt: skip

    def _neighbours(self, position: Numbers, is_gap: Numbers) -> None:
        """Check neighbouring positions. An entry takes one position, a gap all of them up to the
        next row."""
        if self._last is not None:
            position = np.concatenate(([self._last.position], position))
            is_gap = np.concatenate(([self._last.gap is not None], is_gap))
        before, after = position[:-1], position[1:]
        if (again := np.flatnonzero(after <= before)).size:
            at = int(after[again[0]])
            self.remarks.add(AGAIN, at, f"position {at} stands behind {int(before[again[0]])}", again.size)
        if (holes := np.flatnonzero(~is_gap[:-1] & (after > before + 1))).size:
            low, high = int(before[holes[0]]) + 1, int(after[holes[0]])
            self.remarks.add(MISSING, low, f"no row for [{low}, {high})", int((after - before - 1)[holes].sum()))

    def _non_fillers(self, batch: pa.RecordBatch, position: Numbers, is_gap: Numbers) -> None:
        """Note gaps that end in these rows: only the next row shows their end."""
        if self._last is not None and self._last.gap is not None and self._last.gap != FILLER:
            self._gap(self._last.gap, self._last.position, int(position[0]))
        kinds = batch["gap"]
        for index in np.flatnonzero(is_gap[:-1]).tolist():
            if (kind := kinds[index].as_py()) != FILLER:
                self._gap(kind, int(position[index]), int(position[index + 1]))

    def _gap(self, kind: str, start: int, stop: int | None) -> None:
        self._gaps.add(kind, start, stop)
        if kind == TRIMMED:
            self._kept_from = start + 1 if stop is None else stop

    def _times(self, entries: pa.RecordBatch) -> None:
        """Check times. Within a segment time should not go back: its sequencer ensures that, while
        it stays the same."""
        times, (position,) = _milliseconds(entries), _numbers(entries, "position")
        segments = entries["segment"]
        codes = codes_of(segments)
        is_same = np.concatenate(([segments[0].as_py() == self._last_time_segment], codes[1:] == codes[:-1]))
        before = np.concatenate(([times[0] if self._last_time is None else self._last_time], times[:-1]))
        back = np.flatnonzero((times < before) & is_same)
        if back.size:
            by, at = int((before - times)[back[0]]), int(position[back[0]])
            self.remarks.add(TIME_BACK, at, f"by {by} ms at {at}", back.size)
        self._first_time = int(times[0]) if self._first_time is None else self._first_time
        self._last_time, self._last_time_segment = int(times[-1]), segments[-1].as_py()

    def _tally(self, batch: pa.RecordBatch, is_gap: Numbers) -> None:
        """Count by runs of rows of one segment and time bucket, as row by row would be slow. A gap
        counts with the entry before it."""
        buckets = _buckets(batch, is_gap)
        segments, loglets = codes_of(batch["segment"]), codes_of(batch["loglet"])
        is_new = (segments[1:] != segments[:-1]) | (loglets[1:] != loglets[:-1]) | (buckets[1:] != buckets[:-1])
        begins = np.concatenate(([0], np.flatnonzero(is_new) + 1))
        ends = np.append(begins[1:], batch.num_rows) - 1
        position, size = _numbers(batch, "position", "size")
        is_filler = pc.fill_null(pc.equal(batch["gap"], FILLER), False).to_numpy(zero_copy_only=False)
        entries, sizes, fillers = (
            np.add.reduceat(each.astype(np.int64), begins).tolist() for each in (~is_gap, size, is_filler)
        )
        has_time = not is_gap.all()
        firsts, lasts = position[begins].tolist(), position[ends].tolist()
        rows = zip(begins.tolist(), entries, sizes, fillers, firsts, lasts, strict=True)
        for row, *counts in rows:
            segment, loglet = (batch[name][row].as_py() for name in ("segment", "loglet"))
            self._tallies.add(segment, loglet, int(buckets[row]) if has_time else None, Counts.of(counts))


def _buckets(batch: pa.RecordBatch, is_gap: Numbers) -> Numbers:
    """Time bucket of each row. A gap has that of the entry before it, or else of the first one."""
    found: Numbers = pc.fill_null(_epoch_ms(batch["time"]), 0).to_numpy(zero_copy_only=False)
    if is_gap.any() and not is_gap.all():
        rows = np.where(is_gap, -1, np.arange(len(is_gap)))
        found = found[np.maximum(np.maximum.accumulate(rows), np.flatnonzero(~is_gap)[0])]
    return found // BUCKET_MS


def _end(batch: pa.RecordBatch, row: int) -> _End:
    return _End(*(batch[name][row].as_py() for name in ("position", "gap", "segment")))


def _is_gap(batch: pa.RecordBatch) -> Numbers:
    found: Numbers = batch["gap"].is_valid().to_numpy(zero_copy_only=False)
    return found


def _milliseconds(entries: pa.RecordBatch) -> Numbers:
    found: Numbers = _epoch_ms(entries["time"]).to_numpy(zero_copy_only=False)
    return found


def _epoch_ms(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())


def _numbers(entries: pa.RecordBatch, *names: str) -> list[Numbers]:
    """Columns as numbers; null is 0."""
    return [pc.fill_null(entries[name].cast(pa.int64()), 0).to_numpy(zero_copy_only=False) for name in names]
