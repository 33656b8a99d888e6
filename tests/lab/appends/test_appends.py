"""Summary of `virtuallog_lab.experiments.appends.append`, and a small run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from virtuallog_lab.experiments.appends.samples import (
    FLOOR,
    LOGLET,
    NATIVE_SYSTEMS,
    PAXOS_LOGLET,
    PYSYNCOBJ,
    SYSTEMS,
    VIRTUAL_LOG,
    AppendSample,
)
from virtuallog_lab.experiments.appends.summary import as_markdown, draw, put_into, summarize


def sample(system: str, outstanding: int, ops_per_s: float, p50_ms: float = 1.0) -> AppendSample:
    cpu = {"client": 1.0, "sequencer": 2.0, "servers": 3.0}
    return AppendSample(
        system=system, outstanding=outstanding, bytes=100, ops_per_s=ops_per_s, p50_ms=p50_ms, p99_ms=9.0, cpu_us=cpu
    )


def test_medians_are_compared_with_the_floor_of_the_same_run() -> None:
    """The middle round counts; a single bad one moves nothing but the spread."""
    rounds = [(1000.0, 700.0), (1200.0, 100.0), (1100.0, 770.0)]
    samples = [s for floor, own in rounds for s in (sample(FLOOR, 64, floor), sample(VIRTUAL_LOG, 64, own, 1.5))]

    floor, own = summarize(samples)
    assert (floor.ops_per_s, own.ops_per_s, own.spread) == (1100.0, 700.0, (100.0, 770.0))
    assert "| 64 | VirtualLog | 700 | 100, 770 | 0.64 | 1.50 | 1.50 | 9.00 | 1.0 | 2.0 | 3.0 |" in as_markdown(
        [floor, own]
    )


def test_without_the_floor_there_are_no_ratios() -> None:
    """A figure by itself is shown, and not compared with anything."""
    assert "| 1 | VirtualLog | 5 | 5, 5 | - | 1.00 | - |" in as_markdown(summarize([sample(VIRTUAL_LOG, 1, 5.0)]))


def test_another_loglet_is_compared_with_the_native_one() -> None:
    """A system that divides its work among processes in another way has no figures of CPU."""
    other = AppendSample(system=PYSYNCOBJ, outstanding=64, bytes=100, ops_per_s=250.0, p50_ms=4.0, p99_ms=9.0)
    summaries = summarize([sample(LOGLET, 64, 1000.0), sample(PAXOS_LOGLET, 64, 510.0, 1.2), other])
    table = as_markdown(summaries, LOGLET)

    assert "| of native | p50 ms | of native |" in table
    assert "| 64 | paxos loglet | 510 | 510, 510 | 0.51 | 1.20 | 1.20 | 9.00 | 1.0 | 2.0 | 3.0 |" in table
    assert "| 64 | PySyncObj, never syncs | 250 | 250, 250 | 0.25 | 4.00 | 4.00 | 9.00 | - | - | - |" in table


def test_tables_take_the_place_of_earlier_ones_in_a_document(tmp_path: Path) -> None:
    """Text around the marks stays; a document without marks is refused."""
    page = tmp_path / "page.md"
    page.write_text(Path("docs/results/performance.md").read_text())
    put_into(page, "| old |")
    put_into(page, "| new |")
    put_into(page, "| paxos |", "--loglet paxos ")

    text = page.read_text()
    assert "| new |" in text
    assert "| old |" not in text
    assert text.index("| new |") < text.index("| paxos |")
    assert text.startswith("# Performance")
    assert "## How an append travels" in text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="has no lines"):
        put_into(page, "")


@pytest.mark.slow
def test_the_figure_is_the_same_for_the_same_samples(tmp_path: Path) -> None:
    """It is checked in: drawing it again must not change a byte."""
    samples = [sample(system, count, 100.0 * count) for system in SYSTEMS for count in (1, 64)]
    one, two = tmp_path / "one.svg", tmp_path / "two.svg"
    for path in (one, two):
        draw(summarize(samples), path)
    assert one.read_bytes() == two.read_bytes()
    assert b"<svg" in one.read_bytes()


@pytest.mark.processes
@pytest.mark.long
def test_a_small_run_measures_the_floor_and_every_system_of_ours() -> None:
    """One object per measurement on stdout, with the CPU time of each process."""
    arguments = ["--rounds", "1", "--seconds", "0.3", "--outstanding", "1,8", "--segments", "2", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "virtuallog_lab.experiments.appends.append", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    measured = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(m["system"], m["outstanding"]) for m in measured] == [
        (system, count) for count in (1, 8) for system in NATIVE_SYSTEMS
    ]
    assert all(m["ops_per_s"] > 0 and min(m["cpu_us"].values()) > 0 for m in measured)


@pytest.mark.processes
@pytest.mark.long
def test_a_small_run_puts_paxos_beside_native() -> None:
    """Each on processes of its own, in turn, with figures of the process that orders; the last lines are the table."""
    systems = [argument for system in (LOGLET, PAXOS_LOGLET) for argument in ("--system", system)]
    arguments = ["--loglet", "paxos", "--rounds", "1", "--seconds", "0.3", "--outstanding", "8", *systems]
    done = subprocess.run(
        [sys.executable, "-m", "virtuallog_lab.experiments.appends.append", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    native, paxos = done.stdout.splitlines()[-3:-1]
    assert native.startswith("| 8 | native loglet | ")
    assert paxos.startswith("| 8 | paxos loglet | ")
    assert "1.00" in native
    assert " - |" not in paxos
