"""The bench that streams a log to Parquet and kills its processes finds planted faults, and a small
run is right."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pytest
import trio
from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.spark.java import require_java
from virtuallog.contract.types import LogPosition
from virtuallog_lab.experiments.churn.client import CLOCK
from virtuallog_lab.experiments.spark_stream import stream
from virtuallog_lab.experiments.spark_stream.check import DIGEST_SQL, Entries, differences, digest, unacknowledged
from virtuallog_lab.experiments.spark_stream.driver import TABLE
from virtuallog_lab.experiments.spark_stream.load import Chunk, key_of
from virtuallog_lab.experiments.spark_stream.query import Progress, Query
from virtuallog_lab.experiments.spark_stream.report import report
from virtuallog_lab.experiments.spark_stream.run import StreamFindings, StreamPlan, up_to
from virtuallog_lab.harness.machine import Machine

PLAN = StreamPlan(
    entries=20_000, seconds=40, size=100, keys=100, writes_per_second=30, swap_seconds=4, kills=1, down_seconds=3
)


def entries(*pairs: tuple[int, int]) -> Entries:
    keys, values = zip(*pairs, strict=True) if pairs else ((), ())
    return Entries(np.array(keys, np.int64), np.array(values, np.int64))


LOG = entries((3, 30), (4, 40), (9, 90))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (entries((3, 30), (9, 90)), "1 missing: 4"),
        (entries((3, 30), (4, 40), (9, 90), (4, 40)), "1 there more than once: 4"),
        (entries((4, 40), (3, 31), (9, 90)), "1 not the same: 3"),
        (entries((4, 40), (3, 30), (9, 90), (5, 50)), "1 there, though never put there: 5"),
        (entries(), "3 missing: 3, 4, 9"),
    ],
)
def test_one_entry_that_is_wrong_is_found(table: Entries, words: str) -> None:
    """Missing, doubled, changed, or made up; and the checksum tells, too. In another order nothing is wrong."""
    assert differences(LOG, table, "the table") == [f"the table: {words}"]
    assert table.checksum != LOG.checksum
    shuffled = Entries(LOG.keys[::-1], LOG.values[::-1])
    assert differences(LOG, shuffled, "the table") == []
    assert shuffled.checksum == LOG.checksum == 160


def test_all_below_the_last_tail_must_be_in_the_table() -> None:
    """And what came behind it as far as the table goes: the last driver has asked for its end later."""
    table = entries((3, 30), (4, 40))
    assert differences(up_to(LOG, LogPosition(5), table), table, "the table") == []
    assert differences(up_to(LOG, LogPosition(10), table), table, "the table") == ["the table: 1 missing: 9"]
    assert differences(up_to(LOG, LogPosition(4), table), table, "the table") == []


CHUNKS = [
    Chunk(writer=0, first=0, count=2, place=100),
    Chunk(writer=1, first=0, count=2, place=None),
    Chunk(writer=0, first=2, count=1, place=200),
]
SURE = [(key_of(0, 0), 100), (key_of(0, 1), 101), (key_of(0, 2), 200)]


def test_appends_are_where_they_were_told_to_be() -> None:
    """An append with an unknown outcome is in the log at most once."""
    maybe = (key_of(1, 0), 150)
    assert unacknowledged(CHUNKS, entries(*SURE)) == []
    assert unacknowledged(CHUNKS, entries(*SURE, maybe)) == []
    assert "appends: 1 missing" in unacknowledged(CHUNKS, entries(*SURE[1:]))[0]
    assert "appends: 1 not the same" in unacknowledged(CHUNKS, entries(*SURE[:2], (key_of(0, 2), 201)))[0]
    assert "appends: 1 there more than once" in unacknowledged(CHUNKS, entries(*SURE, SURE[0]))[0]
    assert "unknown outcome: 1 there more than once" in unacknowledged(CHUNKS, entries(*SURE, maybe, maybe))[0]
    assert "never put there" in unacknowledged(CHUNKS, entries(*SURE, (key_of(2, 0), 300)))[0]


def test_where_a_driver_was_killed_is_seen_in_its_files(tmp_path: Path) -> None:
    """As Spark writes them; the sink sums up some of its lists."""
    assert not Progress.look(tmp_path).is_in_a_batch
    for name in ("checkpoint/offsets/10", "checkpoint/commits/9", "table/_spark_metadata/9.compact"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "checkpoint/offsets/.11.crc").touch()
    assert Progress.look(tmp_path) == Progress(planned=10, listed=9, committed=9)
    assert Progress.look(tmp_path).stage == "planned"
    assert attrs.evolve(Progress.look(tmp_path), has_files=True).stage == "writing"
    (tmp_path / "table/_spark_metadata/10").touch()
    assert Progress.look(tmp_path).stage == "listed"
    (tmp_path / "checkpoint/commits/10").touch()
    assert Progress.look(tmp_path).stage == "committed"


def findings(**changes: object) -> StreamFindings:
    usual: dict[str, object] = {
        "plan": PLAN, "seconds": 40.0, "finish_seconds": 20.0, "unknown": 0, "writes": 100, "segments": {"native": 2},
        "swaps": 3, "kills": ["listed"], "batches": 9, "node_kills": 1, "held_from": 7, "fillers": 0,
        "log_entries": 20_100, "log_checksum": 5, "rows": 20_100, "table_checksum": 5, "problems": [],
    }  # fmt: skip
    return StreamFindings(**(usual | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [{"kills": []}, {"node_kills": 0}, {"swaps": 0}, {"held_from": None}, {"log_entries": 9}, {"problems": ["lost"]}],
)
def test_a_run_that_has_not_shown_what_it_should_is_wrong(changes: dict[str, object]) -> None:
    """However equal log and table are."""
    machine = Machine.look()
    assert report(machine, findings()).problems == []
    assert len(report(machine, findings(**changes)).problems) == 1
    assert report(machine, findings(rows=20_099)).tables[1].rows[0][-1] == "missed"


@pytest.mark.slow
def test_spark_computes_the_same_digest(spark: SparkSession) -> None:
    """For any bytes of a payload, and any position."""
    rows = [(0, b""), (1, b"\0\xff"), ((1 << 40) + 1, bytes(range(256))), ((1 << 62), b"x" * 1000)]
    frame = spark.createDataFrame([(at, bytearray(payload)) for at, payload in rows], "position LONG, payload BINARY")
    found = frame.selectExpr("position", f"{DIGEST_SQL} AS digest").collect()
    assert [tuple(row) for row in found] == [(at, digest(at, payload)) for at, payload in rows]


@pytest.mark.long
@pytest.mark.processes
async def test_a_small_run_is_right_and_one_row_less_or_more_is_found(tmp_path: Path) -> None:
    """Real servers, a driver that is killed in a batch, a node that is killed; then one file of the table is changed by one row."""
    require_java()
    found = await stream.run(PLAN, tmp_path / "cluster")
    told = report(Machine.look(), found)
    assert told.problems == []
    assert found.rows > PLAN.entries and found.held_from is not None

    query = Query(tmp_path / "cluster" / "cluster.toml", tmp_path / "cluster" / "spark", CLOCK)
    log, whole = Entries.load(query.folder / "log.npy"), Entries.load(query.folder / "table.npy")
    file, rows = await trio.to_thread.run_sync(largest_file, query.folder / TABLE)
    for changed, words in ((rows.slice(1), "missing"), (pa.concat_tables([rows, rows.slice(0, 1)]), "more than once")):
        replace(file, changed)
        await query.run("collect", 600)
        table = Entries.load(query.folder / "table.npy")
        (problem,) = differences(up_to(log, LogPosition(0), whole), table, "the table")
        assert words in problem
        assert table.checksum != whole.checksum


def largest_file(table: Path) -> tuple[Path, pa.Table]:
    """The largest committed file; others are left by killed drivers."""
    listed = "".join(file.read_text() for file in (table / "_spark_metadata").glob("[0-9]*"))
    files = [file for file in table.glob("part-*.parquet") if file.name in listed]
    file = max(files, key=lambda file: file.stat().st_size)
    return file, parquet.read_table(file, partitioning=None)


def replace(file: Path, rows: pa.Table) -> None:
    """As if Spark had written these: its checksums and its list of files, which says how long they are, would give it away."""
    before = file.stat().st_size
    parquet.write_table(rows, file)
    for changed in (file, *(file.parent / "_spark_metadata").glob("[0-9]*")):
        if changed is not file:
            lines = [
                line if file.name not in line else resized(line, before, file)
                for line in changed.read_text().split("\n")
            ]
            changed.write_text("\n".join(lines))
        changed.with_name(f".{changed.name}.crc").unlink(missing_ok=True)


def resized(line: str, before: int, file: Path) -> str:
    assert f'"size":{before},' in line
    return line.replace(f'"size":{before},', f'"size":{file.stat().st_size},')
