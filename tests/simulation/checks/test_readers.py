"""Promises to readers: violations that the checks must find, and histories that they must accept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.checks.told_history import FIRST, SECOND, Story, data, filler, put, read, trimmed
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import Gap, GapKind, Open
from virtuallog.testing.checker.actions import LogAppend, LogCheckTail, LogFollow, LogRead, LogTrim
from virtuallog_simulation.checks.history.readers import followers_reach_the_tail


@pytest.mark.parametrize(
    "records",
    [
        [],
        [data(1, b"y")],
        [data(0, b"x"), data(2, b"z")],
        [data(1, b"y"), data(0, b"x"), data(2, b"z")],
        [data(0, b"x"), data(0, b"x"), data(1, b"y")],
        [data(0, b"x"), data(1, b"y"), data(2, b"z"), data(3, b"w")],
        [Gap(0, 3, GapKind.LOST)],
    ],
    ids=["nothing", "a late start", "a hole", "out of order", "twice", "too much", "a loss"],
)
def test_a_read_with_a_hole(story: Story, records: list[Any]) -> None:
    """A read begins at its start and covers every position once, in order; it may end early, not late."""
    for payload in (b"x", b"y", b"z", b"w"):
        story.failed(LogAppend((payload,)), UnavailableError("no answer"))
    story.happened(LogRead(0, 3), records)

    assert story.broken() == {"reads without holes"}


@pytest.mark.parametrize("gap", [filler(0, 1), trimmed(0, 1)])
def test_an_acknowledged_entry_that_is_gone(story: Story, gap: Gap) -> None:
    """I10. A gap is no excuse: no client asked for a trim."""
    story.happened(LogAppend((b"x",)), range(1))
    story.happened(LogRead(0, 1), [gap])

    assert story.broken() == {"acknowledged survives", "gaps are honest"}


def test_an_entry_that_was_read_and_is_gone(story: Story) -> None:
    """An entry that was read once stays, even without an acknowledgement. The second reader may have begun where the first passed."""
    story.failed(LogAppend((b"x",)), UnavailableError("no answer"))
    story.happened(LogRead(0, 1), [data(0, b"x")])
    story.happened(LogRead(0, 1), [trimmed(0, 1)], client="b")

    assert story.broken() == {"what was read stays", "gaps are honest"}


def test_a_trim_explains_a_gap_only_below_it(story: Story) -> None:
    """Position 1 was not to be trimmed."""
    story.happened(LogAppend((b"x", b"y")), range(2))
    with story.during(LogTrim(1)):
        story.happened(LogRead(0, 2), [trimmed(0, 2)])

    assert story.broken() == {"acknowledged survives", "gaps are honest"}


def test_a_trim_on_its_way_explains_a_gap(story: Story) -> None:
    """It may have had its effect already; and an entry below it may be gone before its first read."""
    story.happened(LogAppend((b"x", b"y")), range(2))
    with story.during(LogTrim(2)):
        story.happened(LogRead(0, 2), [trimmed(0, 2)])

    assert story.broken() == set()


def test_a_trim_that_comes_later_explains_nothing(story: Story) -> None:
    """When the gap was read, no client had asked for a trim."""
    story.happened(LogRead(0, 1), [trimmed(0, 1)])
    story.happened(LogTrim(1), 1)

    assert story.broken() == {"gaps are honest"}


def test_filler_where_an_entry_is(story: Story) -> None:
    """Filler is final, so it hides an entry, even one that came later."""
    story.happened(LogRead(0, 1), [filler(0, 1)])
    with story.during(LogAppend((b"x",))) as returned:
        returned(range(1))

    assert "gaps are honest" in story.broken()


def test_filler_where_no_entry_ever_is(story: Story) -> None:
    """A sparse loglet has such places."""
    story.happened(LogAppend((b"x",)), range(1))
    story.happened(read(data(0, b"x"), filler(1, 8)), [data(0, b"x"), filler(1, 8)])
    story.happened(LogAppend((b"y",)), range(8, 9))

    assert story.broken() == set()


def test_entries_offered_together_that_lie_apart(story: Story) -> None:
    """Side by side, in the order in which they were offered."""
    with story.during(LogAppend((b"x", b"y"))):
        story.happened(LogAppend((b"z",)), range(1, 2))
        story.happened(LogRead(0, 3), [data(0, b"x", 0), data(1, b"z", 7), data(2, b"y", 8)])

    assert "batches are whole" in story.broken()


def test_half_of_what_was_offered_together(story: Story) -> None:
    """All or none: another entry stands where the second half belongs, so that will never come."""
    with story.during(LogAppend((b"x", b"y"))):
        story.happened(LogRead(0, 1), [data(0, b"x")])
        story.happened(LogAppend((b"z",)), range(1, 2))

    assert story.broken() == {"batches are whole"}


def test_a_tail_in_the_middle_of_what_was_offered_together(story: Story) -> None:
    """One moment it is half in the log: not atomic."""
    with story.during(LogAppend((b"x", b"y"))) as returned:
        story.happened(LogCheckTail(), Open(1))
        returned(range(2))

    assert story.broken() == {"batches are whole"}


def test_a_boundary_in_the_middle_of_what_was_offered_together(story: Story) -> None:
    """Batches are sealed whole."""
    story.happened(put(FIRST), 1)
    with story.during(LogAppend((b"x", b"y"))) as returned:
        story.became(SECOND)
        returned(range(4, 6))

    assert story.broken() == {"batches are whole"}


def test_what_was_offered_together_and_is_whole(story: Story) -> None:
    """Tails at both ends, a boundary behind it."""
    story.happened(put(FIRST), 1)
    story.happened(LogCheckTail(), Open(3))
    story.happened(LogAppend((b"x", b"y")), range(3, 5))
    story.happened(LogCheckTail(), Open(5))
    story.became(SECOND)
    story.happened(LogRead(4, 5), [data(4, b"y")])

    assert story.broken() == set()


def test_an_append_that_got_too_few_positions(story: Story) -> None:
    """One for each entry."""
    story.happened(LogAppend((b"x", b"y")), range(1))

    assert story.broken() == {"batches are whole"}


def test_a_follower_that_skips(story: Story) -> None:
    """Each of its reads is fine by itself; what lies between them it was never told."""
    story.happened(LogAppend((b"x", b"y", b"z")), range(3))
    with story.during(LogFollow(0), "tailer"):
        story.happened(LogRead(0, 1), [data(0, b"x")], "tailer")
        story.happened(LogRead(2, 3), [data(2, b"z")], "tailer")

    assert story.broken() == {"followers go on"}


def test_a_follower_that_is_handed_a_record_twice(story: Story) -> None:
    """Unique, also across a reconfiguration: nothing is handed out again."""
    story.happened(LogAppend((b"x", b"y")), range(2))
    with story.during(LogFollow(0), "tailer"):
        story.happened(LogRead(0, 2), [data(0, b"x"), data(1, b"y")], "tailer")
        story.happened(LogRead(1, 2), [data(1, b"y")], "tailer")

    assert story.broken() == {"followers go on"}


def test_a_follower_that_begins_elsewhere(story: Story) -> None:
    """It was to begin at 1: that is how one resumes."""
    story.happened(LogAppend((b"x", b"y")), range(2))
    with story.during(LogFollow(1), "tailer"):
        story.happened(LogRead(0, 2), [data(0, b"x"), data(1, b"y")], "tailer")

    assert story.broken() == {"followers go on"}


def test_a_follower_that_goes_on_and_one_that_starts_anew(story: Story) -> None:
    """A client may follow from one place for a while, then from another; what others read meanwhile is their affair."""
    story.happened(LogAppend((b"x", b"y")), range(2))
    with story.during(LogFollow(0), "tailer") as stopped:
        story.happened(LogRead(0, 1), [data(0, b"x")], "tailer")
        story.happened(LogRead(0, 1), [data(0, b"x")], "reader")
        story.happened(LogRead(1, 2), [data(1, b"y")], "tailer")
        stopped(None)
    with story.during(LogFollow(0), "tailer"):
        story.happened(LogRead(0, 2), [data(0, b"x"), data(1, b"y")], "tailer")

    assert story.broken() == set()


def reached(story: Story) -> set[str]:
    return {violation.check for violation in followers_reach_the_tail(story.history)}


def test_a_frozen_follower(story: Story) -> None:
    """It waits at the boundary for a segment that all other clients have found."""
    story.happened(put(FIRST), 1)
    with story.during(LogFollow(4), "tailer"):
        story.happened(LogAppend((b"x",)), range(4, 5))
        story.happened(LogRead(4, 5), [data(4, b"x")], "tailer")
        story.became(SECOND)
        story.happened(LogAppend((b"y",)), range(5, 6))
        story.happened(LogCheckTail(), Open(6))

        assert reached(story) == {"followers reach the tail"}


def test_a_follower_that_reached_the_tail_and_one_that_died_before(story: Story) -> None:
    """Only who is alive can be asked."""
    story.happened(LogAppend((b"x",)), range(1))
    story.failed(LogFollow(0), UnavailableError("killed"), "tailer 1")
    with story.during(LogFollow(0), "tailer 2"):
        story.happened(LogRead(0, 1), [data(0, b"x")], "tailer 2")
        story.happened(LogCheckTail(), Open(1))

        assert reached(story) == set()


def test_a_follower_beyond_the_tail(story: Story) -> None:
    """It waits for what is to come, and is further than the tail: that is where it began."""
    with story.during(LogFollow(7), "tailer"):
        story.happened(LogCheckTail(), Open(3))

        assert reached(story) == set()
