"""`virtuallog conformance`: what a loglet author sees. The reports in docs/howto/write-a-loglet.md are in test_document.py."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.simulation.conformance.toys import BROKEN
from virtuallog.testing.checker import linearizability
from virtuallog_simulation.conformance.cli import conformance
from virtuallog_simulation.conformance.report import PROMISES
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.scenarios.conformance.options import TrialOptions

EXAMPLES = Path(__file__).parents[3] / "examples"
TOY, FORGETFUL = "single_copy_loglet:SingleCopyProvider", "broken_loglet:BrokenProvider"
SEAL = "a_seal_survives_a_restart"
SEEDS = range(1, 21)


@pytest.fixture(autouse=True)
def _in_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where an author would be: beside the module."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(conformance, arguments)


def test_a_promise_that_is_broken_is_told_with_its_replay() -> None:
    """The row says BROKEN with its seed; the promise, what was seen and the command follow, and the exit code is 1."""
    result = run(FORGETFUL, "--only", SEAL, "--seeds", "1..2", "--jobs", "1")

    assert result.exit_code == 1
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [SEAL, "BROKEN", "1"] in lines
    assert "the loglet was sealed; after a restart a tail check answers Open(tail=1)" in result.stdout
    assert "-- " in result.stdout and "blackout" in result.stdout
    assert lines[-1][:3] == ["forgetful", "BREAKS", "the"]


def test_the_replay_command_shows_the_same_again() -> None:
    """The printed command can be run as it stands: one seed of one row, with the story as it
    happened."""
    report = run(FORGETFUL, "--only", SEAL, "--seeds", "1..2", "--jobs", "1")
    (command,) = [line for line in report.stdout.splitlines() if line.startswith("replay with: ")]
    name, subcommand, *arguments = shlex.split(command.removeprefix("replay with: "))
    assert (name, subcommand) == ("virtuallog", "conformance")

    replayed = run(*arguments)

    assert replayed.exit_code == 1
    told = [line for line in report.stdout.splitlines() if line.startswith("  ") and "asks" in line]
    assert told
    assert set(told) <= set(replayed.stdout.splitlines())


def test_a_row_that_is_kept_says_so() -> None:
    """One seed of one row of a loglet that is right."""
    result = run(TOY, "--only", SEAL, "--seed", "1")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "kept"


def test_a_program_reads_the_report_as_json() -> None:
    """Rows with their verdicts; a broken one has its checks, its seed and its replay command."""
    result = run(FORGETFUL, "--only", SEAL, "--only", "none", "--only", "dead", "--seeds", "1..2", "--json",
                 "--without", "dead", "--jobs", "1")  # fmt: skip

    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["kind"], report["seeds"], report["kept"]) == ("forgetful", [1, 2], False)
    verdicts = {row["name"]: (row["part"], row["verdict"], row["runs"]) for row in report["rows"]}
    assert verdicts == {
        SEAL: ("clause", "BROKEN", 2),
        "none": ("loglet", "kept", 2),
        "dead": ("loglet", "not claimed", 0),
    }
    (broken,) = [row for row in report["rows"] if row["verdict"] == "BROKEN"]
    assert broken["broken"] == {SEAL: 1}
    assert broken["replay"] == f"virtuallog conformance {FORGETFUL} --only {SEAL} --seed 1"


def test_the_number_of_processes_changes_nothing() -> None:
    """Each run is a seed by itself."""
    rows = ("--only", "relaunch", "--only", SEAL, "--seeds", "1..4")

    assert run(FORGETFUL, *rows, "--jobs", "1").stdout == run(FORGETFUL, *rows, "--jobs", "2").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("unknown",), "no kind of loglet"),
        (("no_such_module:Provider",), "No module named 'no_such_module'"),
        (("single_copy_loglet:Provider",), "has no attribute 'Provider'"),
        (("single_copy_loglet:State",), "makes no provider"),
        (("collections:Counter",), "is no LogletProvider: it lacks kind"),
        ((TOY, "--only", "everything"), "no 'everything'"),
        ((TOY, "--without", "earthquake"), "no 'earthquake'"),
        ((TOY, "--seeds", "1.."), "needs an end"),
        ((TOY, "--nodes", "0"), "--nodes"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_wrong_usage_is_explained(arguments: tuple[str, ...], says: str) -> None:
    """In one line, with exit code 2."""
    result = run(*arguments)

    assert result.exit_code == 2
    assert says in result.stderr


def test_a_loglet_must_be_alive_when_the_faults_are_over() -> None:
    """A single copy does not survive the loss of its node; who claims that it does, hears of it."""
    seeds = [seed for seed in SEEDS if run_seed(seed, "loglet/dead", options=TrialOptions(loglets=(TOY,))).violations]

    assert seeds
    (violation,) = run_seed(seeds[0], "loglet/dead", options=TrialOptions(loglets=(TOY,))).violations
    assert violation.check == "progress"


@pytest.mark.parametrize(
    ("provider", "scenario"),
    [(broken.__name__, scenario) for broken, scenarios in BROKEN.items() for scenario in scenarios],
)
def test_a_broken_loglet_is_caught(provider: str, scenario: str) -> None:
    """By the clause of the promise that it breaks, and under a fault that brings it out, within a few seeds."""
    options = TrialOptions(loglets=(f"tests.simulation.conformance.toys:{provider}",))

    assert any(run_seed(seed, scenario, options=options).violations for seed in SEEDS)


@pytest.mark.parametrize("chain", ["alone", "mixed"])
def test_the_toy_serves_a_chain(chain: str) -> None:
    """The product's own nodes serve it, its wire form included, while the chain is reconfigured all the time."""
    options = TrialOptions(loglets=(TOY,), faults=("crash", "kill", "loss", "one way"))

    for seed in (1, 2):
        report = run_seed(seed, f"chain/{chain}", options=options)
        assert not report.violations, report.violations[0]


def test_every_check_of_loglets_stands_in_a_column() -> None:
    """The matrix has a column for each promise; a check without one would be called an error."""
    source = Path(linearizability.__file__).read_text()
    lines = [line for line in source.splitlines() if re.search(r"broken\(|check = |return \"", line)]
    names = {name for line in lines for name in re.findall(r'"([a-z]+(?: [a-z]+)+)"', line)}

    assert names == {check for checks in PROMISES.values() for check in checks} - {"progress", "comes to an end"}
