"""The pure core of exactly once: batches that may be sent, and batches that a search settles."""

from __future__ import annotations

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.types import PlacedBatch
from virtuallog.exactly_once.append_session import AppendSession, InFlightBatch

ID = SessionId(b"s" * 16)


def fresh(batches: int) -> tuple[AppendSession, list[InFlightBatch]]:
    session = AppendSession(ID, window=4)
    return session, [session.cut([b"a", b"b"], tag=number) for number in range(batches)]


def placed(flight: InFlightBatch, start: int) -> PlacedBatch:
    return PlacedBatch(range(start, start + flight.batch.count), flight.batch, time_ms=0)


def test_only_one_batch_goes_to_a_loglet_that_has_settled_none() -> None:
    """A loglet cannot tell a gap from a beginning, so the first batch travels alone."""
    session, flights = fresh(3)

    assert session.sendable() == [flights[0]]
    assert session.sendable() == []
    session.acknowledged(flights[0])
    assert session.sendable() == flights[1:]


def test_sequence_numbers_run_on_across_batches() -> None:
    """Each entry of a session has a number of its own, without holes between batches."""
    _, flights = fresh(3)

    assert [(f.batch.first_sequence, f.batch.stop_sequence) for f in flights] == [(0, 2), (2, 4), (4, 6)]


def test_nothing_is_sent_while_a_lost_loglet_has_sends_in_progress() -> None:
    """A batch may still be placed until its last attempt has ended; only then does a search settle it."""
    session, flights = fresh(2)
    session.sendable()
    session.acknowledged(flights[0])
    session.sendable()

    session.lose_loglet()
    assert not session.needs_settling
    assert session.sendable() == []
    flights[1].sent = False
    assert session.needs_settling


def test_what_the_search_finds_is_settled_and_the_rest_is_sent_again_in_order() -> None:
    """Records of one session are never reordered by a retry across a reconfiguration."""
    session, flights = fresh(3)
    session.sendable()
    session.acknowledged(flights[0])
    session.sendable()
    session.lose_loglet()
    flights[1].sent = flights[2].sent = False
    stranger = Batch.build(SessionId(b"x" * 16), 4, [b"x"])

    settled = session.settle([placed(flights[1], 40), PlacedBatch(range(42, 43), stranger, 0)])

    assert [(flight, p.start) for flight, p in settled] == [(flights[1], 40)]
    assert session.sendable() == [flights[2]]


def test_an_abandoned_session_goes_on_under_another_name() -> None:
    """No abandoned batch can get between the batches that follow."""
    session, flights = fresh(2)
    session.sendable()

    assert session.abandon(SessionId(b"t" * 16)) == flights
    later = session.cut([b"c"], tag=None)
    assert (later.batch.session, later.batch.first_sequence) == (b"t" * 16, 0)


def test_few_entries_wait_for_the_many_in_flight() -> None:
    """On its own a batch costs as much as many entries in it; once the others are back, all go together."""
    session, flights = fresh(1)
    assert session.is_worth_a_batch(10), "a batch about as small is in flight"

    many = session.cut([b"e" * 100] * 100, tag="many")
    assert not session.is_worth_a_batch(100)
    assert session.is_worth_a_batch(5_000)

    for flight in (flights[0], many):
        session.acknowledged(flight)
    assert session.is_worth_a_batch(0), "nothing is in flight that would be back"
