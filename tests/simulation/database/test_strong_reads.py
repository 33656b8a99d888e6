"""Verdicts on linearizable reads, holds and timers: small histories, written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from tests.simulation.checks.told_history import FIRST, put
from tests.simulation.database.test_results import Zelos
from virtuallog.contract.types import LogPosition
from virtuallog.testing.checker.actions import LogletTrim
from virtuallog_database.client import Node
from virtuallog_database.tree.commands import Create, SetData
from virtuallog_simulation.checks.database.strong_reads import Fired, strong_read_checks
from virtuallog_simulation.workload.database.embedded_client import Hold, Release, SetTimer, StrongRead


@attrs.define(eq=False)
class Told(Zelos):
    """With a program inside of a server."""

    def reads(self, shown: Node | None) -> None:
        self.happened(StrongRead("/a"), shown)

    def happened(self, action: object, result: object = None) -> None:
        self.history.observed("inside", action, result)

    @property
    def now(self) -> Node:
        """State that a read would show."""
        return Node(self.model.znodes["/a"].data or b"", self.model.stat("/a"))

    @property
    def found(self) -> Sequence[str]:
        return [violation.check for check in strong_read_checks(0.25) for violation in check(self.history)]


@pytest.fixture
def told() -> Told:
    made = Told()
    made.write(Create("/a", b"1"))
    return made


def test_a_read_shows_what_was_completed_before(told: Told) -> None:
    """An older state is no answer, even if some server is still there."""
    old = told.now
    told.reads(old)
    told.write(SetData("/a", b"2"))
    told.reads(told.now)
    assert told.found == []
    told.reads(old)
    assert told.found == ["linearizable reads"]


def test_a_read_may_show_a_write_that_was_not_answered_yet_and_then_everybody_is_shown_it(told: Told) -> None:
    """Both states are right while the write is on its way; once one read has shown the new one, no later read goes back."""
    old = told.now
    told.commit(SetData("/a", b"2"))
    told.reads(old)
    told.reads(told.now)
    assert told.found == []
    told.reads(old)
    assert told.found == ["linearizable reads"]


def test_reads_at_the_same_time_may_differ(told: Told) -> None:
    """One began before the other had shown the new state to a client."""
    old = told.now
    told.commit(SetData("/a", b"2"))
    with told.history.record("inside", StrongRead("/a")) as returned:
        told.reads(told.now)
        returned(old)
    assert told.found == []


def test_a_read_shows_nothing_that_has_not_happened(told: Told) -> None:
    """A read may not show a znode that was never created, or miss one that the log has."""
    told.reads(None)
    told.reads(Node(b"?", told.now.stat))
    assert told.found == ["linearizable reads"] * 2


def test_a_timer_fires_after_its_time_by_the_fastest_clock(told: Told) -> None:
    """A clock that gains a quarter has counted a second when 0.8 have passed."""
    told.happened(SetTimer("story/1", 1.0), LogPosition(5))
    told.time += 0.81
    told.happened(Fired("story/1"))
    assert told.found == []
    told.happened(SetTimer("story/2", 1.0), LogPosition(6))
    told.time += 0.79
    told.happened(Fired("story/2"))
    assert told.found == ["timers fire"]


def test_a_timer_that_never_fires_is_missed_after_some_peace(told: Told) -> None:
    """Not sooner: replicas that restart count anew."""
    told.happened(SetTimer("story/1", 1.0), LogPosition(5))
    told.time += 11
    told.write(SetData("/a", b"2"))
    assert told.found == []
    told.time += 2
    told.write(SetData("/a", b"3"))
    assert told.found == ["timers fire"]


def test_what_is_held_is_not_trimmed_before_its_time_is_over(told: Told) -> None:
    """By the clock of a replica that gains a quarter."""
    segment = FIRST.segments[0].id
    told.happened(put(FIRST), FIRST.version)
    told.happened(Hold("hold 1", LogPosition(3), 1.0), LogPosition(4))
    told.happened(LogletTrim(segment, 4), 4)
    assert told.found == [], "it was granted from 4 on"
    told.time += 0.81
    told.happened(LogletTrim(segment, 9), 9)
    assert told.found == []
    told.happened(Hold("hold 2", LogPosition(9), 1.0), LogPosition(9))
    told.happened(LogletTrim(segment, 12), 12)
    assert told.found == ["holds hold"]


def test_what_is_released_may_be_trimmed(told: Told) -> None:
    """A trim is right from the moment on at which a release was asked for."""
    told.happened(put(FIRST), FIRST.version)
    told.happened(Hold("hold 1", LogPosition(3), 60.0), LogPosition(3))
    told.happened(Release("hold 1"))
    told.happened(LogletTrim(FIRST.segments[0].id, 12), 12)
    assert told.found == []
