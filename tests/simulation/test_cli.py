"""`virtuallog simulate` as a person uses it: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click.testing
import pytest

from virtuallog.contract.types import Open, Sealed, Tail
from virtuallog.testing.checker.actions import LogCheckTail
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.weak_seal import WeakSealLoglet
from virtuallog_simulation import failure_report, fleet, soak
from virtuallog_simulation.cli import simulate
from virtuallog_simulation.faults.registry import CLASSES
from virtuallog_simulation.report.narrative import full_story, short_story
from virtuallog_simulation.report.summary import SeedSummary
from virtuallog_simulation.runs import coverage
from virtuallog_simulation.scenarios.registry import all_scenarios
from virtuallog_simulation.shrink import Extent, Fails
from virtuallog_simulation.world.options import Options, cli_word
from virtuallog_simulation.world.planted_bug import planted


def run(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(simulate, arguments)


async def seal_bit_before_tail(self: WeakSealLoglet) -> Tail:
    """Plants: the published OSDI'20 text allows this."""
    sealed = await self._is_sealed()
    tail = await self._tail()
    return Sealed(tail) if sealed else Open(tail)


@contextmanager
def a_bug() -> Iterator[None]:
    with planted({"virtuallog.testing.weak_seal:WeakSealLoglet.check_tail": seal_bit_before_tail}):
        yield


def first_failing_seed() -> int:
    for seed in range(1, 101):
        if run("--scenario", "weak-seal", "--seed", str(seed), "--no-shrink").exit_code == 1:
            return seed
    raise AssertionError("not found")


def test_a_good_seed_tells_what_it_was_put_through() -> None:
    """A run that was put through nothing proves nothing."""
    result = run("--seed", "1")

    assert result.exit_code == 0
    assert "seed 1: every promise was kept" in result.output
    assert re.search(r"\d+ client operations, \d+ reconfigurations, \d+ faults", result.output)
    assert "took effect: " in result.output


def test_a_failing_seed_says_what_broke_and_how_to_replay_it() -> None:
    """The check, the command, and the story: what was asked, what travelled, what came back."""
    with a_bug():
        seed = first_failing_seed()
        result = run("--scenario", "weak-seal", "--seed", str(seed), "--no-shrink")

    lines = result.output.splitlines()
    assert lines[0].startswith(f"seed {seed}: open tails below the stop: ")
    replay = lines.index(f"replay with: virtuallog simulate --scenario weak-seal --seed {seed}")
    story = lines[replay + 2 : -2]
    assert story[0].split() == ["time", "who", "what"]
    assert len(story) <= 62
    assert any(re.fullmatch(r"> +\d+\.\d{4}  \w+ \d+ +hears +Open\(tail=\d+\).*after .* s\)", line) for line in story)
    assert any(re.match(r"  +\d+\.\d{4}  \d+ -> \d+ +request ", line) for line in story)
    assert max(map(len, story)) <= 150


def test_the_whole_timeline_on_request() -> None:
    """Every event, in order."""
    with a_bug():
        seed = first_failing_seed()
        short = run("--scenario", "weak-seal", "--seed", str(seed), "--no-shrink")
        full = run("--scenario", "weak-seal", "--seed", str(seed), "--no-shrink", "--timeline", "full")

    assert len(full.output.splitlines()) > len(short.output.splitlines())
    times = [float(line[2:12]) for line in full.output.splitlines() if re.match(r"[> ] +\d+\.\d{4}  ", line)]
    assert times == sorted(times)


def test_a_smaller_run_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command is shorter in what it does, and it fails by the same check."""
    with a_bug():
        seed = first_failing_seed()
        asked: list[tuple[Options, Extent, Fails]] = []

        def look(options: Options, extent: Extent, fails: Fails) -> Options:
            asked.append((options, extent, fails))
            return options

        monkeypatch.setattr(failure_report, "shrink", look)
        run("--scenario", "weak-seal", "--seed", str(seed))

    ((options, extent, fails),) = asked
    assert extent.operations > 10
    assert extent.seconds > 0
    with a_bug():
        assert fails(options) is not None
    assert fails(options) is None


def test_a_trace_for_programs() -> None:
    """One object per line, the verdict last; messages and durable writes are in it."""
    result = run("--seed", "1", "--json", "--operations", "2")

    lines = [json.loads(line) for line in result.output.splitlines()]
    assert lines[-1]["violations"] == []
    assert {"invoked", "returned", "fault", "message", "durable", "verdict"} <= {line["event"] for line in lines}


def test_a_range_sums_up() -> None:
    """On several processes: numbers per seed, then what they were put through, then the verdict."""
    result = run("--seeds", "1..4", "--scenario", "weak-seal", "--jobs", "2")

    assert result.exit_code == 0
    assert "client operations" in result.output
    assert re.search(r"^4 seeds in .*: every promise was kept$", result.output, re.MULTILINE)


def test_several_scenarios_at_once() -> None:
    """Each seed of each."""
    result = run("--seeds", "1..2", "--scenario", "weak-seal,repair", "--jobs", "2", "--json")

    told = json.loads(result.output)
    assert {name: each["seeds"] for name, each in told["scenarios"].items()} == {"weak-seal": 2, "repair": 2}
    assert told["command"] == "virtuallog simulate --scenario weak-seal,repair --seeds 1..2"


def test_the_summary_goes_into_a_file(tmp_path: Path) -> None:
    """The summary is Markdown, or JSON if the file is called so."""
    for name in ("summary.md", "summary.json"):
        run("--seeds", "1..2", "--scenario", "weak-seal", "--jobs", "1", "--summary", str(tmp_path / name))

    assert "| weak-seal, 2 seeds | client operations |" in (tmp_path / "summary.md").read_text()
    assert json.loads((tmp_path / "summary.json").read_text())["seeds"] == 2


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> list[SeedSummary]:
    """Summaries that the processes of a range tell, without any process."""
    summaries: list[SeedSummary] = []

    def run_jobs(jobs: object, processes: int) -> Iterator[SeedSummary]:
        yield from summaries
        if summaries[-1].seed == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(soak, "run_jobs", run_jobs)
    return summaries


def cluster_seed(seed: int, *failed: str) -> SeedSummary:
    return SeedSummary(scenario="cluster", seed=seed, failed=failed, died=bool(failed))


def test_failing_seeds_are_told_as_they_come(invented: list[SeedSummary]) -> None:
    """With the command that replays each; exit code 1."""
    invented += [cluster_seed(1), cluster_seed(2, "the process died (exit code -9)"), cluster_seed(3)]

    result = run("--seeds", "1..3", "--operations", "5")

    assert result.exit_code == 1
    assert "the process died (exit code -9)\n    virtuallog simulate --seed 2 --operations 5\n" in result.stderr
    assert "cluster seed 2: the process died (exit code -9)" in result.stdout


def test_a_fault_that_never_struck_fails_a_range(invented: list[SeedSummary], monkeypatch: pytest.MonkeyPatch) -> None:
    """If the range is large enough, and was not narrowed."""
    monkeypatch.setattr(coverage, "never_fired", lambda scenario, counts: ["bit rot"])
    invented += [cluster_seed(seed) for seed in range(1, 301)]

    assert run("--seeds", "1..300").exit_code == 1
    assert "cluster: never happened, so it has not been tested: bit rot" in run("--seeds", "1..300").stdout
    assert run("--seeds", "1..300", "--faults", "crash").exit_code == 0
    del invented[0]
    assert run("--seeds", "1..299").exit_code == 0


def test_an_interrupted_range_sums_up_what_there_is(invented: list[SeedSummary]) -> None:
    """Exit code 130, as nothing was found."""
    invented += [cluster_seed(1), cluster_seed(0)]

    result = run("--seeds", "0..100")

    assert result.exit_code == 130
    assert "2 seeds in " in result.stdout


TELL_WHEN_A_SEED_HAS_ENDED = """
import sys
from virtuallog_simulation import cli
from virtuallog_simulation.report import summary
add = summary.Soak.add
summary.Soak.add = lambda soak, seed: (add(soak, seed), print("a seed has ended", file=sys.stderr, flush=True))
cli.simulate()
"""


@pytest.mark.processes
def test_control_c_ends_the_processes_too() -> None:
    """A signal to the whole group, as a terminal sends it."""
    command = [sys.executable, "-c", TELL_WHEN_A_SEED_HAS_ENDED, "--minutes", "5", "--scenario", "weak-seal"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == b"a seed has ended\n"
            os.killpg(process.pid, signal.SIGINT)
            output, errors = process.communicate(timeout=60.0)
        finally:
            process.kill()

    assert process.returncode == 130
    assert b"every promise was kept" in output
    assert b"Traceback" not in errors
    assert ends(process.pid)


def ends(group: int) -> bool:
    """True if all processes of the group end soon: the tracker of multiprocessing notices a little
    later."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_everything_that_can_be_named_is_listed() -> None:
    """Scenarios, classes of faults, kinds of loglets."""
    result = run("--list")

    assert result.exit_code == 0
    for name in (*(scenario.name for scenario in all_scenarios()), *(cli_word(fault.name) for fault in CLASSES)):
        assert re.search(rf"^  {re.escape(name)} ", result.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --seed N, --seeds A..B or --minutes M"),
        (["--seed", "1", "--seeds", "1..2"], "--seed is one seed"),
        (["--seeds", "9..1"], "'9..1' has no seed in it"),
        (["--seeds", "x"], "'x' is not a range of seeds like 1..1000"),
        (["--seeds", "5.."], "--seeds 5.. has no end"),
        (["--seed", "1", "--scenario", "nonsense"], "no 'nonsense' (known: "),
        (["--seed", "1", "--faults", "crash,earthquake"], "no 'earthquake' (known: "),
        (["--seed", "1", "--faults", "crash,,clog"], "is not a list of names"),
        (["--seed", "1", "--loglets", "quorum"], "no 'quorum' (known: "),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], message: str) -> None:
    """Exit code 2, one line that says what is wrong, before anything runs."""
    result = run(*arguments)

    assert result.exit_code == 2
    assert message.replace("5.. ", "A.. ") in result.output


def test_two_words_may_be_spelled_as_one() -> None:
    """A name of two words may be spelled with a hyphen or with a space."""
    for name in ("one-way", "one way"):
        assert run("--seed", "1", "--operations", "1", "--faults", name).exit_code == 0


def test_of_something_that_never_came_the_story_tells_what_waits() -> None:
    """No event proves that nothing happened."""
    history = History(lambda: 1.5)
    with suppress(RuntimeError), history.record("reader 5", LogCheckTail()):
        history.fault("crash 2")
        story = short_story(history, Violation("progress", "nothing was appended"))
        whole = list(full_story(history, Violation("progress", "nothing was appended")))
        raise RuntimeError

    assert [line.split() for line in story[-2:]] == [
        ["still", "waiting", "at", "the", "end,", "of", "1", "operations:"],
        ["1.5000", "reader", "5", "asks", "LogCheckTail()", "#0"],
    ]
    assert len(whole) == 2


def test_seeds_to_be_run_twice_are_run_twice() -> None:
    """A seed that gave two traces would be told."""
    result = run("--seed", "1", "--scenario", "weak-seal", "--verify-determinism")

    assert result.exit_code == 0
    assert fleet.UNREPEATABLE not in result.output
    assert "1 seeds in " in result.output
