"""Observations of an audit's task: every planted fault, however the rows are cut into pieces, and
none in a sound log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyspark_virtuallog.audit.core.row_observer import AGAIN, MISSING, TIME_BACK, PayloadObserver, observe
from pyspark_virtuallog.audit.core.sink_markers import MARKED, NEWER_MARKER, MarkerObserver
from pyspark_virtuallog.markers.marker import Marker, QueryId, Winner
from tests.spark.audit.audit_rows import BEGIN_MS, Log, Rows, batches, session_id, sound_log
from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import LogPosition

Seen = dict[str, list[dict[str, Any]]]
sizes = pytest.mark.parametrize("size", [1, 2, 3, 7, 50])


def seen(rows: Rows, size: int = 4, looks: Sequence[PayloadObserver] = ()) -> Seen:
    """All observations by their sort."""
    found: Seen = {}
    for batch in observe(batches(rows, size), looks):
        for kind in batch.schema.names:
            found.setdefault(kind, []).extend(each for each in batch[kind].to_pylist() if each is not None)
    return found


@sizes
def test_a_sound_log_has_no_remarks(size: int) -> None:
    """All its entries are in tallies and in runs, and its piece covers it from the first row to the last."""
    log = sound_log()
    found = seen(log.rows, size)
    entries = [row for row in log.rows if row["gap"] is None]

    assert not found["remark"]
    assert not found["gap"]
    assert sum(tally["entries"] for tally in found["tally"]) == len(entries)
    assert sum(tally["bytes"] for tally in found["tally"]) == sum(len(row["payload"]) for row in entries)
    assert sum(tally["fillers"] for tally in found["tally"]) == 5
    assert sum(run["count"] for run in found["run"]) == len(entries)
    assert found["piece"] == [
        {"first": 0, "last": log.position - 1, "ends_in_gap": False, "first_segment": "1.a", "last_segment": "2.b",
         "first_time_ms": BEGIN_MS + 1, "last_time_ms": log.time_ms, "kept_from": None}
    ]  # fmt: skip


def test_sessions_that_take_turns_are_a_run_each() -> None:
    """However often they do: what Spark has to sort is not as long as the log."""
    found = seen(sound_log().rows, 1000)

    assert [(run["session"].rstrip(b"\0"), run["first"], run["count"]) for run in found["run"]] == [
        (b"a", 0, 26),
        (b"b", 0, 10),
    ]


def without_an_entry(rows: Rows) -> None:
    del rows[7]


def with_an_entry_again(rows: Rows) -> None:
    rows.insert(9, dict(rows[6]))


def with_a_clock_that_went_back(rows: Rows) -> None:
    rows[8]["time"] -= 5_000_000


@pytest.mark.parametrize(
    ("plant", "check", "count", "position", "text"),
    [
        (without_an_entry, MISSING, 1, 7, "no row for [7, 8)"),
        (with_an_entry_again, AGAIN, 1, 6, "position 6 stands behind 8"),
        (with_a_clock_that_went_back, TIME_BACK, 1, 8, "by 4999 ms at 8"),
    ],
)
@sizes
def test_a_fault_is_seen_wherever_rows_are_cut(
    plant: Callable[[Rows], None], check: str, count: int, position: int, text: str, size: int
) -> None:
    """Also between the last row of one table and the first one of the next."""
    rows = sound_log().rows
    plant(rows)
    remarks = [remark for remark in seen(rows, size)["remark"] if remark["check"] == check]

    assert remarks == [{"check": check, "count": count, "position": position, "text": text}]


@sizes
def test_gaps_are_told_with_their_ends(size: int) -> None:
    """Except for the last row's gap, which ends where the next piece begins; fillers are only
    counted."""
    log = Log()
    log.gap("trimmed", 100)
    log.append(b"x")
    log.gap("lost", 7)
    log.append(b"y")
    log.gap("filler", 3)
    log.gap("lost", 5)

    found = seen(log.rows, size)
    assert [(gap["kind"], gap["start"], gap["stop"]) for gap in found["gap"]] == [
        ("trimmed", 0, 100),
        ("lost", 101, 108),
        ("lost", 112, None),
    ]
    assert [each["kept_from"] for each in found["piece"]] == [100]
    log.gap("trimmed", 7)
    assert [each["kept_from"] for each in seen(log.rows, size)["piece"]] == [118]


def test_another_segment_may_have_another_clock() -> None:
    """Time goes on from where its own sequencer has it."""
    log = Log()
    log.append(b"x")
    log.extend("2.b", "native")
    log.time_ms -= 60_000
    log.append(b"y")

    assert not seen(log.rows)["remark"]


def test_markers_name_sessions() -> None:
    """A row for each; a marker of a later version is a remark; an entry that only begins like one
    is nothing."""
    winners = tuple(Winner(SessionId(session_id(name)), LogPosition(0), LogPosition(4), 5, 50) for name in "ab")
    marker = Marker(QueryId(bytes(16)), None, None, winners).encode()
    newer = marker[:8] + b"\x09" + marker[9:]
    log = Log()
    log.append(b"VLMARKER, or so", marker, newer)
    found = seen(log.rows, looks=[MarkerObserver()])

    assert [(row["position"], row["session"], row["batch"]) for row in found["marker"]] == [
        (1, session_id("a"), None),
        (1, session_id("b"), None),
    ]
    assert [(row["check"], row["position"]) for row in found["remark"]] == [(MARKED, 1), (NEWER_MARKER, 2)]
