"""Parts of an audit that need no Spark: time buckets, sums of several tasks, verdicts, and their
text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import attrs
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pyspark_virtuallog.audit.core.anomalies import EXAMPLES_MAX, Anomalies
from pyspark_virtuallog.audit.core.evidence import Ends, Evidence, GapSum, ObservedRange, SegmentSum
from pyspark_virtuallog.audit.core.findings import ChainHistory, ChainSegment, Finding, Findings, Severity
from pyspark_virtuallog.audit.core.observation_sums import ObservationSums, rates_of, segments_of
from pyspark_virtuallog.audit.core.row_observer import AGAIN, MISSING, TIME_BACK, observe
from pyspark_virtuallog.audit.core.summary import summary
from pyspark_virtuallog.audit.core.text import size_text, span_text
from pyspark_virtuallog.audit.core.time_buckets import LADDER, SPANS_MAX, Counts, TimeBuckets, span_for
from pyspark_virtuallog.audit.database_entries import (
    FOREIGN,
    NEWER,
    SESSIONS,
    STRAY,
    DatabaseObserver,
    changes,
    prefix_of,
)
from pyspark_virtuallog.audit.verdicts import judge
from tests.spark.audit.audit_rows import Log, batches, database_entries, sound_log
from virtuallog_database.tree import commands

CHAIN = ChainHistory(version=3, segments=[ChainSegment(segment="1.a", loglet="native", start=0, stop=None)])
ENTRY = Counts(entries=1, bytes=10, fillers=0, first=5, last=5)


def piece(first: int, last: int, *, ends_in_gap: bool = False, times: tuple[int, int] = (0, 0)) -> ObservedRange:
    return ObservedRange(
        first=first, last=last, ends_in_gap=ends_in_gap, first_segment="1.a", last_segment="1.a",
        first_time_ms=times[0], last_time_ms=times[1],
    )  # fmt: skip


def judged(evidence: Evidence, start: int = 0, stop: int = 10) -> dict[str, Finding]:
    return {finding.check: finding for finding in judge(evidence, CHAIN, start, stop, is_database=False)}


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 22))
def test_spans_are_few_and_fit_into_each_other(low: int, length: int) -> None:
    """So that what one task has counted in short ones can be counted in the longer ones of another."""
    span = span_for(low, low + length)

    assert (low + length) // span - low // span < SPANS_MAX or span == LADDER[-1]
    assert all(long % short == 0 for short, long in pairwise(LADDER))


@given(st.lists(st.integers(0, 100_000), min_size=1))
def test_tallies_stay_few_and_lose_nothing(buckets: list[int]) -> None:
    """A log of a year takes as many rows as one of a minute."""
    tallies = TimeBuckets(keys_max=10)
    for bucket in buckets:
        tallies.add("1.a", "native", bucket, ENTRY)

    assert len(tallies.counts) <= 10
    assert sum(counts.entries for counts in tallies.counts.values()) == len(buckets)
    assert {bucket for _, _, bucket in tallies.counts} == {bucket // tallies.span * tallies.span for bucket in buckets}


def test_the_first_of_many_remarks_are_kept_and_all_are_counted() -> None:
    """A log that is wrong everywhere does not fill the memory of who says so."""
    remarks = Anomalies()
    for position in range(1000):
        remarks.add("wrong", position, "")

    assert [remark.position for remark in remarks] == list(range(EXAMPLES_MAX))
    assert sum(remark.count for remark in remarks) == 1000


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_what_tasks_saw_adds_up(parts: int) -> None:
    """However many there are: the same segments, rates and pieces that lie side by side."""
    rows = sound_log().rows
    size = -(-len(rows) // parts)
    cut = [rows[at : at + size] for at in range(0, len(rows), size)]
    folded = ObservationSums.of(row for part in cut for batch in observe(batches(part)) for row in batch.to_pylist())
    tallies = folded.tallies()

    assert [(each.segment, each.entries, each.bytes, each.fillers, each.first) for each in segments_of(tallies)] == [
        ("1.a", 15, 55, 0, 0),
        ("2.b", 21, 85, 5, 15),
    ]
    assert [(rate.loglet, rate.entries) for rate in rates_of(tallies)] == [("native", 15), ("paxos", 21)]
    assert len(folded.pieces) == parts


@pytest.mark.parametrize(
    ("pieces", "wrong"),
    [
        ([piece(0, 4), piece(5, 9)], {}),
        ([piece(0, 4, ends_in_gap=True), piece(7, 9)], {}),
        ([piece(0, 4, ends_in_gap=True)], {}),
        ([piece(5, 9), piece(0, 4)], {}),
        ([piece(0, 4), piece(7, 9)], {MISSING: "no row for [5, 7)"}),
        ([piece(2, 9)], {MISSING: "no row for [0, 2)"}),
        ([piece(0, 7)], {MISSING: "no row for [8, 10)"}),
        ([], {MISSING: "no row for [0, 10)"}),
        ([piece(0, 5), piece(3, 9)], {AGAIN: "[3, 6) was read by two tasks"}),
        ([piece(0, 4, times=(5, 9)), piece(5, 9, times=(7, 9))], {TIME_BACK: "by 2 ms at 5"}),
    ],
)
def test_pieces_must_lie_side_by_side(pieces: Sequence[ObservedRange], wrong: dict[str, str]) -> None:
    """From the start of the audit to its end; a gap reaches to wherever the next one begins."""
    findings = judged(Evidence(pieces=pieces))

    found = {check: each.examples[0] for check, each in findings.items() if each.severity is not Severity.FINE}
    assert found == wrong


def test_what_was_trimmed_before_is_fine() -> None:
    """Positions trimmed before the audit are fine, lost ones are not; those trimmed during it are worth a note."""
    pieces = [piece(0, 9)]
    before = GapSum(kind="trimmed", count=1, examples=[(0, 5)])
    meanwhile = GapSum(kind="trimmed", count=2, examples=[(0, 5), (7, None)])
    lost = GapSum(kind="lost", count=1, examples=[(3, 4)])

    assert judged(Evidence(pieces=pieces, gaps=[before]))["trimmed"].severity is Severity.FINE
    noted = judged(Evidence(pieces=pieces, gaps=[meanwhile]))["trimmed"]
    assert (noted.severity, noted.examples) == (Severity.NOTABLE, ["[0, 5)", "[7, ...)"])
    assert judged(Evidence(pieces=pieces, gaps=[lost]))["lost"].severity is Severity.VIOLATION


def segment(name: str, loglet: str) -> SegmentSum:
    return SegmentSum(
        segment=name, loglet=loglet, entries=5, bytes=5, fillers=0, first=0, last=9, first_ms=None, last_ms=None
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "severity"),
    [
        (segment("1.a", "native"), Severity.FINE),
        (segment("1.a", "paxos"), Severity.VIOLATION),
        (segment("4.b", "archive"), Severity.NOTABLE),
    ],
)
def test_segments_must_be_those_of_the_chain(seen: SegmentSum, severity: Severity) -> None:
    """One that is not in it came in meanwhile: an archive took the place of another."""
    assert judged(Evidence(pieces=[piece(0, 9)], segments=[seen]))["chain"].severity is severity


@pytest.mark.parametrize(
    ("ends", "severity", "count"),
    [
        (Ends(asked=3), Severity.FINE, 0),
        (Ends(asked=3, silent=["1.a: no answer"]), Severity.NOTABLE, 1),
        (Ends(asked=3, silent=["1.a: no answer"], wrong=["2.b is not sealed"] * 99), Severity.VIOLATION, 99),
    ],
)
def test_segments_must_end_where_the_chain_says(ends: Ends, severity: Severity, count: int) -> None:
    """One that does not answer may do so; examples are few."""
    found = judged(Evidence(pieces=[piece(0, 9)], ends=ends))["segment ends"]

    assert (found.severity, found.count) == (severity, count)
    assert len(found.examples) <= EXAMPLES_MAX


def test_commands_are_counted_by_the_first_part_of_their_paths() -> None:
    """All of a group and all of a multi; what is checked only is not written; sessions have a line of their own."""
    operations: list[commands.Operation] = [
        commands.Multi((commands.Create("/a/b/c", b"123"), commands.Check("/x"), commands.Delete("/a/d"))),
        commands.Reap(("/e/f",)),
        commands.Touch((1, 2)),
    ]

    assert [each for operation in operations for each in changes(operation)] == [
        ("/a/b/c", False, 9),
        ("/a/d", True, 4),
        ("/e/f", True, 4),
        ("", False, 0),
    ]
    assert [prefix_of("/a/b/c", depth) for depth in (1, 2, 3, 4)] == ["/a", "/a/b", "/a/b/c", "/a/b/c"]
    assert [prefix_of("/", 1), prefix_of("/a", 2), prefix_of("", 1)] == ["/", "/a", SESSIONS]


def test_entries_that_nobody_can_read_are_told() -> None:
    """Each with its position; what comes after is read all the same."""
    newer = b"VE\x09" + bytes(9)
    newer += crc32c(newer).to_bytes(4, "little")
    log = Log()
    log.append(b"of another writer", newer, b"VE\x01\x05", *database_entries())
    found = [row for batch in observe(batches(log.rows), [DatabaseObserver()]) for row in batch.to_pylist()]
    remarks = {row["remark"]["check"]: row["remark"]["position"] for row in found if row["remark"]}
    reports = [row["report"] for row in found if row["report"]]

    assert (remarks[STRAY], remarks[NEWER], remarks[FOREIGN]) == (0, 1, 2)
    assert [(report["compared"], report["replica"]) for report in reports] == [(7, "1-a"), (7, "2-b")]


def test_the_worst_is_told_first_and_json_has_all() -> None:
    """In a terminal with a few examples."""
    examples = [f"at {number}" for number in range(9)]
    wrong = Finding(check="x", severity=Severity.VIOLATION, text="9 faults", count=9, examples=examples)
    findings = Findings(
        cluster="5e",
        start=0,
        stop=10,
        findings=[wrong],
        chain=CHAIN,
        evidence=Evidence(segments=[segment("1.a", "native")]),
    )
    plain = json.loads(json.dumps(findings.plain()))

    assert list(summary(findings)) == [
        "WRONG  9 faults",
        *(f"       at {number}" for number in range(5)),
        "       ...",
        "5 entries in [0, 10): 1 of 1 checks found the log wrong",
    ]
    assert (plain["violations"], plain["entries"], plain["findings"][0]["severity"]) == (1, 5, "violation")
    assert plain["findings"][0]["examples"] == examples
    assert plain["evidence"]["segments"] == [attrs.asdict(segment("1.a", "native"))]


def test_sizes_and_spans_are_told_as_people_do() -> None:
    """In powers of a thousand, in the longest unit of time that fits."""
    assert [size_text(size) for size in (0, 812, 1500, 123_456, 2_500_000_000)] == [
        "0 bytes",
        "812 bytes",
        "1.5 KB",
        "123 KB",
        "2.5 GB",
    ]
    assert [span_text(1000 * seconds) for seconds in (10, 60, 300, 3600, 86_400)] == [
        "10 seconds",
        "a minute",
        "5 minutes",
        "an hour",
        "a day",
    ]
