"""Is it the history of one log? What the checks must object to, and what they must let pass."""

from __future__ import annotations

import pytest

from tests.simulation.checks.told_history import FIRST, SECOND, Story, data, put, register, trimmed
from virtuallog.contract import chain
from virtuallog.contract.errors import (
    BeyondTailError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import Open, Sealed
from virtuallog.testing.checker.actions import (
    CloseChange,
    LogAppend,
    LogCheckTail,
    LogletTail,
    LogRead,
    LogTrim,
    Reconfigure,
    RegisterGet,
)

CLOSED = chain.close(SECOND, 7)
REOPENED = chain.extend(CLOSED, 7, "memory", b"", 4)


def test_a_history_without_fault_passes_every_check(story: Story) -> None:
    """Appends, tails, reads, a trim, changes of the chain: nothing to complain about."""
    story.happened(put(FIRST), 1)
    story.happened(LogAppend((b"x", b"y")), range(2))
    story.happened(LogCheckTail(), Open(2))
    story.happened(LogRead(0, 2), [data(0, b"x"), data(1, b"y")])
    story.happened(LogTrim(1), 1)
    story.happened(LogRead(0, 2), [trimmed(0, 1), data(1, b"y")])
    story.happened(LogAppend((b"z", b"u", b"v")), range(2, 5))
    story.became(SECOND)
    story.happened(LogCheckTail(), Open(5))
    story.happened(LogAppend((b"w",), expected_tail=5), range(5, 6))

    assert story.broken() == set()


def test_two_readers_that_differ(story: Story) -> None:
    """One position, one entry."""
    for payload in (b"x", b"y"):
        with story.during(LogAppend((payload,))):
            pass
        story.happened(LogRead(0, 1), [data(0, payload)])

    assert story.broken() == {"one entry per position"}


def test_a_reader_that_differs_from_the_acknowledgement(story: Story) -> None:
    """The entry at a position is the one that was acknowledged there."""
    with story.during(LogAppend((b"other",))):
        story.happened(LogAppend((b"x",)), range(1))
    story.happened(LogRead(0, 1), [data(0, b"other")])

    assert story.broken() == {"one entry per position"}


def test_two_appends_at_one_position(story: Story) -> None:
    """Two appends are never acknowledged at one position, even if no reader looks."""
    with story.during(LogAppend((b"x",))) as returned:
        story.happened(LogAppend((b"y",)), range(1))
        returned(range(1))

    assert story.broken() == {"one entry per position"}


def test_an_entry_that_stands_in_the_log_twice(story: Story) -> None:
    """The same payload under two sequence numbers: it was offered a second time."""
    with story.during(LogAppend((b"x",))):
        story.happened(LogRead(0, 2), [data(0, b"x", 0), data(1, b"x", 1)])

    assert story.broken() == {"entries in order and once"}


def test_an_entry_that_nobody_offered(story: Story) -> None:
    """Not from nowhere, and not before it was offered."""
    story.happened(LogRead(0, 1), [data(0, b"x")])
    story.happened(LogAppend((b"x",)), range(1))

    assert "nothing invented" in story.broken()


@pytest.mark.parametrize("error", [SealedError(), TailMismatchError(0, 1)])
def test_an_entry_whose_append_failed_for_sure(story: Story, error: VirtualLogError) -> None:
    """These errors say that the entry is not in the log."""
    story.failed(Reconfigure(CloseChange()), UnavailableError("no answer"))
    story.failed(LogAppend((b"x",), 0), error)
    story.happened(LogRead(0, 1), [data(0, b"x")])

    assert story.broken() == {"nothing invented"}


def test_an_unknown_append_may_be_found(story: Story) -> None:
    """UnavailableError says nothing about the outcome; it may land long after, too."""
    story.failed(LogAppend((b"x",)), UnavailableError("no answer"))
    story.happened(LogAppend((b"y",)), range(1))
    story.happened(LogRead(1, 2), [data(1, b"x")])

    assert story.broken() == set()


def test_a_tail_below_an_acknowledged_entry(story: Story) -> None:
    """I6: `check_tail` covers all entries that were acknowledged before it was called."""
    story.happened(LogAppend((b"x",)), range(1))
    story.happened(LogCheckTail(), Open(0))

    assert story.broken() == {"tails move forward"}


def test_a_tail_that_goes_back(story: Story) -> None:
    """I5, across two clients, and across a failover: who returned the first one does not matter."""
    story.happened(LogCheckTail(), Open(5))
    story.happened(LogCheckTail(), Open(4), client="b")

    assert story.broken() == {"tails move forward"}


def test_overlapping_tail_checks_may_disagree(story: Story) -> None:
    """Linearizability leaves their order open."""
    with story.during(LogCheckTail()) as returned:
        story.happened(LogCheckTail(), Open(5))
        returned(Open(4))

    assert story.broken() == set()


def test_a_tail_may_miss_what_is_not_acknowledged_yet(story: Story) -> None:
    """The append is still on its way when the tail is taken."""
    with story.during(LogAppend((b"x",))) as returned:
        story.happened(LogCheckTail(), Open(0))
        returned(range(1))

    assert story.broken() == set()


def test_a_tail_below_what_somebody_has_read(story: Story) -> None:
    """No future leak: the reader was shown what was not in the log yet."""
    with story.during(LogAppend((b"x",))):
        story.happened(LogRead(0, 1), [data(0, b"x")])
        story.happened(LogCheckTail(), Open(0))

    assert story.broken() == {"tails move forward"}


def test_a_tail_below_a_gap_that_somebody_has_read(story: Story) -> None:
    """A gap is news as well."""
    with story.during(LogTrim(3)):
        story.happened(LogRead(0, 3), [trimmed(0, 3)])
        story.happened(LogCheckTail(), Open(2))

    assert story.broken() == {"tails move forward"}


def test_a_tail_below_a_trim_point(story: Story) -> None:
    """A trim point is never past the tail (it is clamped to the sealed tail as well)."""
    story.happened(LogTrim(3), 3)
    story.happened(LogCheckTail(), Open(2))

    assert story.broken() == {"tails move forward"}


def test_a_tail_below_a_boundary(story: Story) -> None:
    """The first segment ends at 5, so the log has reached 5."""
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    story.happened(LogCheckTail(), Open(4))

    assert story.broken() == {"tails move forward"}


def test_an_append_below_a_known_tail(story: Story) -> None:
    """Everything below a tail is written already."""
    story.happened(LogCheckTail(), Open(5))
    story.happened(LogAppend((b"x",)), range(4, 5))

    assert story.broken() == {"appends follow the tail"}


def test_an_append_below_one_that_was_acknowledged_before(story: Story) -> None:
    """Real time orders appends of all clients."""
    story.happened(LogAppend((b"x",)), range(1, 2))
    story.happened(LogAppend((b"y",)), range(1), client="b")

    assert story.broken() == {"appends follow the tail"}


def test_an_unknown_append_that_lands_below_a_known_tail(story: Story) -> None:
    """It was never acknowledged, but it was offered only after the tail was known to be 5."""
    story.happened(LogCheckTail(), Open(5))
    story.failed(LogAppend((b"x",)), UnavailableError("no answer"))
    story.happened(LogRead(4, 5), [data(4, b"x")])

    assert story.broken() == {"appends follow the tail"}


def test_a_read_below_a_known_tail_that_is_refused(story: Story) -> None:
    """I6: every position below a tail is readable by every client."""
    story.happened(LogCheckTail(), Open(5))
    story.failed(LogRead(0, 5), BeyondTailError(5, 4), client="b")

    assert story.broken() == {"known tails are readable"}


def test_a_read_past_the_tail_is_refused(story: Story) -> None:
    """No client knew of a tail of 6."""
    story.happened(LogCheckTail(), Open(5))
    story.failed(LogRead(0, 6), BeyondTailError(6, 5))

    assert story.broken() == set()


def test_a_conditional_append_elsewhere(story: Story) -> None:
    """Exactly there, or not at all."""
    story.happened(LogAppend((b"x",), expected_tail=4), range(5, 6))

    assert story.broken() == {"conditions hold"}


def test_a_conditional_append_refused_without_reason(story: Story) -> None:
    """The tail was 5 when it was refused: it was before, and the next entry came there later."""
    story.happened(LogCheckTail(), Open(5))
    story.failed(LogAppend((b"x",), expected_tail=5), TailMismatchError(5, 4))
    story.happened(LogAppend((b"y",)), range(5, 6))

    assert story.broken() == {"conditions hold"}


def test_a_conditional_append_refused_for_another_one(story: Story) -> None:
    """Another client's append was on the way to the same position."""
    story.happened(LogCheckTail(), Open(5))
    with story.during(LogAppend((b"y",))) as returned:
        story.failed(LogAppend((b"x",), expected_tail=5), TailMismatchError(5, 6))
        returned(range(5, 6))

    assert story.broken() == set()


def test_a_conditional_append_refused_at_a_tail_that_has_passed(story: Story) -> None:
    """The one that was expected is ahead of it: the log may reach it, and the client was told that it had not got so far."""
    story.happened(LogCheckTail(), Open(5))
    story.failed(LogAppend((b"x",), expected_tail=7), TailMismatchError(7, 4))

    assert story.broken() == {"conditions hold"}


def test_a_conditional_append_refused_at_a_tail_that_was_not_reached(story: Story) -> None:
    """The tail in the refusal is not in the log later."""
    story.failed(LogAppend((b"x",), expected_tail=5), TailMismatchError(5, 8))
    story.happened(LogCheckTail(), Open(6))

    assert story.broken() == {"conditions hold"}


def test_a_conditional_append_refused_while_the_tail_moves(story: Story) -> None:
    """The tail that it names was the one when the call began."""
    story.happened(LogCheckTail(), Open(5))
    with story.refused(LogAppend((b"x",), expected_tail=7), TailMismatchError(7, 5)):
        story.happened(LogCheckTail(), Open(6))

    assert story.broken() == set()


def test_a_conditional_append_behind_the_expected_tail_names_an_older_one(story: Story) -> None:
    """One that has passed stays past: which of the later tails it names does not matter."""
    story.happened(LogCheckTail(), Open(9))
    story.failed(LogAppend((b"x",), expected_tail=2), TailMismatchError(2, 4))

    assert story.broken() == set()


def close(story: Story) -> None:
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    story.happened(LogletTail(SECOND.last.id), Open(2))
    story.became(CLOSED)


def test_a_log_that_is_closed_and_opened_again(story: Story) -> None:
    """Sealed while it is closed, open before and after, at the same tail."""
    close(story)
    story.happened(LogCheckTail(), Sealed(7))
    story.became(REOPENED)
    story.happened(LogCheckTail(), Open(7))
    story.happened(LogAppend((b"x",)), range(7, 8))

    assert story.broken() == set()


def test_a_sealed_tail_of_a_log_that_nobody_closed(story: Story) -> None:
    """A sealed loglet does not concern clients that ask for the tail of the log."""
    story.happened(LogCheckTail(), Sealed(0))

    assert story.broken() == {"closed takes nothing"}


def test_a_sealed_tail_after_the_log_was_opened_again(story: Story) -> None:
    """It was surely open when the tail was asked for."""
    close(story)
    story.became(REOPENED)
    story.happened(LogCheckTail(), Sealed(7))

    assert story.broken() == {"closed takes nothing"}


def test_an_open_tail_of_a_closed_log(story: Story) -> None:
    """It was closed before the tail was asked for, and was not opened since."""
    close(story)
    story.happened(LogCheckTail(), Open(7))

    assert story.broken() == {"closed takes nothing"}


def test_a_closed_log_that_acknowledges(story: Story) -> None:
    """It was not opened again."""
    close(story)
    story.happened(LogAppend((b"x",)), range(7, 8))

    assert story.broken() == {"closed takes nothing"}


def test_an_acknowledgement_while_somebody_opens_the_log(story: Story) -> None:
    """The change may be decided long before its author hears of it."""
    close(story)
    with story.during(put(REOPENED)) as returned:
        story.happened(LogAppend((b"x",)), range(7, 8))
        story.happened(LogCheckTail(), Open(8))
        returned(4)
    story.happened(RegisterGet(), (4, register(REOPENED)))

    assert story.broken() == set()
