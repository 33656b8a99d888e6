"""Rows of an archive: batches and gaps as an Arrow table, and back, without a loop per entry.

    position | payload  time  session  sequence  headers | gap  gap_stop
       7     | b"a"     ...   0x5e..   41        b""     |                 first entry of a batch: headers are not null
       8     | b"b"     ...   0x5e..   42                |                 the next one of the same batch
       9     |                                           | filler   12     nothing at 9, 10 and 11

Rules, followed by writers and checked by readers. Rows are adjacent and in order of their
positions. A row is an entry or a gap, never both. The first row of a batch has headers, empty if
there are none. Each further row continues the one before in position, sequence, session and time. A
row group begins with a batch or a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import CorruptionError, MalformedError, TooLargeError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch

Numbers = npt.NDArray[Any]

SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("payload", pa.binary()),
        ("time", pa.timestamp("ms", tz="UTC")),
        ("session", pa.binary(16)),
        ("sequence", pa.int64()),
        ("headers", pa.binary()),
        ("gap", pa.string()),
        ("gap_stop", pa.int64()),
    ]
)
_NO_SESSION = SessionId(bytes(16))
_KINDS = {None, *(kind.value for kind in GapKind)}


# -- to rows --------------------------------------------------------------------------------------------------------------


def table_of(items: Sequence[Placed]) -> pa.Table:
    """Rows of adjacent items. An item must not have a stride unless it has only one position."""
    counts = np.array([_count(item) for item in items])
    firsts = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(firsts, counts)
    is_gap = np.repeat([isinstance(item, Gap) for item in items], counts)
    batches = [item if isinstance(item, PlacedBatch) else None for item in items]
    headed: Numbers = np.full(len(within), -1)
    headed[firsts] = np.arange(len(items))  # row -> item, on the first row of each
    columns = [
        pa.array(np.repeat([item.start for item in items], counts) + within),
        _payloads(batches, is_gap),
        _spread([item.time_ms if item else 0 for item in batches], counts, is_gap).cast(SCHEMA.field("time").type),
        _sessions(batches, counts, is_gap),
        _spread([item.batch.first_sequence + item.first if item else 0 for item in batches], counts, is_gap, within),
        _on_first_rows(headed, [item.batch.packed_headers if item else None for item in batches], pa.binary()),
        _on_first_rows(headed, [item.kind.value if isinstance(item, Gap) else None for item in items], pa.string()),
        _on_first_rows(headed, [item.stop if isinstance(item, Gap) else None for item in items], pa.int64()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def rows_of(items: Sequence[Placed]) -> tuple[int, int]:
    """Numbers of entry rows and gap rows of these items."""
    gaps = sum(isinstance(item, Gap) for item in items)
    return sum(len(item.places) for item in items if isinstance(item, PlacedBatch)), gaps


def _count(item: Placed) -> int:
    return len(item.places) if isinstance(item, PlacedBatch) else 1


def _spread(values: Sequence[int], counts: Numbers, is_gap: Numbers, add: Numbers | int = 0) -> pa.Array:
    """Each item's value on each of its rows; null in gaps."""
    return pa.array(np.repeat(np.array(values, dtype=np.int64), counts) + add, mask=is_gap)


def _on_first_rows(headed: Numbers, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, type=kind).take(pa.array(headed, mask=headed < 0))


def _sessions(batches: Sequence[PlacedBatch | None], counts: Numbers, is_gap: Numbers) -> pa.Array:
    known = b"".join(item.batch.session if item else _NO_SESSION for item in batches)
    spread = np.repeat(np.frombuffer(known, dtype="V16"), counts)
    return pa.Array.from_buffers(pa.binary(16), len(spread), [_validity(is_gap), pa.py_buffer(spread.tobytes())])


def _payloads(batches: Sequence[PlacedBatch | None], is_gap: Numbers) -> pa.Array:
    """Payloads of batches as an Arrow array. Ends and payloads lie side by side in a batch, as
    Arrow has them."""
    offsets, content = np.zeros(len(is_gap) + 1, dtype=np.int32), []
    row = at = 0
    for item in batches:
        if item is None:
            row += 1
            offsets[row] = at
            continue
        count, ends = len(item.places), np.frombuffer(item.batch.packed_ends, dtype="<u4")
        low = int(ends[item.first - 1]) if item.first else 0
        high = int(ends[item.first + count - 1])
        content.append(item.batch.packed_payloads[low:high])
        offsets[row + 1 : row + count + 1] = ends[item.first : item.first + count].astype(np.int64) - low + at
        row, at = row + count, at + high - low
    buffers = [_validity(is_gap), pa.py_buffer(offsets), pa.py_buffer(b"".join(content))]
    return pa.Array.from_buffers(pa.binary(), len(is_gap), buffers)


def _validity(is_null: Numbers) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None


# -- from rows ------------------------------------------------------------------------------------------------------------

COVER_COLUMNS: Final = ("position", "gap", "gap_stop")
"""Columns that give the positions of rows."""
_OF_ENTRIES: Final = ("payload", "time", "session", "sequence")
"""Columns that are null in gaps, and in gaps only."""


def check_cover_untrusted(table: pa.Table, start: int, stop: int) -> None:
    """Check that rows cover [start, stop), and that entries and gaps have the right columns, of
    those in the table.

    The columns of `COVER_COLUMNS` must be present.

    Raises:
        MalformedError: other types of columns, or rows that break the rules above.
        CorruptionError: rows that do not cover the range.
    """
    check_columns_untrusted(table, table.schema.names)
    if not table.num_rows:
        raise CorruptionError(f"no rows for [{start}, {stop}) in an archive")
    positions, gaps, stops = (_whole(table.column(name)) for name in COVER_COLUMNS)
    if gaps.null_count == stops.null_count == table.num_rows:
        _check_dense(_integers(positions), start, stop)
    else:
        _check_places(_integers(positions), gaps, stops, start, stop)
    _check_entries(table, gaps)


def check_columns_untrusted(table: pa.Table, names: Iterable[str]) -> None:
    """Raise MalformedError if one of these columns of an archive is missing or has another type."""
    for field in (SCHEMA.field(name) for name in names if name in SCHEMA.names):
        if (
            len(table.schema.get_all_field_indices(field.name)) != 1
            or table.schema.field(field.name).type != field.type
        ):
            raise MalformedError(f"an archive whose rows have no column {field.name} of type {field.type}")


def _check_dense(positions: Numbers, start: int, stop: int) -> None:
    """Check rows that are all entries, as in nearly all of a log."""
    if len(positions) != stop - start or positions[0] != start or (np.diff(positions) != 1).any():
        raise _no_cover(start, stop, int(positions[0]), int(positions[-1]) + 1)


def _check_places(positions: Numbers, gaps: pa.Array, stops: pa.Array, start: int, stop: int) -> None:
    """Check that rows are adjacent, from the start to the stop."""
    is_gap = _is_valid(gaps)
    if not np.array_equal(_is_valid(stops), is_gap):
        raise MalformedError("a gap in an archive has no end, or an entry has one")
    if not set(gaps.unique().to_pylist()) <= _KINDS:
        raise MalformedError("a gap of another kind in an archive")
    nexts = np.where(is_gap, _integers(stops), positions + 1)
    adjacent = (nexts[:-1] == positions[1:]).all() and (nexts > positions).all()
    if (positions[0], nexts[-1]) != (start, stop) or not adjacent:
        raise _no_cover(start, stop, int(positions[0]), int(nexts[-1]))


def _check_entries(table: pa.Table, gaps: pa.Array) -> None:
    for name in (name for name in _OF_ENTRIES if name in table.schema.names):
        values = _whole(table.column(name))
        if values.null_count + gaps.null_count != len(gaps) or (
            values.null_count and (_is_valid(values) == _is_valid(gaps)).any()
        ):
            raise MalformedError(f"an entry in an archive has no {name}, or a gap has one")


def _no_cover(start: int, stop: int, first: int, end: int) -> CorruptionError:
    return CorruptionError(f"rows of [{start}, {stop}) in an archive cover [{first}, {end}), or have holes")


def clip(table: pa.Table, start: int, stop: int) -> pa.Table:
    """The part of adjacent rows in [start, stop), which they cover; a gap that reaches beyond it is cut."""
    positions = _integers(_whole(table.column("position")))
    first, last = np.searchsorted(positions, start, "right") - 1, np.searchsorted(positions, stop, "left")
    kept = table.slice(first, last - first)
    if positions[first] < start:
        kept = _set(kept, "position", pc.max_element_wise(kept.column("position"), start))
    if kept.column("gap_stop").null_count < kept.num_rows:
        kept = _set(kept, "gap_stop", pc.min_element_wise(kept.column("gap_stop"), stop, skip_nulls=False))
    return kept


def _set(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), SCHEMA.field(name), values)


def items_of_untrusted(table: pa.Table, start: int, stop: int) -> list[Placed]:
    """Batches and gaps in rows that cover [start, stop).

    Raises:
        MalformedError: other columns, or rows that break the rules above.
        CorruptionError: rows that do not cover the range.
    """
    check_columns_untrusted(table, SCHEMA.names)
    check_cover_untrusted(table, start, stop)
    rows = _Rows(table)
    rows.check_batches()
    try:
        return rows.items()
    except (ValueError, OverflowError, TooLargeError) as error:
        raise MalformedError(f"a row of an archive cannot be read: {error}") from error


class _Rows:
    """The columns of a table as numbers."""

    def __init__(self, table: pa.Table) -> None:
        self._columns = {name: _whole(table.column(name)) for name in SCHEMA.names}
        self._is_gap = _is_valid(self._columns["gap"])
        self._positions = self._numbers("position")
        self._sequences, self._times = self._numbers("sequence"), self._numbers("time")
        stops = self._numbers("gap_stop")
        self._nexts = np.where(self._is_gap, stops, self._positions + 1)

    def check_batches(self) -> None:
        """Check that rows without headers continue the batch before them."""
        entries = ~self._is_gap
        if (self._sequences[entries] < 0).any() or (self._times[entries] < 0).any() or (self._positions < 0).any():
            raise MalformedError("a negative number in an archive")
        going_on = entries & ~_is_valid(self._columns["headers"])
        before, this = slice(0, -1), slice(1, None)
        sessions = np.frombuffer(self._columns["session"].buffers()[1], dtype="<u8")
        sessions = sessions.reshape(-1, 2)[self._columns["session"].offset :][: len(entries)]
        fits = (
            entries[before]
            & (self._sequences[this] == self._sequences[before] + 1)
            & (self._times[this] == self._times[before])
            & (sessions[this] == sessions[before]).all(axis=1)
        )
        if going_on[0] or (going_on[this] & ~fits).any():
            raise MalformedError("a row of an archive belongs to no batch")

    def items(self) -> list[Placed]:
        headers, sessions, gaps = (self._columns[name] for name in ("headers", "session", "gap"))
        begins = np.flatnonzero(self._is_gap | _is_valid(headers))
        at = pa.array(begins)
        offsets, content = _binary(self._columns["payload"])
        ends = [*begins[1:].tolist(), len(self._is_gap)]
        known = zip(begins.tolist(), ends, headers.take(at).to_pylist(), sessions.take(at).to_pylist(),
                    gaps.take(at).to_pylist(), strict=True)  # fmt: skip
        found: list[Placed] = []
        for first, end, packed, session, gap in known:
            position = int(self._positions[first])
            if gap is not None:
                found.append(Gap(position, int(self._nexts[first]), GapKind(gap)))
                continue
            base = offsets[first]
            batch = Batch.of_columns_untrusted(
                SessionId(session),
                int(self._sequences[first]),
                (offsets[first + 1 : end + 1] - base).astype("<u4").tobytes(),
                packed,
                content[base : offsets[end]],
            )
            found.append(PlacedBatch(range(position, position + end - first), batch, int(self._times[first])))
        return found

    def _numbers(self, name: str) -> Numbers:
        return _integers(self._columns[name])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _integers(array: pa.Array) -> Numbers:
    """Integers of a column; nulls are 0."""
    known = array.fill_null(0) if array.null_count else array
    known = known if known.type == pa.int64() else known.cast(pa.int64())
    found: Numbers = known.to_numpy(zero_copy_only=False)
    return found


def _is_valid(array: pa.Array) -> Numbers:
    found: Numbers = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _binary(array: pa.Array) -> tuple[Numbers, memoryview]:
    """Offsets of the values, one more than there are, and the bytes to which they point."""
    _, offsets, content = array.buffers()
    found = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    return found, memoryview(content if content is not None else b"")
