"""Reports of the programs that break clusters, from times of acknowledgements."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.bench.gaps import Swap, find_gaps
from virtuallog_lab.bench.steps import PHASES, split_into_phases
from virtuallog_lab.experiments.failover import report as blow_report
from virtuallog_lab.experiments.failover.faults import InjectedFault, recovery_seconds
from virtuallog_lab.experiments.failover.kinds import compare
from virtuallog_lab.experiments.failover.report import draw as draw_blows
from virtuallog_lab.experiments.swaps.swap_report import draw
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, middle_and_ends
from virtuallog_lab.harness.trial import Evidence
from virtuallog_lab.workload.latencies import Pause, Spread, longest_pause
from virtuallog_lab.workload.verdict import Verdict
from virtuallog_lab.workload.writers import Workload

SECONDS = st.floats(0, 100)


@pytest.mark.parametrize(
    ("begin", "end", "pause"),
    [
        (2.5, 4.0, Pause(2.0, 5.0)),  # began before the window, ended behind it
        (0.0, 2.0, Pause(1.0, 2.0)),
        (5.0, 9.0, Pause(6.0, 9.0)),  # nothing comes any more
        (7.0, 9.0, Pause(6.0, 9.0)),
    ],
)
def test_the_longest_pause_that_touches_a_window_is_found(begin: float, end: float, pause: Pause) -> None:
    """Its edges are acknowledgements, wherever they lie."""
    assert longest_pause([0.5, 1.0, 2.0, 5.0, 6.0], begin, end) == pause


@given(st.lists(SECONDS).map(sorted), SECONDS, SECONDS)
def test_no_other_pause_in_the_window_is_longer(times: list[float], begin: float, length: float) -> None:
    """Against the slow way to say it."""
    found = longest_pause(times, begin, begin + length)
    overlapping = [stop - start for start, stop in pairwise(times) if stop > begin and start < begin + length]

    assert found.seconds >= max(overlapping, default=0.0)
    assert not [time for time in times if found.start < time < found.stop]


def test_a_swap_is_compared_with_the_time_before_it() -> None:
    """Acknowledgements every tenth of a second, but for a hole that the swap makes."""
    times = [step / 10 for step in range(40) if not 20 < step < 24]
    gaps = find_gaps([Swap("native", "native", 2.05, 2.3)], times, 1.0)

    assert [round(pause.seconds, 6) for pause in (*gaps.pauses, *gaps.quiet)] == [0.4, 0.1]


STEPS = {
    "planned": [0.1, 1.1],
    "promised": [0.15, 1.15],
    "sealed": [0.2, 1.2],
    "bounded": [0.4, 1.4],
    "decided": [0.5, 1.6],
    "found": [1.7],
    "searched": [1.8],
    "taught": [0.55, 1.75],
}


def test_the_steps_of_a_swap_split_it_into_phases() -> None:
    """Those of this swap, not of the one before; together they are all the time from the question to the first answer."""
    phases = split_into_phases(STEPS, 1.0, 2.0)

    assert phases is not None
    assert [*phases] == [*PHASES]
    assert [round(seconds, 6) for seconds in phases.values()] == [0.1, 0.05, 0.05, 0.2, 0.2, 0.1, 0.1, 0.2]


def test_a_client_that_finds_the_chain_before_its_proposer_does_ends_the_vote() -> None:
    """Both count the votes; the figures of the later phases do not become negative."""
    phases = split_into_phases({**STEPS, "found": [1.55]}, 1.0, 2.0)

    assert phases is not None
    assert round(phases["vote"], 6) == 0.15
    assert phases["client finds it"] == 0.0


@pytest.mark.parametrize("step", [step for step in STEPS if step != "decided"])
def test_a_swap_with_a_missing_step_is_left_out(step: str) -> None:
    """Another client may have extended the log; then the phases mean nothing."""
    assert split_into_phases({**STEPS, step: []}, 1.0, 2.0) is None


def test_recovery_lasts_until_the_end_of_the_longest_pause() -> None:
    """Not until the first acknowledgement, which may be one that was on its way."""
    times = [0.0, 1.0, 1.01, 3.5, 3.6, 9.0]
    blow = InjectedFault(kind="sequencer", at=1.0, until=3.6, by_itself=True)
    evidence = Evidence([blow], Workload(SystemClock()), times, Verdict(6, ()))

    assert recovery_seconds(evidence, "sequencer") == [2.5]
    assert recovery_seconds(evidence, "blackout") == []


MACHINE = Machine(cpus=2, kernel="6.1", python="3.11.7", load=0.5)
TABLE = Table("Gaps", ["", "p50 ms"], [["swap", "12.0"]])


def test_a_report_is_markdown_json_or_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The same figures in each, and the machine beside them."""
    report = Report(title="A run", machine=MACHINE, tables=[TABLE], plain={"gap": 12.0}, verdict="nothing lost")
    report.publish("markdown")
    assert "**Gaps**\n\n|  | p50 ms |\n| --- | --: |\n| swap | 12.0 |" in capsys.readouterr().out
    report.publish("json")
    assert json.loads(capsys.readouterr().out)["gap"] == 12.0
    report.publish("text")
    assert "nothing lost" in capsys.readouterr().out


def test_a_report_with_problems_ends_the_program_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, and the report does not say that nothing was lost."""
    report = Report(title="", machine=MACHINE, tables=[], plain={}, verdict="nothing lost", problems=["lost: 7"])
    with pytest.raises(SystemExit) as ended:
        report.publish("text")

    out, err = capsys.readouterr()
    assert (ended.value.code, "nothing lost" in out, "lost: 7" in err) == (1, False, True)


def test_what_does_not_come_back_and_who_falls_are_problems() -> None:
    """However right the history is."""
    stuck = InjectedFault(kind="stop", at=1.0, until=9.0, by_itself=False, fallen=(NodeId(3),))
    evidence = Evidence([stuck], Workload(SystemClock()), [0.0, 10.0], Verdict(2, ()))

    assert blow_report.report(MACHINE, evidence).problems == [
        "stop at 1.0 s: appends did not resume by themselves",
        "stop at 1.0 s: node 3 has ended, though it was not killed",
    ]


def test_kinds_are_compared_fault_by_fault() -> None:
    """The node that orders has another name in each kind; a problem says of which kind it is."""

    def found(orderer: str, ms: float, problems: list[str]) -> dict[str, Any]:
        blow = {"times": 2, "p50_ms": ms, "p90_ms": 2 * ms, "p99_ms": 3 * ms, "max_ms": 3 * ms}
        return {"blows": {orderer: blow, "stop": blow}, "acknowledged": 1000, "unknown": 1, "problems": problems}

    report = compare(MACHINE, {"native": [found("sequencer", 1.0, [])], "raft": [found("leader", 1000.0, ["lost: 7"])]})

    assert report.tables[0].columns == ["", "times each", "native", "raft"]
    assert report.tables[0].rows == [
        ["kill -9", "2", "1 / 2 / 3", "1,000 / 2,000 / 3,000"],
        ["stop", "2", "1 / 2 / 3", "1,000 / 2,000 / 3,000"],
    ]
    assert report.problems == ["raft: lost: 7"]
    assert report.verdict.startswith("2,000 entries acknowledged, 2 unknown")


def test_figures_are_told_with_their_spread() -> None:
    """The median of several rounds says little without the others."""
    assert middle_and_ends([3.0, 1.0, 1000.0]) == "3 (1-1,000)"
    assert middle_and_ends([]) == "-"
    assert Spread.of([0.001, 0.002]) == Spread(1.0, 2.0, 2.0, 2.0)


def test_pictures_are_drawn(tmp_path: Path) -> None:
    """Pictures of swaps and of faults; also of one alone."""
    times = [step / 100 for step in range(400) if not 200 < step < 210]
    draw(find_gaps([Swap("native", "native", 2.0, 2.1)], times, 1.0), times, tmp_path / "swap.png")
    blows = [InjectedFault(kind=kind, at=2.0, until=3.0, by_itself=True) for kind in ("sequencer", "stop")]
    draw_blows(Evidence(blows, Workload(SystemClock()), times, Verdict(6, ())), tmp_path / "kill.png")

    assert {path.read_bytes()[:8] for path in tmp_path.iterdir()} == {b"\x89PNG\r\n\x1a\n"}


def test_an_error_of_the_log_ends_a_program_in_one_line() -> None:
    """Out of nested groups, as nurseries make them; what is no error of ours keeps its traceback."""

    async def fail(error: Exception) -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [error])])

    with pytest.raises(click.ClickException, match="no node answers"):
        run_to_end(fail, UnavailableError("no node answers"))
    with pytest.raises(ExceptionGroup):
        run_to_end(fail, KeyError("a fault of the program"))
