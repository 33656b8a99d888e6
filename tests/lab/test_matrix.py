"""Matrix of the swaps of a tour."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_lab.bench.matrix import Matrix
from virtuallog_lab.bench.matrix_page import swap_page
from virtuallog_lab.bench.matrix_picture import draw
from virtuallog_lab.bench.reconfigure import ClusterSwaps, SwapMatrixOutcome, SwapMatrixPlan, conclude
from virtuallog_lab.bench.steps import PHASES
from virtuallog_lab.bench.swaps import SwapCost
from virtuallog_lab.bench.targets import choose, target_names
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.trial import TrialLoad
from virtuallog_server.report import render

MACHINE = Machine(cpus=2, kernel="6.1", python="3.11.7", load=0.5)
TARGETS = choose(["native", "paxos"], None)


def seen(source: str, target: str, gap: float, *, split: bool = True) -> SwapCost:
    phases = {phase: gap / len(PHASES) for phase in PHASES} if split else None
    return SwapCost(source=source, target=target, gap=gap, quiet=0.001, answered=gap, phases=phases)


def outcome_of(swaps: list[SwapCost], problems: tuple[str, ...] = ()) -> SwapMatrixOutcome:
    plan = SwapMatrixPlan(targets=TARGETS, swaps=1, load=TrialLoad(), window_seconds=0.1)
    first = [seen("native", "paxos", 0.25)]
    part = ClusterSwaps(first=first, seen=swaps, acknowledged=7, unknown=0, entries=7, problems=problems)
    return conclude(plan, MACHINE, [part, part])


ALL = [
    seen(source, target, 0.01 * number)
    for number, (source, target) in enumerate(product(("native", "paxos"), repeat=2), start=1)
]


def test_each_pair_has_its_own_cell() -> None:
    """From the left to the top; what was swapped twice counts twice."""
    told = outcome_of(ALL)

    assert told.report.tables[0].rows == [["native", "10", "20"], ["paxos", "30", "40"]]
    assert {cell.swaps for cell in told.matrix.cells} == {2}
    assert told.matrix.worst.name == "paxos → paxos"
    assert told.report.plain["first_visits_ms"] == {"paxos": [250.0, 250.0]}
    assert "14 entries acknowledged" in told.report.verdict


def test_what_was_not_swapped_or_could_not_be_split_is_no_figure() -> None:
    """A dash, not a nought."""
    matrix = Matrix.of(["native", "paxos"], [seen("native", "paxos", 0.02, split=False)])
    square, _, _, timelines = matrix.tables()

    assert square.rows == [["native", "-", "20"], ["paxos", "-", "-"]]
    assert timelines.rows == [["native → paxos", *["-"] * len(PHASES), "20.0"]]


def test_it_can_be_drawn_and_put_on_a_page(tmp_path: Path) -> None:
    """A wrong history is drawn as well, and the page says so first."""
    told = outcome_of(ALL, ("entry 3/4 is lost",))
    draw(told.matrix, "swaps", tmp_path / "swaps.png")
    page = render(swap_page(told, "virtuallog bench reconfigure", "today"))

    assert (tmp_path / "swaps.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "entry 3/4 is lost" in page
    assert "The log is wrong." in page
    assert "nothing lost" not in page


@pytest.mark.parametrize(("swaps", "rounds"), [(1, [1]), (4, [4]), (10, [4, 4, 2])])
def test_long_tours_go_over_several_clusters(swaps: int, rounds: list[int]) -> None:
    """A chain that gets longer all the time would make each swap slower."""
    assert SwapMatrixPlan(targets=TARGETS, swaps=swaps, load=TrialLoad(), window_seconds=0.1).rounds == rounds


def test_targets_come_in_the_order_of_tables_and_must_be_there() -> None:
    """ZooKeeper takes part only if there is one."""
    assert [target.name for target in choose(["paxos", "native"], None)] == ["native", "paxos"]
    assert [target.name for target in choose([], "127.0.0.1:2181")] == target_names()
    with pytest.raises(InvalidSettingError, match="zookeeper"):
        choose(["zookeeper"], None)
