"""The register and the chain in it: what the checks must object to, and what they must let pass."""

from __future__ import annotations

import attrs

from tests.simulation.checks.told_history import FIRST, SECOND, Story, put, register
from virtuallog.contract import chain
from virtuallog.contract.chain import Chain
from virtuallog.contract.errors import ChainConflictError
from virtuallog.contract.types import LogPosition, Open, Sealed
from virtuallog.testing.checker.actions import LogletRead, LogletSeal, LogletTail, RegisterGet, RegisterPut
from virtuallog_simulation.checks.history.chain import SEGMENT_BYTES

OLD, NEW = SECOND.segments


def test_changes_one_after_the_other(story: Story) -> None:
    """Extend, extend an empty segment, close, reopen, truncate."""
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    story.happened(LogletTail(NEW.id), Open(0))
    story.happened(LogletSeal(NEW.id))
    story.happened(LogletTail(NEW.id), Sealed(0))
    third = chain.extend(SECOND, 5, "memory", b"", 3)
    story.became(third)
    closed = chain.close(third, 8)
    story.became(closed)
    reopened = chain.extend(closed, 8, "memory", b"", 5)
    story.became(reopened)
    truncated = chain.truncate(reopened, 5)
    assert truncated is not None
    story.became(truncated)
    story.happened(RegisterGet(), (6, register(truncated)), "b")

    assert story.broken() == set()


def test_two_values_of_one_version(story: Story) -> None:
    """I2: the conditional put has one winner."""
    other = chain.genesis("memory", b"", 9)
    with story.during(put(FIRST, 1)), story.during(put(other, 2)):
        story.happened(RegisterGet(), (1, register(FIRST)))
        story.happened(RegisterGet(), (1, register(other)))

    assert story.broken() == {"one value per version"}


def test_two_winners_of_one_version(story: Story) -> None:
    """Equal bytes do not make them one: each will do what follows from having won."""
    with story.during(put(FIRST, 1)) as returned:
        story.happened(put(FIRST, 2), 1)
        returned(1)

    assert story.broken() == {"one winner per version"}


def test_a_register_that_goes_back(story: Story) -> None:
    """A client knew version 2 before this read began."""
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    story.happened(RegisterGet(), (1, register(FIRST)), "b")

    assert story.broken() == {"versions move forward"}


def test_a_client_whose_register_goes_back(story: Story) -> None:
    """Both reads were under way at once, so their order is open to others; but one client never goes back."""
    story.happened(put(FIRST), 1)
    with story.during(RegisterGet()) as returned:
        story.became(SECOND)
        story.happened(RegisterGet(), (2, register(SECOND)), "b")
        returned((1, register(FIRST)))

    assert story.broken() == {"versions of a client move forward"}


def test_a_refused_put_that_was_decided(story: Story) -> None:
    """Its caller would do its change a second time."""
    story.failed(put(FIRST), ChainConflictError(0, 1))
    story.happened(RegisterGet(), (1, register(FIRST)))

    assert story.broken() == {"refused stays refused"}


def test_equal_bytes_of_two_puts(story: Story) -> None:
    """Two clients close the log at the same place; one wins, and the other one's bytes are decided all the same."""
    with story.during(put(FIRST, 2)) as returned:
        story.failed(put(FIRST, 1), ChainConflictError(0, 1))
        returned(1)
    story.happened(RegisterGet(), (1, register(FIRST)))

    assert story.broken() == set()


def test_a_boundary_that_moves(story: Story) -> None:
    """I1: version 3 closes the first segment somewhere else."""
    moved = Chain(3, chain.extend(FIRST, 6, "memory", b"", 2).segments)
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    story.happened(put(moved), 3)

    assert story.broken() == {"chain is gapless"}


def test_a_register_that_nobody_can_read(story: Story) -> None:
    """Every reader refuses a chain with a hole."""
    first, second = SECOND.segments
    story.happened(put(Chain(2, (first, attrs.evolve(second, start=LogPosition(6))))), 2)

    assert story.broken() == {"chain is gapless"}


def test_a_boundary_that_nobody_had_read(story: Story) -> None:
    """I3: the stop was taken from somewhere else than the sealed loglet, which may still take appends there."""
    story.happened(put(FIRST), 1)
    story.happened(LogletTail(OLD.id), Open(5))
    story.happened(put(SECOND), 2)

    assert story.broken() == {"boundaries come from sealed tails"}


def test_a_boundary_that_was_read_too_late(story: Story) -> None:
    """The seal came after the change had been offered."""
    story.happened(put(FIRST), 1)
    with story.during(put(SECOND)) as returned:
        story.happened(LogletSeal(OLD.id))
        story.happened(LogletTail(OLD.id), Sealed(5))
        returned(2)

    assert story.broken() == {"boundaries come from sealed tails"}


def test_an_open_tail_past_the_decided_boundary(story: Story) -> None:
    """A client that believes it reads a zombie where all others have an entry of the next segment."""
    story.happened(put(FIRST), 1)
    with story.during(LogletTail(OLD.id)) as returned:
        story.became(SECOND)
        returned(Open(6))

    assert "open tails below the boundary" in story.broken()


def test_a_client_that_reads_past_the_stop_that_it_knows(story: Story) -> None:
    """A read of a closed segment is clamped to the chain's stop, even if the loglet holds more."""
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    story.happened(RegisterGet(), (2, register(SECOND)), "b")
    with story.during(LogletRead(OLD.id, 4, 6), "b"):
        pass

    assert story.broken() == {"no append passes a known stop"}


def test_a_client_that_waits_on_a_loglet_whose_end_it_knows(story: Story) -> None:
    """Nothing will ever come there."""
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    with story.during(LogletTail(OLD.id, lagging=True), "operator"):
        pass

    assert story.broken() == {"no append passes a known stop"}


def test_a_client_with_an_old_chain_may_ask_for_more(story: Story) -> None:
    """It has seen a larger tail, and knows of no stop; no caller sees what it gets beyond."""
    story.happened(put(FIRST), 1)
    with story.during(LogletTail(OLD.id, lagging=True), "b"):
        story.became(SECOND)
    with story.during(LogletRead(OLD.id, 4, 6), "b"):
        pass

    assert story.broken() == set()


def test_a_register_that_grows_without_segments(story: Story) -> None:
    """Endless reconfiguration must not fill the register with what is over."""
    story.happened(put(FIRST), 1)
    padded = attrs.evolve(FIRST.last, config=bytes(2 * SEGMENT_BYTES + 4096))
    story.happened(RegisterPut(2, register(Chain(2, (padded,))), 2), 2)

    assert "register is bounded" in story.broken()
