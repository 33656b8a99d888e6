"""An audit as a whole: faults that only several tasks together can see, each planted once, and none in a sound log."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_virtuallog.audit.aggregation import gather
from pyspark_virtuallog.audit.core.evidence import Comparisons, Evidence, Markers
from pyspark_virtuallog.audit.core.findings import ChainHistory, ChainSegment, Finding, Severity
from pyspark_virtuallog.audit.core.observations import SCHEMA
from pyspark_virtuallog.audit.core.row_observer import observe
from pyspark_virtuallog.audit.core.sink_markers import MarkerObserver
from pyspark_virtuallog.audit.database_entries import DatabaseObserver
from pyspark_virtuallog.audit.verdicts import DOUBLED, REORDERED, SKIPPED, UNKEPT, judge
from pyspark_virtuallog.markers.marker import Checkpoint, Marker, QueryId, Winner
from tests.spark.audit.audit_rows import Log, Rows, batches, database_entries, session_id, sound_log
from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import LogPosition

CHAIN = ChainHistory(
    version=2,
    segments=[
        ChainSegment(segment="1.a", loglet="native", start=0, stop=15),
        ChainSegment(segment="2.b", loglet="paxos", start=15, stop=None),
    ],
)
QUERY = QueryId(b"q" * 16)


def audited(spark: SparkSession, log: Log, *, is_database: bool = True) -> tuple[Evidence, dict[str, Finding]]:
    """Audit the log as if three tasks had each read a part."""
    evidence = gather(observed(spark, log.rows), prefixes_max=2, is_database=is_database)
    findings = judge(evidence, CHAIN, 0, log.position, is_database=is_database)
    return evidence, {finding.check: finding for finding in findings}


def observed(spark: SparkSession, rows: Rows) -> DataFrame:
    size = -(-len(rows) // 3)
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    found = [each for part in parts for each in observe(batches(part, 1000), [MarkerObserver(), DatabaseObserver()])]
    return spark.createDataFrame(pa.Table.from_batches(found, schema=SCHEMA))


def append_committed(log: Log, name: str, batch: int, entries: int = 3) -> None:
    """Rows of a task, and the marker that names them; it says `entries`, whether that is so or not."""
    start = log.position
    log.append(b"row", b"row", b"row", session=name)
    winner = Winner(SessionId(session_id(name)), LogPosition(start), LogPosition(start + 2), entries, 9)
    marker = Marker(QUERY, batch, Checkpoint(LogPosition(start), ()), (winner,))
    log.append(marker.encode(), session=f"driver {batch}")


@pytest.mark.slow
@pytest.mark.long
def test_a_sound_log_is_fine(spark: SparkSession) -> None:
    """Observations of several tasks add up: sessions, bytes written to keys, equal states,
    committed rows."""
    log = sound_log()
    log.append(*database_entries())
    append_committed(log, "winner", 7)
    append_committed(log, "came too late", 7)
    evidence, findings = audited(spark, log)

    assert {check for check, finding in findings.items() if finding.severity is not Severity.FINE} == {"stray entry"}
    assert evidence.sessions == 5
    assert [(session.entries, session.start) for session in evidence.largest_sessions[:2]] == [(31, 0), (10, 2)]
    assert evidence.comparisons == Comparisons(rounds=1, reports=2)
    assert [attrs.astuple(prefix) for prefix in evidence.prefixes] == [("/big", 3, 1, 3024), ("/small", 1, 0, 12)]
    assert evidence.markers == Markers(
        batches=1, queries=1, committed_entries=3, uncommitted_sessions=4, uncommitted_entries=46
    )


@pytest.mark.slow
@pytest.mark.long
def test_each_fault_is_found(spark: SparkSession) -> None:
    """Whichever tasks it lies between, with the place where it is; nothing else is said to be wrong."""
    log = sound_log()
    log.append(*database_entries(agree=False))
    append_committed(log, "broken", 1, entries=2)
    begin = log.position
    log.append(b"0", b"1", b"2", b"3", b"4", session="doubled")
    log.sequences["doubled"] = 3
    log.append(b"3 again", b"4 again", session="doubled")
    log.append(b"0", session="skipped")
    log.sequences["skipped"] = 5
    log.append(b"5", session="skipped")
    log.sequences["turned"] = 1
    log.append(b"1", session="turned")
    log.sequences["turned"] = 0
    log.append(b"0", session="turned")
    log.gap("lost", 4)
    log.append(b"x", session="b")
    _, findings = audited(spark, log)
    wrong = {check: finding.count for check, finding in findings.items() if finding.severity is Severity.VIOLATION}

    assert wrong == {DOUBLED: 2, SKIPPED: 4, REORDERED: 1, UNKEPT: 1, "lost": 1, "states agree": 1}
    told = {check: finding.examples for check, finding in findings.items()}
    assert told[DOUBLED] == [f"session {session_id('doubled').hex()}: 3 to 4 in runs from {begin} and from {begin + 5}"]
    assert told[SKIPPED] == [f"session {session_id('skipped').hex()}: 1 to 4 are not there, before {begin + 8}"]
    assert told[REORDERED] == [f"session {session_id('turned').hex()}: 0 to 0 at {begin + 10}, behind 1"]
    assert told[UNKEPT] == [f"session {session_id('broken').hex()}: 3 entries of 2, named at {begin - 1}"]
    assert told["states agree"] == ["at 7: 2-b in keys 6e not as 1-a, and none has a majority"]
    assert told["lost"] == [f"[{begin + 11}, {begin + 15})"]


@pytest.mark.slow
@pytest.mark.long
def test_what_is_trimmed_while_it_is_read_is_not_missing(spark: SparkSession) -> None:
    """One task has read the rows at the beginning, another one came too late for those behind: sessions and markers are judged from
    where on all of the log was there for all."""
    log = sound_log()
    append_committed(log, "winner", 1)
    begin = log.position
    append_committed(log, "later", 2)
    log.append(b"last", session="a")
    first, last = (next(row["position"] for row in log.rows if row["sequence"] == at) for at in (4, 9))
    gone = [row for row in log.rows if first <= row["position"] < last or begin - 4 <= row["position"] < begin - 1]
    for row in gone:
        row.update(dict.fromkeys(("payload", "time", "session", "sequence", "size")), gap="trimmed")
    evidence, findings = audited(spark, log, is_database=False)

    assert not [check for check, finding in findings.items() if finding.severity is Severity.VIOLATION]
    assert findings["trimmed"].severity is Severity.NOTABLE
    assert evidence.markers.batches == 2
