"""From a plan to rows, without a log: for any content, cut and filter, each entry is a row once,
and nothing is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, IsNotNull, IsNull, LessThan
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_virtuallog.markers.marker import Winner
from pyspark_virtuallog.read.filters import EVERYTHING, RowFilter, take
from pyspark_virtuallog.read.options import ReadOptions
from pyspark_virtuallog.read.schema import SCHEMA
from pyspark_virtuallog.read.task_plan import Part, PlannedPiece, ReadTask, plan_tasks
from pyspark_virtuallog.read.task_reader import rows_wanted
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.contract.batch import ENTRY_BYTES_MAX, Batch, SessionId
from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.errors import TrimmedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch
from virtuallog_loglets.archive.core.rows import table_of

CLUSTER = ClusterFile(nodes=(NodeAddress(id=1, address="127.0.0.1:7001"),))
SESSIONS = [SessionId(bytes([name]) * 16) for name in range(3)]
Row = dict[str, Any]


@attrs.frozen
class MadeUpLog:
    """Segments, each with what lies in it. What is below the first is trimmed."""

    begin: int
    segments: tuple[tuple[Placed, ...], ...]

    @property
    def items(self) -> list[Placed]:
        below: list[Placed] = [Gap(0, self.begin, GapKind.TRIMMED)] if self.begin else []
        return below + [item for segment in self.segments for item in segment]

    @property
    def stop(self) -> int:
        return self.items[-1].stop if self.items else 0

    @property
    def chain(self) -> Chain:
        starts = [LogPosition(segment[0].start) for segment in self.segments]
        stops = [*starts[1:], None]
        ends = enumerate(zip(starts, stops, strict=True), 1)
        found = (
            Segment(id=SegmentId(name, 0), kind="native", config=b"", start=low, stop=high)
            for name, (low, high) in ends
        )
        return Chain(len(starts), tuple(found))

    def entries(self) -> list[Row]:
        """Row by row, the slow and obvious way."""
        chain = self.chain
        return [
            {
                "position": data.position, "payload": data.payload, "session": bytes(data.session), "sequence": data.sequence,
                "size": len(data.payload), "segment": _segment(chain, data.position), "loglet": "native", "gap": None,
            }
            for item in self.items if isinstance(item, PlacedBatch) for data in item.records()
        ]  # fmt: skip


def _segment(chain: Chain, position: int) -> str:
    found = chain.segment_at(LogPosition(position))
    assert found is not None
    return str(found.id)


@st.composite
def logs(draw: st.DrawFn) -> MadeUpLog:
    begin = draw(st.sampled_from([0, 0, 7]))
    position, sequences, segments = begin, [0, 0, 0], []
    for _ in range(draw(st.integers(1, 3))):
        items: list[Placed] = []
        for _ in range(draw(st.integers(1, 4))):
            length, who = draw(st.integers(1, 5)), draw(st.integers(-2, 2))
            if who < 0:
                items.append(Gap(position, position + length, draw(st.sampled_from(list(GapKind)))))
            else:
                payloads = [draw(st.binary(max_size=3)) for _ in range(length)]
                batch = Batch.build(SESSIONS[who], sequences[who], payloads)
                items.append(PlacedBatch(range(position, position + length), batch, 1000 + position))
                sequences[who] += length
            position += length
        segments.append(tuple(items))
    return MadeUpLog(begin, tuple(segments))


FILTERS = st.lists(
    st.one_of(
        st.integers(-1, 70).map(lambda at: GreaterThanOrEqual(("position",), at)),
        st.integers(-1, 70).map(lambda at: LessThan(("position",), at)),
        st.sampled_from(SESSIONS).map(lambda name: EqualTo(("session",), bytes(name))),
        st.sampled_from(
            [IsNull(("gap",)), IsNotNull(("payload",)), EqualTo(("size",), 0), EqualTo(("segment",), "2.0")]
        ),
    ),
    max_size=3,
)
OPTIONS = st.builds(
    ReadOptions,
    cluster=st.just("c.toml"),
    positions_per_partition=st.none() | st.integers(1, 20),
    min_partitions=st.integers(1, 9),
    fail_on_data_loss=st.just(False),
)


def rows(
    tasks: Sequence[ReadTask], log: MadeUpLog, wanted: RowFilter, cuts: Sequence[int], schema: StructType = SCHEMA
) -> list[Row]:
    """Rows of all tasks, each part in pieces that end at `cuts`, as a server may end a scan
    anywhere."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    return [
        row
        for task in tasks
        for part in task.parts
        for table in tables(log, part, cuts)
        for row in rows_wanted(table, part, arrow, wanted, may_miss=task.may_miss).to_pylist()
    ]


def tables(log: MadeUpLog, part: Part, cuts: Sequence[int]) -> Iterator[pa.Table]:
    edges = sorted({part.start, part.stop, *(cut for cut in cuts if part.start < cut < part.stop)})
    for low, high in pairwise(edges):
        yield table_of([clipped for item in log.items if (clipped := item.clip(low, high)) is not None])


def plan(log: MadeUpLog, pieces: Sequence[PlannedPiece], wanted: RowFilter, options: ReadOptions) -> list[ReadTask]:
    left = [clipped for piece in pieces if (clipped := piece.clip(*wanted.range)) is not None]
    return plan_tasks(left, log.chain, [1, 2], CLUSTER, "c3" * 16, options)


def without_time(found: Sequence[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "time"} for row in found]


@given(logs(), OPTIONS, st.lists(st.integers(0, 70), max_size=6), st.data())
def test_what_is_read_covers_the_range_once(
    log: MadeUpLog, options: ReadOptions, cuts: list[int], data: st.DataObject
) -> None:
    """Entries as they are, and gaps between them, up to where the next row begins."""
    start, stop = sorted(data.draw(st.tuples(st.integers(0, log.stop), st.integers(0, log.stop))))
    pieces = [PlannedPiece(start=start, stop=stop)] if start < stop else []
    found = rows(plan(log, pieces, EVERYTHING, options), log, EVERYTHING, cuts)

    entries = without_time([row for row in found if row["gap"] is None])
    assert entries == [row for row in log.entries() if start <= row["position"] < stop]
    kinds = {place: item.kind for item in log.items if isinstance(item, Gap) for place in range(item.start, item.stop)}
    covered: list[int] = []
    for row, following in pairwise([*found, {"position": stop}]):
        places = range(row["position"], following["position"])
        assert places, "rows are not in order"
        assert row["gap"] is None or {kinds[place] for place in places} == {GapKind(row["gap"])}
        assert row["gap"] is not None or len(places) == 1
        covered += places
    assert covered == [*range(start, stop)]


@given(
    logs(),
    OPTIONS,
    FILTERS,
    st.lists(st.integers(0, 70), max_size=6),
    st.permutations(SCHEMA.fields),
    st.integers(1, 9),
)
def test_filters_leave_the_entries_that_they_describe_and_columns_are_those_asked_for(
    log: MadeUpLog, options: ReadOptions, filters: list[Filter], cuts: list[int], fields: list[Any], width: int
) -> None:
    """However the range is cut, the entries are those that a filter behind the read would leave. Few columns have the same rows."""
    wanted, others = take(filters)
    tasks = plan(log, [PlannedPiece(start=0, stop=log.stop)], wanted, options)
    found = rows(tasks, log, wanted, cuts)

    assert others == []
    expected = [row for row in log.entries() if all(fulfils(row, each) for each in filters)]
    assert without_time([row for row in found if row["gap"] is None]) == expected

    needed = {*(each.attribute[0] for each in filters)}  # type: ignore[attr-defined]
    schema = StructType([field for place, field in enumerate(fields) if place < width or field.name in needed])
    assert rows(tasks, log, wanted, cuts, schema) == [{name: row[name] for name in schema.names} for row in found]


def fulfils(row: Row, given: Filter) -> bool:
    value = row[given.attribute[0]]  # type: ignore[attr-defined]
    match given:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualTo():
            return bool(value == given.value)
        case GreaterThanOrEqual():
            return bool(value >= given.value)
        case LessThan():
            return bool(value < given.value)
    raise AssertionError(given)


@given(logs(), OPTIONS, st.sets(st.sampled_from(SESSIONS)), st.lists(st.integers(0, 70), max_size=6))
def test_committed_rows_are_all_that_the_winners_wrote(
    log: MadeUpLog, options: ReadOptions, names: set[SessionId], cuts: list[int]
) -> None:
    """No row of others, and no gap."""
    expected = [row for row in log.entries() if row["session"] in names]
    winners = []
    for name in names:
        places = [LogPosition(row["position"]) for row in expected if row["session"] == name]
        winners += [Winner(name, places[0], places[-1], len(places), 0)] if places else []
    pieces = [PlannedPiece(start=0, stop=log.stop, winners=winners)]

    assert without_time(rows(plan(log, pieces, EVERYTHING, options), log, EVERYTHING, cuts)) == expected


def test_committed_rows_that_are_gone_are_missed() -> None:
    """Their marker lies above the trim point, they below; readers that may miss rows see what is
    left of them."""
    left = PlacedBatch(range(2, 4), Batch.build(SESSIONS[0], 2, [b"c", b"d"]), 1)
    part = Part(start=0, stop=4, segment=None, sessions=frozenset({SESSIONS[0]}))
    table, schema = table_of([Gap(0, 2, GapKind.TRIMMED), left]), to_arrow_schema(SCHEMA, timezone="UTC")

    with pytest.raises(TrimmedError, match="starts at 2"):
        rows_wanted(table, part, schema, EVERYTHING, may_miss=False)
    assert rows_wanted(table, part, schema, EVERYTHING, may_miss=True).column("payload").to_pylist() == [b"c", b"d"]


def test_the_largest_entry_and_an_empty_one_are_rows() -> None:
    """Side by side."""
    batch = Batch.build(SESSIONS[0], 0, [bytes(ENTRY_BYTES_MAX), b""])
    log = MadeUpLog(0, ((PlacedBatch(range(2), batch, 1),),))
    found = rows(plan(log, [PlannedPiece(start=0, stop=2)], EVERYTHING, ReadOptions(cluster="c")), log, EVERYTHING, [])

    assert [(row["size"], row["payload"] == bytes(row["size"])) for row in found] == [
        (ENTRY_BYTES_MAX, True),
        (0, True),
    ]
