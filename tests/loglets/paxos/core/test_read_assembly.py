"""Assembly of reads from the records of one replica. Nothing in them is believed."""

from __future__ import annotations

import attrs
import pytest

from virtuallog.contract.batch import BATCH_COUNT_MAX, Batch, SessionId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog.exactly_once import bundle
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.read_assembly import assemble_untrusted
from virtuallog_loglets.paxos.messages import NOWHERE, PaxosRecord, PaxosRecords, Standing, Status
from virtuallog_loglets.paxos.offsets import offset_of, position_of

SESSION = SessionId(b"s" * 16)


def batch(*payloads: bytes) -> Batch:
    return Batch.build(SESSION, 0, payloads)


def learned(position: int, value: bytes) -> PaxosRecord:
    return PaxosRecord(position=position, promised=1, performed=1, value=value, learned=True)


def entry(position: int, *payloads: bytes, time_ms: int = 5) -> PaxosRecord:
    return learned(position, values.append(batch(*payloads).blob, time_ms))


def reply(*records: PaxosRecord, begin: int = 0, trim: int = 0, seal: int = NOWHERE) -> PaxosRecords:
    standing = Standing(status=Status.VOTING, incarnation=1, promised=1, begin=begin, learned=99, end=99, uniform_from=0,
                        uniform=1, trim=trim, seal=seal)  # fmt: skip
    return PaxosRecords(records=records, standing=standing)


def filler(start: int, stop: int) -> Gap:
    return Gap(start, stop, GapKind.FILLER)


def test_places_of_positions() -> None:
    """A position has 65,536 offsets, from position 1 on: the largest batch fits exactly."""
    assert [offset_of(position) for position in (0, 1, 2, 3)] == [0, 0, SLOT, 2 * SLOT]
    assert [position_of(offset) for offset in (0, SLOT - 1, SLOT, 2 * SLOT)] == [1, 1, 2, 3]
    assert BATCH_COUNT_MAX == SLOT


def test_batches_lie_at_the_start_of_their_slots() -> None:
    """The rest of a slot is filler, up to exactly where the reader wants to stop."""
    copy = assemble_untrusted(reply(entry(1, b"a", b"b"), entry(2, b"c", time_ms=7)), 0, SLOT + 9)

    assert copy.items == [
        PlacedBatch(range(2), batch(b"a", b"b"), 5),
        filler(2, SLOT),
        PlacedBatch(range(SLOT, SLOT + 1), batch(b"c"), 7),
        filler(SLOT + 1, SLOT + 9),
    ]


def test_batches_that_share_a_position() -> None:
    """One after the other, from the start of the slot; each is a batch of its own, and may be in view alone."""
    both = learned(1, values.append(bundle.join([batch(b"a", b"b"), batch(b"c")]), 5))

    assert assemble_untrusted(reply(both), 0, 4).items == [
        PlacedBatch(range(2), batch(b"a", b"b"), 5),
        PlacedBatch(range(2, 3), batch(b"c"), 5),
        filler(3, 4),
    ]
    assert assemble_untrusted(reply(both), 2, 3).items == [PlacedBatch(range(2, 3), batch(b"c"), 5)]


def test_fillers_that_touch_are_one() -> None:
    """NOP, TRUNCATE and the rest of a slot: a reader skips them in one step."""
    records = (entry(1, b"a"), learned(2, values.nop()), learned(3, values.truncate(1, 0)), entry(4, b"d"))

    copy = assemble_untrusted(reply(*records), 0, 3 * SLOT + 1)

    assert copy.items == [
        PlacedBatch(range(1), batch(b"a"), 5),
        filler(1, 3 * SLOT),
        PlacedBatch(range(3 * SLOT, 3 * SLOT + 1), batch(b"d"), 5),
    ]


def test_a_slot_that_is_full_has_no_filler() -> None:
    """65,536 entries: the next batch follows at once."""
    full = Batch.build(SESSION, 0, [b""] * BATCH_COUNT_MAX)
    records = (learned(1, values.append(full.blob, 5)), entry(2, b"b"))

    assert [item.stop for item in assemble_untrusted(reply(*records), 0, SLOT + 1).items] == [SLOT, SLOT + 1]


def test_a_reader_may_begin_and_end_within_a_batch() -> None:
    """Clipped exactly."""
    copy = assemble_untrusted(reply(entry(1, b"a", b"b", b"c")), 1, 2)

    assert copy.items == [PlacedBatch(range(1, 2), batch(b"a", b"b", b"c"), 5, 1)]


def test_a_reader_below_the_truncation_is_told_so() -> None:
    """Below `begin` nothing is left; below the trim offset nothing is shown, though the batch there is still stored whole."""
    assert assemble_untrusted(reply(begin=5), 0, 2 * SLOT).items == [Gap(0, 2 * SLOT, GapKind.TRIMMED)]

    copy = assemble_untrusted(reply(entry(2, b"a", b"b", b"c"), begin=2, trim=SLOT + 1), 0, SLOT + 3)
    assert copy.items == [
        Gap(0, SLOT + 1, GapKind.TRIMMED),
        PlacedBatch(range(SLOT + 1, SLOT + 3), batch(b"a", b"b", b"c"), 5, 1),
    ]


def test_a_tombstone_is_no_filler() -> None:
    """The marker of a truncation stays in its place: what was there is gone, not empty."""
    copy = assemble_untrusted(reply(learned(1, values.TOMBSTONE), entry(2, b"b")), 0, SLOT + 1)

    assert copy.items[0] == Gap(0, SLOT, GapKind.TRIMMED)


def test_zombies_behind_the_seal_are_never_shown() -> None:
    """A coordinator that did not know of the SEAL may have written behind it, unacknowledged. A
    reader gets nothing there, whether the replica has learned the SEAL or the reader meets it."""
    records = (entry(1, b"a"), learned(2, values.seal(0)), entry(3, b"zombie"))

    for standing_seal in (2, NOWHERE):
        copy = assemble_untrusted(reply(*records, seal=standing_seal), 0, 4 * SLOT)
        assert copy.items == [PlacedBatch(range(1), batch(b"a"), 5), filler(1, SLOT)]
        assert assemble_untrusted(reply(*records[2:], seal=2), 2 * SLOT, 4 * SLOT).items == []


def test_only_what_follows_without_a_hole_is_taken() -> None:
    """A position that is missing, doubled, out of place or not learned ends what is believed."""
    unlearned = attrs.evolve(entry(2, b"b"), learned=False)
    for second in (entry(3, b"b"), entry(1, b"b"), unlearned):
        records = (entry(1, b"a"), second, entry(3, b"c"))
        assert [item.stop for item in assemble_untrusted(reply(*records), 0, 4 * SLOT).items][-1] == SLOT
    assert assemble_untrusted(reply(entry(2, b"b")), 0, 2 * SLOT).items == [], "not what was asked for"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"", MalformedError),
        (values.append(batch(b"b").blob, 5)[:-1], CorruptionError),
        (values.append(b"no batch", 5), MalformedError),
        (values.append(batch(b"b").blob[:-1] + b"x", 5), CorruptionError),
    ],
    ids=["nothing", "a value that is cut", "a value without a batch", "a batch that is damaged inside"],
)
def test_damage_ends_what_is_given(value: bytes, error: type[Exception]) -> None:
    """Items before the damage are intact. The damage is reported, as the copy of another replica may be intact."""
    copy = assemble_untrusted(reply(entry(1, b"a"), learned(2, value), entry(3, b"c")), 0, 3 * SLOT)

    assert [item.stop for item in copy.items] == [1, SLOT]
    assert isinstance(copy.damage, error)


def test_position_0_has_no_offsets() -> None:
    """A replica may give it to who asks from the beginning."""
    copy = assemble_untrusted(reply(learned(0, values.nop()), entry(1, b"a")), 0, 1)

    assert copy.items == [PlacedBatch(range(1), batch(b"a"), 5)]
