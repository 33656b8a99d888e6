"""Exactly once and in order across loglets: what the checks must object to, and what they must let pass."""

from __future__ import annotations

from tests.simulation.checks.told_history import FIRST, SECOND, A, B, Story, batch, data, offer, put
from virtuallog.contract import chain
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import TooLargeError
from virtuallog.contract.types import PlacedBatch
from virtuallog.testing.checker.actions import LogAppend, LogletAppend, LogletRead, LogRead

OLD, NEW = SECOND.segments


def test_a_session_out_of_order(story: Story) -> None:
    """Sequence 1 stands before sequence 0."""
    with story.during(LogAppend((b"x",))), story.during(LogAppend((b"y",))):
        story.happened(LogRead(0, 2), [data(0, b"y", 1), data(1, b"x", 0)])

    assert story.broken() == {"entries in order and once"}


def test_a_session_reordered_by_a_retry_across_a_reconfiguration(story: Story) -> None:
    """Entry 1 was acknowledged by the old loglet, then entry 0, whose first offer failed there, by the new one."""
    story.happened(put(FIRST), 1)
    story.happened(offer(A, 1, segment=OLD.id), range(4, 5))
    story.became(SECOND)
    story.happened(offer(A, 0, segment=NEW.id), range(1))

    assert story.broken() == {"entries in order and once"}


def test_an_entry_in_both_loglets(story: Story) -> None:
    """It was offered again though the first offer had landed below the stop."""
    story.happened(put(FIRST), 1)
    story.happened(offer(A, 0, segment=OLD.id), range(4, 5))
    story.became(SECOND)
    story.happened(offer(A, 0, segment=NEW.id), range(1))

    assert story.broken() == {"entries in order and once"}


def test_a_zombie_beyond_the_stop_is_not_in_the_log(story: Story) -> None:
    """An entry may be offered again after it was not found below the stop: the other copy does no harm."""
    story.happened(put(FIRST), 1)
    with story.during(offer(A, 0, segment=OLD.id)):
        story.happened(offer(B, 0, 5, segment=OLD.id), range(5))
        story.became(SECOND)
        story.happened(
            LogletRead(OLD.id, 5, 6), [PlacedBatch(range(5, 6), batch(A, 0), 0)], "somebody with an old chain"
        )
        story.happened(offer(A, 0, segment=NEW.id), range(1))
        story.happened(offer(A, 1, segment=NEW.id), range(1, 2))

    assert story.broken() == set()


def test_a_copy_of_a_segment_that_differs(story: Story) -> None:
    """Another loglet under a closed segment must hold exactly the same entries."""
    story.happened(put(FIRST), 1)
    story.happened(offer(A, 0, 5, segment=OLD.id), range(5))
    story.became(SECOND)
    copied = chain.modify(SECOND, OLD.id, "memory", b"", 9)
    story.happened(offer(B, 0, 5, segment=copied.segments[0].id), range(5))
    story.became(copied)

    assert story.broken() == {"one entry per position"}


def test_a_copy_of_a_segment_that_is_the_same(story: Story) -> None:
    """Then it is no second appearance of its entries."""
    story.happened(put(FIRST), 1)
    story.happened(offer(A, 0, 5, segment=OLD.id), range(5))
    story.became(SECOND)
    copied = chain.modify(SECOND, OLD.id, "memory", b"", 9)
    story.happened(offer(A, 0, 5, segment=copied.segments[0].id), range(5))
    story.became(copied)

    assert story.broken() == set()


def test_what_cannot_fit_is_offered_to_a_loglet(story: Story) -> None:
    """The appender retries what a loglet refuses: this would go on for ever."""
    error = TooLargeError(what="bytes in an entry", size=9, limit=8)
    story.failed(offer(A, 0), error)

    assert story.broken() == {"too large is refused at the door", "errors as documented"}


def test_what_was_refused_as_too_large_is_offered_all_the_same(story: Story) -> None:
    """The caller believes that nothing was done."""
    error = TooLargeError(what="bytes in an entry", size=9, limit=8)
    large = b"too large, really"
    with story.during(LogletAppend(OLD.id, Batch.build(A, 0, [large]))):
        story.failed(LogAppend((large,)), error)

    assert story.broken() == {"too large is refused at the door"}


def test_what_is_refused_at_the_door(story: Story) -> None:
    """Only the caller ever hears of it."""
    story.happened(offer(A, 0), range(1))
    story.failed(LogAppend((b"too large, really",)), TooLargeError(what="bytes in an entry", size=9, limit=8))

    assert story.broken() == set()
