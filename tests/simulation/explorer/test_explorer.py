"""Complete explorations of small configurations, and what the explorer rests on: names that may be exchanged, stories, counts."""

from __future__ import annotations

import json

import click.testing
import pytest

from tests.simulation.explorer import raft_mutants
from virtuallog.runtime.clock import SystemClock
from virtuallog_simulation.explorer import story
from virtuallog_simulation.explorer.canonical_form import digest_of, form_of
from virtuallog_simulation.explorer.cli import explore
from virtuallog_simulation.explorer.configurations import CONFIGURATIONS, ExplorerConfiguration
from virtuallog_simulation.explorer.search import Search
from virtuallog_simulation.world.planted_bug import planted

QUICK_STATES = 12_000
"""States of a configuration that a test explores; others are for `make explore` and the long tests."""


def run(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(explore, arguments)


QUICK = [each for each in CONFIGURATIONS.values() if 0 < each.states <= QUICK_STATES]
MIDDLE = [each for each in CONFIGURATIONS.values() if QUICK_STATES < each.states <= 100_000]


@pytest.mark.parametrize(
    "configuration",
    [*QUICK, *(pytest.param(each, marks=pytest.mark.long) for each in MIDDLE)],
    ids=lambda each: each.name,
)
def test_every_state_within_the_bounds_keeps_the_promises(configuration: ExplorerConfiguration) -> None:
    """The space is complete, no promise is broken in it, and it is as large as it was: a smaller one would show less."""
    found = Search(configuration.make(), SystemClock.monotonic).run()

    assert found.broken is None
    assert found.is_complete
    assert (found.states, found.depth) == (configuration.states, configuration.depth)


@pytest.mark.parametrize(
    "name",
    [
        "raft-crash",
        "raft-seal",
        "native-duplicate",
        "native-seal",
        "paxos-election",
        "paxos-failover",
        "metastore-put",
        "registrar-fence",
        "registrar-replace",
    ],
)
def test_states_that_differ_in_names_only_behave_alike(name: str) -> None:
    """As many states are found without merging as there are names for the merged ones: no two were merged wrongly."""
    merged = Search(CONFIGURATIONS[name].make(), SystemClock.monotonic, counts_orbits=True)
    plain = Search(CONFIGURATIONS[name].make(), SystemClock.monotonic, is_symmetric=False)

    assert merged.run().is_complete
    assert plain.run().states == merged.orbits


def test_a_story_can_be_told_again() -> None:
    """The lines of a found story lead to the same broken promise."""
    bug = raft_mutants.logs_of_candidates_are_not_compared
    with planted({bug.target: bug.replacement}):
        found = bug.hunt()
        lines = [str(step) for step in found.story]
        again = story.replay(CONFIGURATIONS[bug.configuration].make(), lines)

    assert [str(step) for step in again.steps] == lines
    assert again.broken is not None and bug.says in again.broken


def test_a_line_that_is_no_step_names_those_there_are() -> None:
    """A story that does not fit fails with the steps to choose from."""
    with pytest.raises(story.NoSuchStepError, match="2 stands"):
        story.replay(CONFIGURATIONS["raft-append"].make(), ["4 stands"])


def test_a_search_without_time_says_that_it_is_not_complete() -> None:
    """An exploration that was cut short claims nothing."""
    found = Search(CONFIGURATIONS["raft-election"].make(), SystemClock.monotonic).run(states_max=500)

    assert not found.is_complete
    assert found.broken is None and found.states >= 500


def test_forms_tell_shared_objects_from_equal_ones() -> None:
    """Two paths to one object that can change are another state than two equal objects."""
    one, other = CONFIGURATIONS["raft-append"].make(), CONFIGURATIONS["raft-append"].make()
    shared = [one.messages, one.messages]
    apart = [one.messages, other.messages]

    assert digest_of(form_of(shared)) != digest_of(form_of(apart))
    assert digest_of(form_of(apart)) == digest_of(form_of([other.messages, one.messages]))


def test_the_command_lists_explores_and_tells_again() -> None:
    """`--list` names all; a run says what it found; a story ends with the state that it leads to."""
    listed = run("--list").output
    assert all(name in listed for name in CONFIGURATIONS)

    found = json.loads(run("metastore-put", "--json").output)
    assert (found["states"], found["complete"], found["broken"]) == (3_264, True, None)

    told = run("raft-append", "--replay", "1 stands => 1>2 vote?; deliver 1>2 => lost")
    assert told.exit_code == 0
    assert "every promise was kept" in told.output
    assert run("raft-append", "--replay", "1 sits").exit_code == 2
    assert run("no-such-name").exit_code == 2


def test_the_command_fails_with_a_story_of_what_is_broken() -> None:
    """Exit code 1, the promise, and lines that can be given to `--replay`."""
    bug = raft_mutants.a_seal_is_answered_before_it_is_committed
    with planted({bug.target: bug.replacement}):
        found = run(bug.configuration)

    assert found.exit_code == 1
    assert bug.says in found.output
    assert "seal at 1" in found.output and "--replay" in found.output
