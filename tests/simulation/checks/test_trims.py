"""Trims of the log: what the checks must object to, and what they must let pass."""

from __future__ import annotations

from simulation.history import CheckTail, Reconfigure, Trim
from tests.simulation.checks.story import Story
from virtuallog.errors import UnavailableError
from virtuallog.types import Open


def test_a_trim_past_what_was_asked_for(story: Story) -> None:
    """It would drop entries that somebody needs."""
    story.happened(Trim(3), 4)

    assert story.broken() == {"trims are modest"}


def test_a_trim_that_finds_the_work_of_others(story: Story) -> None:
    """Somebody else asked for more, even if he never heard what came of it."""
    story.failed(Trim(5), UnavailableError("no answer"))
    story.happened(Trim(3), 5)

    assert story.broken() == set()


def test_a_trim_that_decided_too_early_that_there_is_nothing_to_do(story: Story) -> None:
    """The log was known to reach 5; a trim that did not look for the tail has left something behind."""
    story.happened(CheckTail(), Open(5))
    story.happened(Trim(4), 0)

    assert story.broken() == {"trims are effective"}


def test_a_trim_past_the_tail_stops_there(story: Story) -> None:
    """What is effective is told: not more than there is."""
    story.happened(CheckTail(), Open(5))
    story.happened(Trim(9), 5)
    story.happened(CheckTail(), Open(5))

    assert story.broken() == set()


def test_a_trim_point_that_goes_back(story: Story) -> None:
    """The second trim had nothing to do, and should have said how far the log is trimmed."""
    story.happened(CheckTail(), Open(9))
    story.happened(Trim(5), 5)
    story.happened(Trim(3), 3)

    assert story.broken() == {"trim points move forward"}


def test_overlapping_trims_may_differ(story: Story) -> None:
    """The smaller one may have been done first."""
    story.happened(CheckTail(), Open(9))
    with story.during(Trim(3)) as returned:
        story.happened(Trim(5), 5)
        returned(3)

    assert story.broken() == set()


def test_a_copy_may_be_behind_while_it_takes_the_place_of_a_segment(story: Story) -> None:
    """And no longer: once the change has returned, what was trimmed before it stays trimmed."""
    story.happened(CheckTail(), Open(9))
    with story.during(Reconfigure("modify 1.7 base=0")) as returned:
        story.happened(Trim(5), 5)
        story.happened(Trim(0), 3)
        assert story.broken() == set()
        returned(2)
    story.happened(Trim(0), 3)

    assert story.broken() == {"trim points move forward"}
