"""One loglet: every promise has a history that breaks it, and the check that objects has the promise's name.

What a loglet may do is tested with the judge itself, tests/virtuallog/testing/test_linearizability.py.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.simulation.checks.told_history import LOGLET, A, B, Story, batch, filler, offer, trimmed
from virtuallog.contract.batch import SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    OutOfOrderError,
    OverloadedError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import Gap, GapKind, Open, PlacedBatch, Sealed
from virtuallog.testing.checker.actions import LogletAppend, LogletCopy, LogletRead, LogletSeal, LogletTail, LogletTrim

OTHER = SegmentId(2, 8)
C = SessionId(b"c" * 16)


def test_a_loglet_without_fault(story: Story) -> None:
    """Appends, tails, reads, a trim, a seal, and another loglet that has nothing to do with it."""
    story.happened(offer(A, 0, 2), range(2))
    story.happened(LogletTail(LOGLET), Open(2))
    story.happened(LogletTail(OTHER), Open(0))
    story.happened(LogletTrim(LOGLET, 1), 1)
    story.happened(LogletRead(LOGLET, 0, 2), [trimmed(0, 1), PlacedBatch(range(1, 2), batch(A, 0, 2), 0, 1)])
    story.happened(LogletSeal(LOGLET))
    story.failed(offer(A, 2), SealedError(refused=True))
    story.happened(LogletTail(LOGLET), Sealed(2))
    story.happened(LogletTail(LOGLET, lagging=True), Open(1))

    assert story.broken() == set()


def test_a_loglet_that_acknowledges_past_its_stop(story: Story) -> None:
    """I4, whichever came first: the sequencer is drained before the stop is announced."""
    with story.during(offer(A, 0, 2)) as returned:
        story.happened(LogletSeal(LOGLET))
        story.happened(LogletTail(LOGLET), Sealed(3))
        returned(range(2, 4))

    assert story.broken() == {"acknowledged below the stop"}


def test_a_sealed_loglet_that_acknowledges(story: Story) -> None:
    """I4: the append began after the seal had returned."""
    story.happened(LogletSeal(LOGLET))
    story.happened(offer(A, 0), range(1))

    assert story.broken() == {"sealed takes nothing"}


def test_an_open_tail_past_the_stop(story: Story) -> None:
    """The ordering rule: the open one was read after the seal."""
    with story.during(LogletTail(LOGLET)) as returned:
        story.happened(LogletSeal(LOGLET))
        story.happened(LogletTail(LOGLET), Sealed(5))
        returned(Open(6))

    assert story.broken() == {"open tails below the stop"}


def test_a_lagging_open_tail_past_the_stop(story: Story) -> None:
    """A tail from `wait_tail` may be old, but it was true once."""
    story.happened(LogletTail(LOGLET, lagging=True), Open(6))
    story.happened(LogletSeal(LOGLET))
    story.happened(LogletTail(LOGLET), Sealed(5))

    assert "open tails below the stop" in story.broken()


@pytest.mark.parametrize(
    ("earlier", "later", "check"),
    [
        (Open(4), Open(3), "loglet tails move forward"),
        (Sealed(4), Sealed(3), "loglet tails move forward"),
        (Sealed(4), Open(4), "loglet tails move forward"),
        (Open(4), Sealed(3), "open tails below the stop"),
    ],
)
def test_a_loglet_tail_that_goes_back(story: Story, earlier: Any, later: Any, check: str) -> None:
    """I5: sealed stays sealed, and no tail shrinks."""
    with story.during(LogletSeal(LOGLET)):
        story.happened(LogletTail(LOGLET), earlier)
        story.happened(LogletTail(LOGLET), later)

    assert check in story.broken()


def test_a_loglet_tail_below_an_acknowledged_batch(story: Story) -> None:
    """I6, inside one loglet."""
    story.happened(offer(A, 0, 2), range(2))
    story.happened(LogletTail(LOGLET), Open(1))

    assert story.broken() == {"loglet tails move forward"}


def test_a_loglet_append_below_a_known_tail(story: Story) -> None:
    """Everything below a tail is written."""
    story.happened(LogletTail(LOGLET), Open(3))
    story.happened(offer(A, 0), range(2, 3))

    assert story.broken() == {"loglet appends follow the tail"}


def test_a_conditional_append_that_lands_elsewhere(story: Story) -> None:
    """A conditional append lands at its expected place or nowhere."""
    story.happened(attrs.evolve(offer(A, 0), expected_tail=0), range(1))
    story.happened(attrs.evolve(offer(B, 0), expected_tail=0), range(1, 2))

    assert story.broken() == {"loglet conditions hold"}


def test_sealed_by_nobody(story: Story) -> None:
    """A loglet does not seal itself."""
    story.happened(LogletTail(LOGLET), Sealed(0))

    assert story.broken() == {"sealed by another client"}


def test_two_batches_at_one_place(story: Story) -> None:
    """Two incarnations of a sequencer, say."""
    with story.during(offer(A, 0, 2)) as returned:
        story.happened(offer(B, 0, 2), range(2))
        returned(range(2))

    assert story.broken() == {"one batch per place"}


def test_one_batch_at_two_places(story: Story) -> None:
    """Offered again, a batch gets the places that it has."""
    for places in (range(2), range(2, 4)):
        story.happened(offer(A, 0, 2), places)

    assert story.broken() == {"one batch per place"}


def test_two_batches_with_one_sequence_number(story: Story) -> None:
    """A client that cuts a batch anew while the old one is a maybe."""
    story.failed(offer(A, 0, 1), UnavailableError("no answer"))
    story.happened(offer(A, 0, 2), range(2))

    assert story.broken() == {"one batch per sequence"}


def test_a_loglet_reader_that_differs(story: Story) -> None:
    """I7, I10: all readers of a loglet, and the appenders, agree on the offset of each batch."""
    with story.during(offer(B, 0)):
        story.happened(offer(A, 0), range(1))
        story.happened(LogletRead(LOGLET, 0, 1), [PlacedBatch(range(1), batch(B, 0), 0)])

    assert story.broken() == {"acknowledged is readable"}


def conditional(session: SessionId, first: int, expected_tail: int) -> LogletAppend:
    return attrs.evolve(offer(session, first), expected_tail=expected_tail)


def test_a_condition_refused_at_a_tail_below_a_known_one(story: Story) -> None:
    """A coordinator that was outbid tells the tail of its own time."""
    story.happened(offer(A, 0, 3), range(3))
    story.failed(conditional(B, 0, 5), TailMismatchError(5, 2))

    assert story.broken() == {"loglet refusals are true"}


def test_a_condition_refused_at_a_tail_that_comes_later(story: Story) -> None:
    """The tail must be decided before anything is refused because of it."""
    story.failed(conditional(B, 0, 0), TailMismatchError(0, 4))
    story.happened(LogletTail(LOGLET), Open(3))

    assert story.broken() == {"loglet refusals are true"}


def test_a_condition_refused_at_a_tail_of_the_time_of_the_call(story: Story) -> None:
    """The tail may move while the call is under way, and may be higher than all that is known."""
    story.happened(offer(A, 0, 3), range(3))
    with story.during(conditional(B, 0, 7)):
        story.happened(offer(A, 3, 2), range(3, 5))
        story.failed(conditional(C, 0, 7), TailMismatchError(7, 6), "c")
    story.happened(LogletTail(LOGLET), Open(6))

    assert story.broken() == set()


def test_a_condition_refused_with_the_tail_that_was_known_in_the_middle_of_the_call(story: Story) -> None:
    """An acknowledgement after the call began is no reason to object."""
    with story.during(offer(A, 0, 3)) as returned, story.refused(conditional(B, 0, 5), TailMismatchError(5, 0)):
        returned(range(3))

    assert story.broken() == set()


def test_a_condition_refused_once_more_with_the_first_reason(story: Story) -> None:
    """The same batch, offered again after the tail has moved, may hear what it was told before."""
    story.failed(conditional(B, 0, 5), TailMismatchError(5, 0))
    story.happened(offer(A, 0, 3), range(3))
    story.failed(conditional(B, 0, 5), TailMismatchError(5, 0))

    assert story.broken() == set()


def test_a_batch_that_is_told_that_its_known_predecessor_is_missing(story: Story) -> None:
    """The session continues behind what was acknowledged."""
    story.happened(offer(A, 0, 2), range(2))
    story.failed(offer(A, 2), OutOfOrderError(0))

    assert story.broken() == {"loglet refusals are true"}


def test_a_batch_that_overtakes_its_predecessor(story: Story) -> None:
    """The predecessor was acknowledged during the call: it may have been missing before."""
    with story.during(offer(A, 0, 2)) as returned, story.refused(offer(A, 2), OutOfOrderError(0)):
        returned(range(2))

    assert story.broken() == set()


@pytest.mark.parametrize("error", [TailMismatchError(0, 1), SealedError(refused=True)])
def test_a_loglet_that_shows_what_it_refused(story: Story, error: VirtualLogError) -> None:
    """The client was told that nothing was done."""
    offered = attrs.evolve(offer(A, 0), expected_tail=0)
    story.failed(offered, error)
    story.happened(LogletRead(LOGLET, 0, 1), [PlacedBatch(range(1), batch(A, 0), 0)])

    assert story.broken() == {"loglet invents nothing"}


@pytest.mark.parametrize("error", [OverloadedError("too much"), SealedError()])
def test_a_loglet_that_shows_what_it_turned_away_for_the_moment(story: Story, error: VirtualLogError) -> None:
    """Another copy of the call may have been taken: an unknown outcome."""
    story.failed(offer(A, 0), error)
    story.happened(LogletRead(LOGLET, 0, 1), [PlacedBatch(range(1), batch(A, 0), 0)])

    assert story.broken() == set()


@pytest.mark.parametrize(
    ("items", "check"),
    [
        ([PlacedBatch(range(1, 2), batch(A, 1), 0)], "loglet reads without holes"),
        ([Gap(0, 2, GapKind.LOST)], "loglet reads without holes"),
        ([filler(0, 2)], "loglet gaps are honest"),
        ([trimmed(0, 2)], "loglet gaps are honest"),
    ],
)
def test_a_loglet_read_with_a_hole(story: Story, items: list[Any], check: str) -> None:
    """Holes: a missing beginning, a loss, filler over entries, a gap by a trim that no client asked for."""
    story.happened(offer(A, 0), range(1))
    story.happened(offer(A, 1), range(1, 2))
    story.happened(LogletRead(LOGLET, 0, 2), items)

    assert story.broken() == {check}


def test_a_loglet_trim_point_that_goes_back(story: Story) -> None:
    """Never below an earlier one."""
    story.happened(LogletTrim(LOGLET, 5), 5)
    story.happened(LogletTrim(LOGLET, 4), 4)

    assert story.broken() == {"loglet trim points move forward"}


def test_a_loglet_that_reorders_a_session(story: Story) -> None:
    """Both were in flight; they are placed in the order of their sequence numbers."""
    with story.during(offer(A, 0)) as returned:
        story.happened(offer(A, 1), range(1))
        returned(range(1, 2))

    assert story.broken() == {"loglet keeps sessions in order"}


def test_a_moved_loglet_ends_at_the_stop_of_its_segment(story: Story) -> None:
    """A stripe acknowledges past the stop of the striped loglet, and only what lies below the stop is copied."""
    story.happened(offer(A, 0, 2), range(2))
    story.happened(LogletSeal(LOGLET))
    story.happened(LogletTail(LOGLET), Sealed(2))
    story.happened(LogletCopy(LOGLET, 1))
    story.happened(LogletTail(LOGLET, of_copy=True), Sealed(1))

    assert story.broken() == set()


def test_a_copy_that_ends_below_the_stop(story: Story) -> None:
    """The log has entries there."""
    story.happened(offer(A, 0, 2), range(2))
    story.happened(LogletSeal(LOGLET))
    story.happened(LogletCopy(LOGLET, 2))
    story.happened(LogletTail(LOGLET, of_copy=True), Sealed(1))

    assert story.broken() == {"copies are whole"}


def test_a_copy_that_is_open(story: Story) -> None:
    """Its former sequencer could go on."""
    story.happened(LogletSeal(LOGLET))
    story.happened(LogletCopy(LOGLET, 0))
    story.happened(LogletTail(LOGLET, of_copy=True), Open(0))

    assert story.broken() == {"copies are whole"}
