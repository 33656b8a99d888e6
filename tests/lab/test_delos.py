"""Report on the latencies before and after a swap."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from virtuallog_lab.experiments.swaps.delos_load import APPEND, READ, LatencySample
from virtuallog_lab.experiments.swaps.delos_report import DelosOutcome, draw, report
from virtuallog_lab.harness.machine import Machine

MACHINE = Machine(cpus=2, kernel="6.1", python="3.11.7", load=0.5)


def samples(before: float, after: float) -> list[LatencySample]:
    """One due each tenth of a second, slow before the tenth second and fast behind it; a cold start before the second one."""
    return [
        LatencySample(number / 10, 9.0 if number < 20 else before if number < 100 else after) for number in range(200)
    ]


OUTCOME = DelosOutcome(
    samples={APPEND: samples(0.010, 0.002), READ: samples(0.030, 0.003)},
    warm=2.0,
    asked=10.0,
    decided=10.02,
    settled=11.0,
    rates={APPEND: 10.0, READ: 10.0},
    unknown=0,
    entries=200,
    problems=(),
)


def test_the_factors_stand_beside_the_published_ones() -> None:
    """Factors compare operations due on each side; the warm-up and the swap belong to neither."""
    told = report(MACHINE, OUTCOME)

    assert told.tables[1].rows == [[APPEND, "5.0", "5.0", "5x (writes)"], [READ, "10.0", "10.0", "10x (reads)"]]
    assert told.plain["swap_ms"] == pytest.approx(20.0)
    assert not told.problems


def test_figures_of_a_queue_are_none_of_the_log() -> None:
    """A load that is too much for the machine is a problem, and so is a side without any answer."""
    slow = attrs.evolve(OUTCOME, samples={APPEND: samples(5.0, 0.002), READ: []})

    assert [problem.split(" took")[0] for problem in report(MACHINE, slow).problems] == [
        "half of the appends that were due before the swap",
        "half of the linearizable reads that were due before the swap",
        "half of the linearizable reads that were due after the swap",
    ]


def test_it_can_be_drawn(tmp_path: Path) -> None:
    """The measurements are drawn as a PNG."""
    draw(OUTCOME, tmp_path / "delos.png")

    assert (tmp_path / "delos.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
