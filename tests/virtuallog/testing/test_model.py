"""Properties of the model that are not obvious at a glance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import BeyondTailError, OutOfOrderError, SealedError, TailMismatchError
from virtuallog.contract.types import Gap, GapKind, Open, PlacedBatch, Sealed
from virtuallog.testing.checker.expectations import covered, entries
from virtuallog.testing.model import LogModel

A, B = SessionId(b"a" * 16), SessionId(b"b" * 16)


def batch(session: SessionId, first: int, *payloads: bytes) -> Batch:
    return Batch.build(session, first, payloads)


@given(
    counts=st.lists(st.integers(1, 5), max_size=6),
    align=st.sampled_from([1, 4]),
    trim=st.integers(0, 30),
    start=st.integers(0, 30),
    stop=st.integers(0, 30),
    max_bytes=st.sampled_from([1, 150, 1 << 20]),
)
def test_a_read_is_what_a_dictionary_would_give(
    counts: list[int], align: int, trim: int, start: int, stop: int, max_bytes: int
) -> None:
    """A read returns each place once from its start on: the entry, a trimmed gap below the trim
    point, or filler."""
    log, contents = LogModel(align=align), dict[int, bytes]()
    for count in counts:
        payloads = [b"%d" % (log.tail + index) for index in range(count)]
        first = log.next_sequence.get(A, 0)
        contents.update(zip(log.append(batch(A, first, *payloads), opens=not first), payloads, strict=True))
    point = log.prefix_trim(trim)
    stop = min(stop, log.tail)
    if start >= stop:
        return

    items = log.read(start, stop, max_bytes)

    end = covered(items, start, stop)
    assert entries(items) == {place: contents[place] for place in contents if max(start, point) <= place < end}
    assert [gap.kind for gap in items if isinstance(gap, Gap) and gap.start < point] == [GapKind.TRIMMED] * (
        start < point
    )
    assert end == stop or max_bytes < 1 << 20


def test_a_seal_forbids_acknowledgements_and_not_entries() -> None:
    """An unacknowledged append may land in a sealed log: its tail grows, and stays sealed."""
    log = LogModel()
    log.append(batch(A, 0, b"x"), opens=True)
    log.seal()

    with pytest.raises(SealedError):
        log.append(batch(A, 1, b"y"), opens=False)
    assert log.check_tail() == Sealed(1)

    log.land(batch(A, 1, b"y"), range(1, 2))
    assert log.check_tail() == Sealed(2)


def test_sessions_go_on_independently() -> None:
    """Each session has its own numbers; repeated batches get their old places; an error names a gap."""
    log = LogModel()
    first = batch(A, 0, b"0", b"1")

    assert log.append(first, opens=True) == range(2)
    assert log.append(batch(B, 1000, b"b"), opens=True) == range(2, 3)
    assert log.append(first, opens=True) == range(2)
    for early, opens, expected in ((batch(A, 3, b"3"), False, 2), (batch(B, 0, b"old"), True, 1001)):
        with pytest.raises(OutOfOrderError) as caught:
            log.append(early, opens=opens)
        assert caught.value.expected_sequence == expected
    with pytest.raises(OutOfOrderError) as caught:
        LogModel().append(batch(A, 5, b"5"), opens=False)
    assert caught.value.expected_sequence == 0
    assert log.check_tail() == Open(3)


def test_a_conditional_append_is_refused_unless_the_tail_is_there() -> None:
    """A refused conditional append does nothing, so that the session can go on with another batch."""
    log = LogModel()
    log.append(batch(A, 0, b"0"), opens=True)

    with pytest.raises(TailMismatchError) as caught:
        log.append(batch(A, 1, b"no"), opens=False, expected_tail=0)

    assert (caught.value.expected, caught.value.found) == (0, 1)
    assert log.append(batch(A, 1, b"yes"), opens=False, expected_tail=1) == range(1, 2)


def test_trimming_within_a_batch_keeps_its_rest() -> None:
    """The trim point is a place, not a batch: a trim within a batch keeps its rest."""
    log = LogModel()
    placed = PlacedBatch(range(3), batch(A, 0, b"0", b"1", b"2"), time_ms=9)
    log.append(placed.batch, opens=True, time_ms=9)

    assert log.prefix_trim(2) == 2
    assert log.prefix_trim(1) == 2
    assert log.read(0, 3, 1000) == [Gap(0, 2, GapKind.TRIMMED), placed.clip(2, 3)]
    assert log.prefix_trim(99) == 3
    assert log.check_tail() == Open(3)


def test_time_does_not_go_back_with_the_clock() -> None:
    """Time does not go back, not even when everything older has been trimmed."""
    log = LogModel()
    log.append(batch(A, 0, b"0"), opens=True, time_ms=50)
    log.prefix_trim(1)
    log.append(batch(A, 1, b"1"), opens=False, time_ms=20)

    assert [placed.time_ms for placed in log.batches] == [50]


def test_reading_past_the_tail_is_an_error_of_the_caller() -> None:
    """Reading past the tail is an error of the caller, which must see a tail before it reads."""
    with pytest.raises(BeyondTailError):
        LogModel().read(0, 1, 1000)


def test_a_refused_conditional_append_stays_refused() -> None:
    """A refused conditional append stays refused: a second copy of the call may arrive when the
    tail fits."""
    model = LogModel()
    bid = Batch.build(SessionId(b"c" * 16), 0, [b"bid"])
    for _ in range(2):
        with pytest.raises(TailMismatchError, match="the tail is 0, not 1"):
            model.append(bid, opens=True, expected_tail=1)
        model.append(Batch.build(SessionId(b"s" * 16), model.tail, [b"x"]), opens=True)

    assert model.append(Batch.build(SessionId(b"d" * 16), 0, [b"bid"]), opens=True, expected_tail=2) == range(2, 3)
