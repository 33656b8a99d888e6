"""The programs that measure reads: small runs of each, and their reports."""

from __future__ import annotations

from functools import partial

import pytest

from virtuallog_lab.experiments.reads import scan_rate, tail_latency, visibility
from virtuallog_lab.experiments.reads.scan_rate import SOCKET, Pass
from virtuallog_lab.experiments.reads.tail_latency import Deliveries
from virtuallog_lab.experiments.reads.visibility import Sightings
from virtuallog_lab.harness.machine import Machine


def test_all_pairs_of_servers_take_turns() -> None:
    """A write is never looked for where it was made."""
    pairs = [visibility._pair(number, 3) for number in range(6)]

    assert len(set(pairs)) == 6
    assert all(writer != reader for writer, reader in pairs)


def test_the_report_has_a_row_for_each_system() -> None:
    """Delays of all rounds together; CPU time is the mean of the rounds."""
    rounds = [
        Sightings(system="A", delays=[0.001, 0.002], writes=[0.003] * 2, stale=1, cpu_us=1000.0),
        Sightings(system="B", delays=[0.01], writes=[0.003], stale=0, cpu_us=0.0),
        Sightings(system="A", delays=[0.003], writes=[0.003], stale=1, cpu_us=3000.0),
    ]
    report = visibility.report(Machine.look(), rounds, 40.0)

    assert [row[:3] for row in report.tables[0].rows] == [["A", "3", "2"], ["B", "1", "0"]]
    assert report.plain["systems"]["A"]["p50_ms"] == 2.0
    assert report.plain["systems"]["A"]["cpu_us"] == 2000.0


def test_a_rate_is_compared_with_the_copy_of_its_round() -> None:
    """One round on a busy machine changes both."""
    passes = [
        Pass(way=way, seconds=seconds, cpu_seconds=1.0, bytes=1_000_000)
        for seconds_of_copy in (1.0, 10.0)
        for way, seconds in (
            ("batches", 2 * seconds_of_copy),
            ("entries", 4 * seconds_of_copy),
            (SOCKET, seconds_of_copy),
        )
    ]
    report = scan_rate.report(Machine.look(), passes, 100)

    assert [row[2] for row in report.tables[0].rows] == ["0.50 (0.50-0.50)", "0.25 (0.25-0.25)", "1.00 (1.00-1.00)"]


def test_a_delivery_is_timed_from_the_append_and_from_its_acknowledgement() -> None:
    """A reader may have an entry before its appender has the answer."""
    found = Deliveries(loglet="native", appended=[1.0], acknowledged=[1.003], delivered=[1.002])
    spreads = tail_latency.report(Machine.look(), [found], 40.0).plain["loglets"]["native"]

    assert {name: spread["p50_ms"] for name, spread in spreads.items()} == {
        "append to delivery": 2.0,
        "acknowledgement to delivery": -1.0,
        "append to acknowledgement": 3.0,
    }


@pytest.mark.processes
async def test_writes_are_seen_at_other_servers() -> None:
    """A small run, on real processes."""
    (found,) = await visibility.run({"ours": partial(visibility.open_ours, "native")}, 1, 6, 100.0)

    assert len(found.delays) == len(found.writes) == 6
    assert found.cpu_us > 0


@pytest.mark.processes
async def test_a_parked_reader_gets_all_entries() -> None:
    """In order, each after it was appended."""
    (found,) = await tail_latency.run(["native"], 5, 100.0)

    assert all(start < stop for start, stop in zip(found.appended, found.delivered, strict=True))


@pytest.mark.processes
async def test_a_scan_reads_all_bytes_in_each_way() -> None:
    """One round; the pass before it does not count."""
    found = await scan_rate.run(1, 100, 1)

    assert [each.way for each in found] == ["batches", "entries", SOCKET]
    assert len({each.bytes for each in found}) == 1
