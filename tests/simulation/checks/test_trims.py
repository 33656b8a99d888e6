"""Trims of the log: what the checks must object to, and what they must let pass."""

from __future__ import annotations

import pytest

from tests.simulation.checks.told_history import FIRST, SECOND, Story, put, trimmed
from virtuallog.contract import chain
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import Open
from virtuallog.testing.checker.actions import (
    LogAppend,
    LogCheckTail,
    LogFindTrimPoint,
    LogletTrim,
    LogRead,
    LogTrim,
    ModifyChange,
    Reconfigure,
)


def test_a_trim_past_what_was_asked_for(story: Story) -> None:
    """It would drop entries that clients need."""
    story.happened(LogTrim(3), 4)

    assert story.broken() == {"trims are modest"}


def test_a_trim_that_finds_the_work_of_others(story: Story) -> None:
    """Another client asked for more, even if it never heard the outcome."""
    story.failed(LogTrim(5), UnavailableError("no answer"))
    story.happened(LogTrim(3), 5)

    assert story.broken() == set()


def test_a_trim_that_decided_too_early_that_there_is_nothing_to_do(story: Story) -> None:
    """The log was known to reach 5; a trim that did not look for the tail has left something behind."""
    story.happened(LogCheckTail(), Open(5))
    story.happened(LogTrim(4), 0)

    assert story.broken() == {"trims are effective"}


def test_a_trim_past_the_tail_stops_there(story: Story) -> None:
    """The answer is the effective trim point: not more than there is."""
    story.happened(LogCheckTail(), Open(5))
    story.happened(LogTrim(9), 5)
    story.happened(LogCheckTail(), Open(5))

    assert story.broken() == set()


def test_a_trim_point_that_goes_back(story: Story) -> None:
    """The second trim had nothing to do, and should have said how far the log is trimmed."""
    story.happened(LogCheckTail(), Open(9))
    story.happened(LogTrim(5), 5)
    story.happened(LogTrim(3), 3)

    assert story.broken() == {"trim points move forward"}


def test_overlapping_trims_may_differ(story: Story) -> None:
    """The smaller one may have been done first."""
    story.happened(LogCheckTail(), Open(9))
    with story.during(LogTrim(3)) as returned:
        story.happened(LogTrim(5), 5)
        returned(3)

    assert story.broken() == set()


def test_a_trim_point_is_found(story: Story) -> None:
    """At least the highest that a client knew before, and no more than a client had asked for."""
    story.happened(LogCheckTail(), Open(9))
    story.happened(LogTrim(5), 5)
    story.happened(LogFindTrimPoint(), 5)
    with story.during(LogTrim(7)):
        story.happened(LogFindTrimPoint(), 7)

    assert story.broken() == set()


@pytest.mark.parametrize(("found", "broken"), [(0, "trim points move forward"), (6, "trims are modest")])
def test_a_trim_point_that_is_wrong(story: Story, found: int, broken: str) -> None:
    """It is below one that a client knows, or above all that were asked for."""
    story.happened(LogCheckTail(), Open(9))
    story.happened(LogTrim(5), 5)
    story.happened(LogFindTrimPoint(), found)

    assert story.broken() == {broken}


def test_a_trim_point_past_the_tail(story: Story) -> None:
    """It proves a tail, as what a trim has returned does."""
    with story.during(LogTrim(9)):
        story.happened(LogFindTrimPoint(), 5)
    story.happened(LogCheckTail(), Open(4))

    assert story.broken() == {"tails move forward"}


def test_a_trim_past_the_tail_is_no_excuse_for_what_comes_later(story: Story) -> None:
    """It has returned 5: what is appended there later is not trimmed."""
    story.happened(LogCheckTail(), Open(5))
    story.happened(LogTrim(9), 5)
    story.happened(LogAppend((b"x",)), range(5, 6))
    story.happened(LogFindTrimPoint(), 6)
    story.happened(LogRead(5, 6), [trimmed(5, 6)])

    assert story.broken() == {"trims are modest", "gaps are honest", "acknowledged survives"}


def test_a_trim_past_the_tail_that_has_not_returned_may_reach_farther(story: Story) -> None:
    """The tail at which it will end is not known."""
    story.happened(LogCheckTail(), Open(5))
    with story.during(LogTrim(9)):
        story.happened(LogAppend((b"x",)), range(5, 6))
        story.happened(LogRead(5, 6), [trimmed(5, 6)])

    assert story.broken() == set()


# -- copies -------------------------------------------------------------------------------------------------------

OLD = SECOND.segments[0]
COPIED = chain.modify(SECOND, OLD.id, "copy", b"", 3)
COPY = Reconfigure(ModifyChange(OLD.id, "copy", 0))


@pytest.fixture
def begun(story: Story) -> Story:
    """Positions 0 to 4 are in a closed segment."""
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    story.happened(LogCheckTail(), Open(9))
    return story


def test_a_copy_may_be_behind_while_it_takes_the_place_of_a_segment(begun: Story) -> None:
    """Once the change has returned, positions that were trimmed before it stay trimmed."""
    with begun.during(COPY) as returned:
        begun.happened(LogTrim(4), 4)
        begun.happened(put(COPIED), 3)
        begun.happened(LogFindTrimPoint(), 0)
        assert begun.broken() == set()
        returned(3)
    begun.happened(LogFindTrimPoint(), 0)

    assert begun.broken() == {"trim points move forward"}


def test_a_copy_whose_client_dies_may_be_behind_until_the_next_trim(begun: Story) -> None:
    """The dead client has not carried the trims over."""
    begun.happened(LogTrim(4), 4)
    with begun.during(COPY):
        begun.happened(put(COPIED), 3)
    begun.happened(LogFindTrimPoint(), 0)
    begun.happened(LogTrim(2), 2)
    assert begun.broken() == set()

    begun.happened(LogFindTrimPoint(), 1)
    assert begun.broken() == {"trim points move forward"}


def test_a_copy_whose_original_does_not_answer_may_be_behind(begun: Story) -> None:
    """The change is made all the same: the copy is what is left."""
    begun.happened(LogTrim(4), 4)
    with begun.during(COPY) as returned:
        begun.failed(LogletTrim(OLD.id, 0), UnavailableError("no answer"))
        begun.happened(put(COPIED), 3)
        returned(3)
    begun.happened(LogFindTrimPoint(), 0)

    assert begun.broken() == set()


@pytest.mark.parametrize(("told", "found"), [(9, 5), (4, 0)])
def test_a_copy_is_no_excuse_elsewhere(begun: Story, told: int, found: int) -> None:
    """Not for what lies behind it, nor if it has never got into the chain."""
    begun.happened(LogTrim(told), told)
    with begun.during(COPY):
        if told > 5:
            begun.happened(put(COPIED), 3)
    begun.happened(LogFindTrimPoint(), found)

    assert begun.broken() == {"trim points move forward"}
