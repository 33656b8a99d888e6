"""Each checker finds the broken promise that it is there for, in a history of a few lines, and is quiet otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from simulation.checks.chain import CHAIN_CHECKS
from simulation.checks.log import LOG_CHECKS
from simulation.checks.loglet import LOGLET_CHECKS
from simulation.history import (
    Append,
    CheckTail,
    Get,
    History,
    LogletAppend,
    LogletSeal,
    LogletTail,
    Put,
    Read,
    Recorder,
    Trim,
)
from virtuallog import chain
from virtuallog.batch import Batch, SessionId
from virtuallog.chain import Chain, SegmentId
from virtuallog.errors import ChainConflictError, SealedError, TailMismatchError, UnavailableError, VirtualLogError
from virtuallog.register import ClusterId, Register
from virtuallog.types import Data, Gap, GapKind, LogPosition, Open, Sealed

LOGLET = SegmentId(1, 7)
SESSION = SessionId(b"s" * 16)


class Story:
    """A history, told in the order in which things happen."""

    def __init__(self) -> None:
        times = count()
        self.history = History(lambda: float(next(times)))

    def happened(self, action: Any, result: Any = None, client: str = "a") -> None:
        """A call that returned before anything else happened."""
        self.history.observed(client, action, result)

    def failed(self, action: Any, error: VirtualLogError) -> None:
        with pytest.raises(type(error)), self.history.record("a", action):
            raise error

    @contextmanager
    def during(self, action: Any) -> Iterator[Recorder]:
        """A call that takes as long as the context."""
        with self.history.record("a", action) as returned:
            yield returned

    def broken(self) -> set[str]:
        """Names of the checks that find something."""
        checks = (*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)
        return {violation.check for check in checks for violation in check(self.history)}


def data(position: int, payload: bytes, sequence: int | None = None, session: SessionId = SESSION) -> Data:
    return Data(LogPosition(position), payload, 0, session, position if sequence is None else sequence)


def read(*records: Any) -> Read:
    last = records[-1]
    start = records[0].start if isinstance(records[0], Gap) else records[0].position
    return Read(start, last.stop if isinstance(last, Gap) else last.position + 1)


def offer(session: SessionId, count: int) -> LogletAppend:
    return LogletAppend(LOGLET, Batch.build(session, 0, [b"entry"] * count))


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_history_without_fault_passes_every_check(story: Story) -> None:
    """Appends, tails, reads, a trim, a seal: nothing to complain about."""
    story.happened(Append((b"x", b"y")), range(2))
    story.happened(CheckTail(), Open(2))
    story.happened(Read(0, 2), [data(0, b"x"), data(1, b"y")])
    story.happened(Trim(1), 1)
    story.happened(Read(0, 2), [Gap(0, 1, GapKind.TRIMMED), data(1, b"y")])
    story.happened(offer(SESSION, 2), range(2))
    story.happened(LogletTail(LOGLET), Open(2))
    story.happened(LogletSeal(LOGLET))
    story.happened(LogletTail(LOGLET), Sealed(2))

    assert story.broken() == set()


def test_two_readers_that_differ(story: Story) -> None:
    """One position, one entry."""
    for payload in (b"x", b"y"):
        with story.during(Append((payload,))):
            pass
        story.happened(Read(0, 1), [data(0, payload)])

    assert story.broken() == {"one entry per position"}


def test_a_reader_that_differs_from_the_acknowledgement(story: Story) -> None:
    """What was acknowledged at a position is what lies there."""
    with story.during(Append((b"other",))):
        story.happened(Append((b"x",)), range(1))
    story.happened(Read(0, 1), [data(0, b"other")])

    assert story.broken() == {"one entry per position"}


def test_two_appends_at_one_position(story: Story) -> None:
    """Nor are two of them acknowledged there, even if nobody reads."""
    with story.during(Append((b"x",))) as returned:
        story.happened(Append((b"y",)), range(1))
        returned(range(1))

    assert story.broken() == {"one entry per position"}


@pytest.mark.parametrize("kind", [GapKind.FILLER, GapKind.TRIMMED])
def test_an_acknowledged_entry_that_is_gone(story: Story, kind: GapKind) -> None:
    """I10. A gap is no excuse: nobody asked for a trim."""
    story.happened(Append((b"x",)), range(1))
    story.happened(Read(0, 1), [Gap(0, 1, kind)])

    assert story.broken() == {"acknowledged survives"}


def test_a_trim_explains_a_gap_only_below_it(story: Story) -> None:
    """Position 1 was not to be trimmed."""
    story.happened(Append((b"x", b"y")), range(2))
    with story.during(Trim(1)):
        story.happened(Read(0, 2), [Gap(0, 2, GapKind.TRIMMED)])

    assert story.broken() == {"acknowledged survives"}


@pytest.mark.parametrize(
    "records",
    [
        [],
        [data(1, b"y")],
        [data(0, b"x"), data(2, b"z")],
        [data(0, b"x"), data(1, b"y"), data(2, b"z"), data(3, b"w")],
        [Gap(0, 3, GapKind.LOST)],
    ],
)
def test_a_read_with_a_hole(story: Story, records: list[Any]) -> None:
    """Nothing, a late start, a hole, too much, a loss."""
    with story.during(Append((b"x", b"y", b"z", b"w"))):
        story.happened(Read(0, 3), records)

    assert story.broken() == {"reads without holes"}


def test_a_tail_below_an_acknowledged_entry(story: Story) -> None:
    """I6: `check_tail` covers whatever was acknowledged before it was called."""
    story.happened(Append((b"x",)), range(1))
    story.happened(CheckTail(), Open(0))

    assert story.broken() == {"tails move forward"}


def test_a_tail_that_goes_back(story: Story) -> None:
    """I5, across two clients."""
    story.happened(CheckTail(), Open(5))
    story.happened(CheckTail(), Open(4), client="b")

    assert story.broken() == {"tails move forward"}


def test_overlapping_tail_checks_may_disagree(story: Story) -> None:
    """Linearizability leaves their order open."""
    with story.during(CheckTail()) as returned:
        story.happened(CheckTail(), Open(5))
        returned(Open(4))

    assert story.broken() == set()


def test_an_append_below_a_known_tail(story: Story) -> None:
    """Everything below a tail is written already."""
    story.happened(CheckTail(), Open(5))
    story.happened(Append((b"x",)), range(4, 5))

    assert story.broken() == {"appends follow the tail"}


def test_a_session_out_of_order(story: Story) -> None:
    """Sequence 1 stands before sequence 0."""
    with story.during(Append((b"x", b"y"))):
        story.happened(Read(0, 2), [data(0, b"y", 1), data(1, b"x", 0)])

    assert story.broken() == {"entries in order and once"}


def test_an_entry_that_stands_in_the_log_twice(story: Story) -> None:
    """As (session, sequence), or as the same payload under two of them."""
    with story.during(Append((b"x",))):
        story.happened(Read(0, 2), [data(0, b"x", 0), data(1, b"x", 0, SessionId(b"t" * 16))])

    assert story.broken() == {"entries in order and once"}


def test_an_entry_that_nobody_offered(story: Story) -> None:
    """Or whose append has surely failed."""
    story.happened(Read(0, 1), [data(0, b"x")])
    assert story.broken() == {"nothing invented"}


@pytest.mark.parametrize("error", [SealedError(), TailMismatchError(0, 1)])
def test_an_entry_whose_append_failed_for_sure(story: Story, error: VirtualLogError) -> None:
    """These errors say that the entry is not in the log."""
    story.failed(Append((b"x",)), error)
    story.happened(Read(0, 1), [data(0, b"x")])

    assert story.broken() == {"nothing invented"}


def test_an_unknown_append_may_be_found(story: Story) -> None:
    """UnavailableError says nothing about the outcome."""
    story.failed(Append((b"x",)), UnavailableError("no answer"))
    story.happened(Read(0, 1), [data(0, b"x")])

    assert story.broken() == set()


def test_a_trim_past_what_was_asked_for(story: Story) -> None:
    """It would drop entries that somebody needs."""
    story.happened(Trim(3), 4)

    assert story.broken() == {"trims are modest"}


def test_a_loglet_that_acknowledges_past_its_stop(story: Story) -> None:
    """I4, whichever came first."""
    with story.during(offer(SESSION, 2)) as returned:
        story.happened(LogletSeal(LOGLET))
        story.happened(LogletTail(LOGLET), Sealed(3))
        returned(range(2, 4))

    assert story.broken() == {"acknowledged below the stop"}


def test_a_sealed_loglet_that_acknowledges(story: Story) -> None:
    """I4: the append began after the seal had returned."""
    story.happened(LogletSeal(LOGLET))
    story.happened(offer(SESSION, 1), range(1))

    assert story.broken() == {"sealed takes nothing"}


def test_an_open_tail_past_the_stop(story: Story) -> None:
    """The ordering rule: the open one was read after the seal."""
    with story.during(LogletTail(LOGLET)) as returned:
        story.happened(LogletSeal(LOGLET))
        story.happened(LogletTail(LOGLET), Sealed(5))
        returned(Open(6))

    assert story.broken() == {"open tails below the stop"}


@pytest.mark.parametrize(
    ("earlier", "later"), [(Open(4), Open(3)), (Sealed(4), Sealed(3)), (Sealed(4), Open(4)), (Open(4), Sealed(3))]
)
def test_a_loglet_tail_that_goes_back(story: Story, earlier: Any, later: Any) -> None:
    """I5: sealed stays sealed, and no tail shrinks."""
    story.happened(LogletTail(LOGLET), earlier)
    story.happened(LogletTail(LOGLET), later)

    assert "loglet tails move forward" in story.broken()


def test_a_loglet_tail_below_an_acknowledged_batch(story: Story) -> None:
    """I6, inside one loglet."""
    story.happened(offer(SESSION, 2), range(2))
    story.happened(LogletTail(LOGLET), Open(1))

    assert story.broken() == {"loglet tails move forward"}


def test_two_batches_at_one_place(story: Story) -> None:
    """Two incarnations of a sequencer, say."""
    for session in (SESSION, SessionId(b"t" * 16)):
        story.happened(offer(session, 2), range(2))

    assert story.broken() == {"one batch per place"}


def test_one_batch_at_two_places(story: Story) -> None:
    """Offered again, a batch gets the places that it has."""
    for places in (range(2), range(2, 4)):
        story.happened(offer(SESSION, 2), places)

    assert story.broken() == {"one batch per place"}


def register(the_chain: Chain) -> bytes:
    return Register(cluster=ClusterId(bytes(16)), chain=the_chain, members=(), nodes={}).encode()


FIRST = chain.genesis("memory", b"", 1)
SECOND = chain.extend(FIRST, 5, "memory", b"", 2)


def test_two_values_of_one_version(story: Story) -> None:
    """I2: the conditional put has one winner."""
    story.happened(Get(), (1, register(FIRST)))
    story.happened(Get(), (1, register(chain.genesis("memory", b"", 9))))

    assert story.broken() == {"one value per version"}


def test_a_register_that_goes_back(story: Story) -> None:
    """Somebody knew version 2 before this read began."""
    story.happened(Get(), (1, register(FIRST)))
    story.happened(Put(2, register(SECOND)), 2)
    story.happened(Get(), (1, register(FIRST)))

    assert story.broken() == {"versions move forward"}


def test_a_refused_put_that_was_decided(story: Story) -> None:
    """Its caller would do its change a second time."""
    story.failed(Put(2, register(SECOND)), ChainConflictError(1, 2))
    story.happened(Get(), (2, register(SECOND)))

    assert story.broken() == {"refused stays refused"}


def test_equal_bytes_of_two_puts(story: Story) -> None:
    """Two clients close the log at the same place; one wins, and the other one's bytes are decided all the same."""
    story.failed(Put(2, register(SECOND)), ChainConflictError(1, 2))
    story.happened(Put(2, register(SECOND)), 2)

    assert story.broken() == set()


def test_a_boundary_that_moves(story: Story) -> None:
    """I1: version 3 closes the first segment somewhere else."""
    moved = Chain(3, chain.extend(FIRST, 6, "memory", b"", 2).segments)
    story.happened(Get(), (2, register(SECOND)))
    story.happened(Get(), (3, register(moved)))

    assert story.broken() == {"chain is gapless"}


def test_an_open_tail_past_the_decided_boundary(story: Story) -> None:
    """Whoever believes it reads a zombie where everybody else has an entry of the next segment."""
    first = FIRST.last.id
    story.happened(LogletTail(first), Open(6))
    story.happened(Get(), (2, register(SECOND)))

    assert story.broken() == {"open tails below the boundary"}
