"""The pure parts of a striped loglet: where things are, what is known, what to fill, how batches are numbered."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError, OutOfOrderError, ReconfigurationNeededError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog_loglets.striped.config import StripedConfig, decode_untrusted
from virtuallog_loglets.striped.core.acknowledgement import StripeProgress
from virtuallog_loglets.striped.core.batch_wrapper import BATCHES_MAX, SESSIONS_MAX, BatchWrapper
from virtuallog_loglets.striped.core.fill_policy import (
    AHEAD_MAX,
    MISMATCHES_MAX,
    UNCONDITIONAL_MAX,
    AppendFillers,
    CheckStripeTail,
    FillPolicy,
    WaitForProgress,
)
from virtuallog_loglets.striped.core.layout import StripedLayout, offset_of, slot_of, slots_below
from virtuallog_loglets.striped.core.stripe_reads import interleave_untrusted
from virtuallog_loglets.striped.drivers.filler_sessions import FillerSessions

STRIPES = st.integers(1, 40)
SLOTS = st.integers(0, 1 << 40)
TAILS = st.lists(st.integers(0, 50), min_size=1, max_size=8)


# -- layout -------------------------------------------------------------------------------------------------------------


@given(STRIPES, SLOTS)
def test_every_slot_is_one_place_of_one_stripe(stripes: int, slot: int) -> None:
    """A slot maps to one place of one stripe, and that place back to the slot."""
    layout = StripedLayout(stripes)
    stripe, place = layout.place(slot)
    assert 0 <= stripe < stripes
    assert layout.slot(stripe, place) == slot


@given(STRIPES, st.integers(0, 300))
def test_the_places_below_a_slot_are_counted(stripes: int, slot: int) -> None:
    """The formula gives the same number as a count of the places."""
    layout = StripedLayout(stripes)
    for stripe in range(stripes):
        assert layout.places_below(stripe, slot) == sum(layout.place(each)[0] == stripe for each in range(slot))


@given(TAILS)
def test_the_first_hole_is_the_first_slot_that_nobody_wrote(tails: list[int]) -> None:
    """All below are written, it is not."""
    layout = StripedLayout(len(tails))
    written = {layout.slot(stripe, place) for stripe, tail in enumerate(tails) for place in range(tail)}
    hole = layout.first_hole(tails)
    assert hole not in written
    assert set(range(hole)) <= written


@given(TAILS)
def test_what_lies_below_the_first_hole_lies_below_the_tails(tails: list[int]) -> None:
    """A trim up to the first hole asks no stripe for more than it has, and the way back is the same offset."""
    layout = StripedLayout(len(tails))
    hole = layout.first_hole(tails)
    points = [layout.places_below(stripe, hole) for stripe in range(len(tails))]
    assert all(point <= tail for point, tail in zip(points, tails, strict=True))
    assert layout.first_hole(points) == hole


@given(st.integers(0, 1 << 62))
def test_offsets_are_slots_and_an_index(offset: int) -> None:
    """An offset is in its slot; the slots below it are those that begin before."""
    assert offset_of(slot_of(offset)) <= offset < offset_of(slot_of(offset) + 1)
    assert offset_of(slots_below(offset)) >= offset > offset_of(slots_below(offset) - 1)


def test_sessions_spread() -> None:
    """They are random, and none moves."""
    source, layout = random.Random(1), StripedLayout(4)
    sessions = [SessionId(source.randbytes(16)) for _ in range(400)]
    homes = [layout.stripe_of(session) for session in sessions]
    assert homes == [layout.stripe_of(session) for session in sessions]
    assert all(70 < homes.count(stripe) < 130 for stripe in range(4))


# -- what is known --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=40), st.randoms())
def test_who_waits_is_woken_when_all_below_is_filled(
    stripes: int, facts: list[tuple[int, int]], source: random.Random
) -> None:
    """Each waiter is released once and not before, in any order of the facts."""
    progress = StripeProgress(StripedLayout(stripes))
    waiting = {slot for slot in source.sample(range(60), 10) if not progress.wait(slot, slot)}
    for stripe, tail in facts:
        woken = progress.learn(stripe % stripes, tail)
        assert all(slot < progress.filled for slot in woken)
        assert waiting >= set(woken)
        waiting -= set(woken)
        assert all(slot >= progress.filled for slot in waiting)
        assert any(progress.missing(each) for each in range(stripes)) or not waiting or progress.filled in waiting
    assert set(progress.give_up()) == waiting


def test_what_is_missing_is_what_lies_below_those_who_wait() -> None:
    """And what is lacking reaches as far as the farthest stripe, where others may wait; what is under way does not count."""
    progress = StripeProgress(StripedLayout(3))
    progress.learn(1, 4)
    progress.wait(7, "who is at place 2 of stripe 1")
    assert [progress.missing(stripe) for stripe in range(3)] == [3, 0, 2]
    assert [progress.lacking(stripe) for stripe in range(3)] == [4, 0, 3]
    progress.offer(0)
    assert progress.lacking(0) == 3
    progress.answered(0)
    assert progress.lacking(0) == 4


def test_an_append_on_its_way_is_expected_behind_what_is_known() -> None:
    """Lower places will be waited for, if no other client appends."""
    progress = StripeProgress(StripedLayout(2))
    progress.learn(1, 5)
    progress.learn(0, 5)
    assert not progress.may_block(0)
    progress.offer(1)
    assert progress.may_block(0), "slot 11 comes behind slot 10, which is on stripe 0"
    assert not progress.may_block(1)
    assert progress.missing(0) == 0, "no stripe waits yet"


# -- what to fill -----------------------------------------------------------------------------------------------------------


def calm(places_max: int = 1000) -> FillPolicy:
    filling = FillPolicy(places_max)
    filling.looked(surprising=False)
    filling.filled(as_expected=True)
    return filling


def test_it_looks_before_it_fills() -> None:
    """A stripe may have been filled by others."""
    filling = FillPolicy(1000)
    assert filling.step(5) == CheckStripeTail()
    filling.looked(surprising=True)
    assert filling.step(5) == AppendFillers(5, conditional=True)


def test_a_calm_stripe_is_filled_without_looking_and_ahead() -> None:
    """By more each time; once another client appends, no more than it takes."""
    filling, counts = calm(), []
    for _ in range(8):
        step = filling.step(1)
        assert isinstance(step, AppendFillers)
        counts.append(step.count)
        filling.filled(as_expected=True)
    assert counts == [1, 2, 4, 8, 16, 32, 1 + AHEAD_MAX, 1 + AHEAD_MAX]

    filling.preceded()
    assert not filling.calm
    assert filling.step(1) == WaitForProgress(0.002)
    assert filling.step(1) == CheckStripeTail()


def test_a_stripe_of_ones_own_is_not_filled_ahead() -> None:
    """Each place that is filled in vain would be a hole below the next append to it."""
    filling = calm()
    filling.filled(as_expected=True)
    filling.used()
    assert filling.step(3) == AppendFillers(3, conditional=True)


def test_what_is_on_its_way_is_waited_for_and_asked_for_in_turn() -> None:
    """An append of our own fills it, unless it is lost: then the tail tells."""
    filling = calm()
    assert [type(filling.step(0)) for _ in range(4)] == [
        WaitForProgress,
        CheckStripeTail,
        WaitForProgress,
        CheckStripeTail,
    ]


def test_who_is_never_first_stops_asking_but_fills_little() -> None:
    """Many may do so at once, and nothing tells them of each other."""
    filling = FillPolicy(1000)
    for _ in range(MISMATCHES_MAX):
        filling.looked(surprising=True)
        filling.preceded()
    filling.step(900)
    filling.looked(surprising=True)
    assert filling.step(900) == AppendFillers(UNCONDITIONAL_MAX, conditional=False)


def test_a_filler_is_bounded() -> None:
    """However much is missing."""
    assert calm(places_max=64).step(900) == AppendFillers(64, conditional=True)


def test_a_number_of_a_filler_session_never_stands_for_two_batches() -> None:
    """Simulator, scenario striped, seed 89: a filler that was refused was followed by a larger one of the same number."""
    padding = FillerSessions(random.Random(1))
    refused = padding.batch(2)
    assert padding.batch(2) is refused, "what was refused may be offered again as it was"
    larger = padding.batch(3)
    assert larger.session != refused.session
    padding.taken(larger)
    following = padding.batch(4)
    assert (following.session, following.first_sequence) == (larger.session, 3)
    assert not padding.opens


@given(st.lists(st.tuples(st.integers(1, 1024), st.sampled_from(["taken", "refused", "unknown"]))))
def test_a_client_has_few_filler_sessions_however_often_it_is_refused(fates: list[tuple[int, str]]) -> None:
    """A sequencer remembers each session for minutes, and many clients that share stripes are refused most of the time. A session for
    each refusal was 175 a second of ten clients: they would have had all places in the table of sessions after a minute and a half."""
    padding, sessions, stands_for = (
        FillerSessions(random.Random(1)),
        set[SessionId](),
        dict[tuple[SessionId, int], Batch](),
    )
    for count, fate in fates:
        batch = padding.batch(count)
        assert count / 2 < batch.count < 2 * count
        assert stands_for.setdefault((batch.session, batch.first_sequence), batch) is batch
        sessions.add(batch.session)
        match fate:
            case "taken":
                padding.taken(batch)
            case "unknown":
                padding.replace()
    assert len(sessions) <= 11 + sum(fate == "unknown" for _, fate in fates)


# -- how batches are numbered -----------------------------------------------------------------------------------------------

SESSION = SessionId(b"s" * 16)


def batch(first: int, count: int = 1, session: SessionId = SESSION) -> Batch:
    return Batch.build(session, first, [b"x"] * count)


def test_batches_are_numbered_from_the_one_that_opens() -> None:
    """For any numbers of its entries; a batch that is offered again is wrapped as before."""
    wrapping = BatchWrapper()
    first, second = batch(1 << 40, 3), batch((1 << 40) + 3, 2)
    wrapped = [wrapping.wrap(first, opens=True), wrapping.wrap(second, opens=False)]
    assert [each.first_sequence for each in wrapped] == [0, 1]
    assert [each.payloads for each in wrapped] == [[first.blob], [second.blob]]
    assert wrapping.wrap(first, opens=True) == wrapped[0]
    assert wrapping.wrap(second, opens=False) == wrapped[1]


def test_a_batch_without_its_predecessor_is_refused() -> None:
    """With the number of the entry that is missing."""
    wrapping = BatchWrapper()
    with pytest.raises(OutOfOrderError):
        wrapping.wrap(batch(5), opens=False)
    wrapping.wrap(batch(0, 2), opens=True)
    with pytest.raises(OutOfOrderError) as refused:
        wrapping.wrap(batch(3), opens=False)
    assert refused.value.expected_sequence == 2
    wrapping.wrap(batch(2, 4), opens=False)
    assert wrapping.translate(SESSION, OutOfOrderError(1)).expected_sequence == 2


def test_what_is_forgotten_is_not_guessed() -> None:
    """An old batch of a session, and the oldest of very many sessions."""
    wrapping = BatchWrapper()
    for number in range(BATCHES_MAX + 1):
        wrapping.wrap(batch(number), opens=number == 0)
    with pytest.raises(ReconfigurationNeededError):
        wrapping.wrap(batch(0), opens=True)
    for number in range(SESSIONS_MAX):
        wrapping.wrap(batch(0, session=SessionId(number.to_bytes(16))), opens=True)
    with pytest.raises(ReconfigurationNeededError):
        wrapping.wrap(batch(BATCHES_MAX + 1), opens=False)


# -- reading ----------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.lists(st.booleans(), min_size=1, max_size=30), st.data())
def test_what_stripes_gave_is_put_in_order(stripes: int, is_data: list[bool], data: st.DataObject) -> None:
    """For any contents of slots, from any start to any end: each place is covered once, and holds
    what is there."""
    layout, contents = StripedLayout(stripes), {slot: b"%d" % slot for slot, yes in enumerate(is_data) if yes}
    start = data.draw(st.integers(0, offset_of(len(is_data)) - 1))
    stop = data.draw(st.integers(start + 1, offset_of(len(is_data))))
    found = {}
    for stripe in range(stripes):
        low, high = layout.places_below(stripe, slot_of(start)), layout.places_below(stripe, slots_below(stop))
        if low < high:
            found[stripe] = [_stripe_item(layout.slot(stripe, place), place, contents) for place in range(low, high)]

    items = interleave_untrusted(layout, found, start, stop)

    assert [items[0].start, items[-1].stop] == [start, stop]
    assert all(before.stop == after.start for before, after in itertools.pairwise(items))
    assert not any(isinstance(a, Gap) and isinstance(b, Gap) for a, b in itertools.pairwise(items))
    read = {slot_of(item.start): item.batch.payloads[0] for item in items if isinstance(item, PlacedBatch)}
    assert read == {slot: text for slot, text in contents.items() if start <= offset_of(slot) < stop}


def _stripe_item(slot: int, place: int, contents: dict[int, bytes]) -> Placed:
    if slot not in contents:
        return Gap(place, place + 1, GapKind.FILLER)
    wrapped = Batch.build(SESSION, place, [Batch.build(SESSION, slot, [contents[slot]]).blob])
    return PlacedBatch(range(place, place + 1), wrapped, 7)


def test_what_a_read_costs_does_not_grow_with_the_square_of_the_stripes() -> None:
    """A log with one session: its batches are on one stripe, fillers on all others. A stripe is looked at once for each of its slots."""
    stripes, count, looked = 40, 30, 0

    class Counting(StripedLayout):
        def place(self, slot: int) -> tuple[int, int]:
            nonlocal looked
            looked += 1
            return super().place(slot)

        def places_below(self, stripe: int, slot: int) -> int:
            nonlocal looked
            looked += 1
            return super().places_below(stripe, slot)

    filled = PlacedBatch(range(count), Batch.build(SESSION, 0, [b""] * count), 0)
    found: dict[int, list[Placed]] = {stripe: [filled] for stripe in range(stripes - 1)}
    found[stripes - 1] = [_stripe_item(place, place, {place: b"x"}) for place in range(count)]
    items = interleave_untrusted(Counting(stripes), found, 0, offset_of(count * stripes))

    assert sum(isinstance(item, PlacedBatch) for item in items) == count
    assert looked <= 2 * count * stripes


def test_an_entry_that_is_no_batch_is_told() -> None:
    """Nothing else is ever appended to a stripe."""
    stranger = PlacedBatch(range(1), Batch.build(SESSION, 0, [b"what is this"]), 0)
    with pytest.raises(CorruptionError):
        interleave_untrusted(StripedLayout(1), {0: [stranger]}, 0, 5)


# -- config -----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(0, (1 << 63) - 1))
def test_a_config_comes_back_as_it_was(stripes: list[bytes], attempt: int) -> None:
    """For any bytes of the stripes' kind; fields of later versions too."""
    config = StripedConfig(of="native", stripes=tuple(stripes), loglet=SegmentId(3, attempt), others={"later": [1]})
    assert decode_untrusted(config.encode()) == config


@given(st.integers(0, (1 << 63) - 1), st.integers(1, 64))
def test_the_ids_of_stripes_are_their_own(attempt: int, stripes: int) -> None:
    """The id of a stripe is never that of the segment; a moved stripe keeps its id."""
    config, segment = StripedConfig(of="native", stripes=(b"",) * stripes), SegmentId(9, attempt)
    parts = config.parts(segment)
    assert len({*parts, segment}) == stripes + 1
    assert all(part.version == 9 and 0 <= part.attempt < 1 << 63 for part in parts)
    moved = StripedConfig(of="native", stripes=(b"",) * stripes, loglet=segment)
    assert moved.parts(SegmentId(40, 1)) == parts


@pytest.mark.parametrize(
    "blob", [b"", b"[]", b"{}", b'{"of": "native", "stripes": []}', b'{"of": 1, "stripes": ["x"]}',
             b'{"of": "native", "stripes": [1]}', b'{"of": "native", "stripes": ["\\u20ac"]}',
             b'{"of": "native", "stripes": ["x"], "loglet": "never"}', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_config_is_refused(blob: bytes) -> None:
    """With a typed error: it comes from the register."""
    with pytest.raises(MalformedError):
        decode_untrusted(blob)
