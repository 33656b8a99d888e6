"""The search for a smaller failing run, over invented runs: a predicate is all that it needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from zlib import crc32

import pytest

from virtuallog_simulation.shrink import Extent, OutOfTimeError, shrink
from virtuallog_simulation.world.options import Options

EXTENT = Extent(faults=tuple("abcdefgh"), loglets=("native", "memory", "striped"), operations=200, seconds=20.0)


class Runs:
    """Invented runs: what fails is said by a function; every option makes a difference unless said otherwise."""

    def __init__(self, fails: Callable[[Options], bool], tell_apart: Callable[[Options], Hashable] = hash) -> None:
        self.fails, self.tell_apart = fails, tell_apart
        self.asked: list[Options] = []

    def __call__(self, options: Options) -> Hashable | None:
        self.asked.append(options)
        return self.tell_apart(options) if self.fails(options) else None


def active(options: Options) -> set[str]:
    return set(EXTENT.faults if options.faults is None else options.faults)


def operations(options: Options) -> int:
    return EXTENT.operations if options.operations is None else options.operations


@pytest.mark.parametrize("needed", ["", "a", "h", "cf", "abh", "abcdefgh"])
def test_only_the_faults_that_matter_are_left(needed: str) -> None:
    """Whichever they are, and in their order."""
    runs = Runs(lambda options: active(options) >= set(needed))

    found = shrink(Options(), EXTENT, runs).faults

    assert (EXTENT.faults if found is None else found) == tuple(needed)


def test_everything_is_made_as_small_as_it_goes() -> None:
    """Classes, operations, kinds and seconds, one after the other."""

    def fails(options: Options) -> bool:
        kinds = EXTENT.loglets if options.loglets is None else options.loglets
        seconds = EXTENT.seconds if options.seconds is None else options.seconds
        return "c" in active(options) and operations(options) >= 12 and "memory" in kinds and seconds >= 3.4

    found = shrink(Options(), EXTENT, Runs(fails))

    assert found == Options(faults=("c",), loglets=("memory",), operations=12, seconds=3.4)


def test_it_takes_few_runs() -> None:
    """A run costs a quarter of a second, so a person waits for some dozens, not for hundreds."""
    runs = Runs(lambda options: active(options) >= {"c", "f"} and operations(options) >= 12)

    shrink(Options(), EXTENT, runs)

    assert len(runs.asked) < 60


def test_what_is_found_has_been_seen_to_fail() -> None:
    """Also where fewer operations fail by chance, so that nothing is monotonous."""

    def fails(options: Options) -> bool:
        return options == Options() or crc32(repr((options.operations, options.seconds)).encode()) % 3 == 0

    runs = Runs(fails)
    found = shrink(Options(), EXTENT, runs)

    assert found != Options()
    assert runs.fails(found)
    assert found in runs.asked


def test_a_run_that_cannot_be_made_smaller_stays_as_it_was() -> None:
    """Nothing is claimed."""
    assert shrink(Options(), EXTENT, Runs(lambda options: False)) == Options()


def test_a_narrowing_by_hand_is_where_the_search_begins() -> None:
    """Options that a user has set stay set."""
    runs = Runs(lambda options: "b" in active(options))

    found = shrink(Options(faults=("a", "b"), operations=7), EXTENT, runs)

    assert found.faults == ("b",)
    assert all(options.faults is not None and set(options.faults) <= {"a", "b"} for options in runs.asked)
    assert all(operations(options) <= 7 for options in runs.asked)


def test_an_option_that_changes_nothing_is_left_out() -> None:
    """A story may have no use for kinds of loglets or for seconds: the command that replays it stays short."""
    runs = Runs(lambda options: "a" in active(options), tell_apart=lambda options: (options.faults, options.operations))

    found = shrink(Options(), EXTENT, runs)

    assert found == Options(faults=("a",), operations=0)


def test_when_time_is_up_the_best_so_far_is_taken() -> None:
    """A bound in real time is the caller's: it raises."""
    runs = Runs(lambda options: "a" in active(options))

    def in_a_hurry(options: Options) -> Hashable | None:
        if len(runs.asked) == 4:
            raise OutOfTimeError
        return runs(options)

    found = shrink(Options(), EXTENT, in_a_hurry)

    assert found.faults is not None
    assert "a" in found.faults
    assert len(found.faults) < len(EXTENT.faults)
