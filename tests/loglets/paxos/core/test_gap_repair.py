"""Repair of missed positions: drop, copy, fill or leave alone, in this order."""

from __future__ import annotations

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.gap_repair import (
    FILL_POSITIONS_MAX,
    CopyGap,
    DropGap,
    FillGap,
    GapRepair,
    tombstone,
    usable_untrusted,
)
from virtuallog_loglets.paxos.messages import PaxosRecord, Standing, Status

TWO, THREE = NodeId(2), NodeId(3)


def standing(learned: int, end: int | None = None, begin: int = 0, leads: int = -1) -> Standing:
    """Standing of a replica that has learned everything below `learned`."""
    return Standing(
        status=Status.VOTING,
        incarnation=1,
        promised=1,
        begin=begin,
        learned=learned,
        end=learned - 1 if end is None else end,
        uniform_from=learned,
        uniform=-1,
        coordinator=NodeId(leads),
    )


def closing(leave: int = 0, *, fills: bool = True, **known: Standing) -> GapRepair:
    """Knows the standings of nodes 2 and 3: `two`, `three`."""
    made = GapRepair(leave, fills)
    for name, heard in known.items():
        made.heard({"two": TWO, "three": THREE}[name], heard)
    return made


def learned(position: int, value: bytes = values.append(b"x", 0)) -> PaxosRecord:
    return PaxosRecord(position=position, promised=1, performed=1, value=value, learned=True)


def test_what_somebody_has_truncated_is_dropped() -> None:
    """Positions that one replica has truncated are dropped, even if another one still has them."""
    assert closing(two=standing(10), three=standing(10, begin=5)).next(range(2, 9), end=0) == DropGap(5)


def test_what_somebody_has_learned_is_copied() -> None:
    """The source is the replica that reaches furthest, and the copy goes as far as it reaches."""
    assert closing(two=standing(4), three=standing(8)).next(range(2, 20), end=0) == CopyGap(THREE, 2, 20)


def test_whoever_leads_is_spared() -> None:
    """If two sources reach equally far, the one that does not lead is chosen."""
    known = closing(two=standing(20, leads=2), three=standing(20, leads=2))

    assert known.next(range(2, 20), end=0) == CopyGap(THREE, 2, 20)


def test_what_nobody_has_learned_is_filled_in_portions() -> None:
    """Each position of a fill may come back from every replica with a value of some MiB."""
    known = closing(two=standing(4), three=standing(4))

    assert known.next(range(4, 6), end=9) == FillGap(4, 6)
    assert known.next(range(4, 9999), end=9998) == FillGap(4, 4 + FILL_POSITIONS_MAX)


def test_with_nobody_heard_of_a_fill_finds_out() -> None:
    """The fill asks a quorum, which knows every decision."""
    assert closing().next(range(1), end=0) == FillGap(0, 1)


def test_what_may_be_in_flight_is_left_alone() -> None:
    """With a window of 8 and 29 as the highest known position, 22 and all above belong to the leader."""
    known = closing(leave=8, two=standing(20, end=29))

    assert known.next(range(20, 30), end=25) == FillGap(20, 22)
    known.lacks(TWO, 22)
    assert known.next(range(22, 30), end=25) is None


def test_what_may_be_in_flight_is_copied_from_who_has_learned_it_with_a_hole_below() -> None:
    """Each replica that may have it is asked once."""
    known = closing(leave=8, two=standing(20, end=29), three=standing(20, end=29))

    assert known.next(range(25, 30), end=29) == CopyGap(TWO, 25, 30)
    known.lacks(TWO, 25)
    assert known.next(range(25, 30), end=29) == CopyGap(THREE, 25, 30)
    known.lacks(THREE, 25)
    assert known.next(range(25, 30), end=29) is None


def test_time_gives_another_chance() -> None:
    """A replica that lacked a position may have learned it since."""
    known = closing(leave=8, two=standing(20, end=29))
    known.lacks(TWO, 25)

    known.looked_again()

    assert known.next(range(25, 30), end=29) == CopyGap(TWO, 25, 30)


def test_a_source_that_does_not_answer_is_passed_over() -> None:
    """A source that does not answer is passed over until it is heard of again."""
    known = closing(two=standing(10), three=standing(8))

    known.lost(TWO)
    assert known.next(range(2, 10), end=0) == CopyGap(THREE, 2, 10)
    known.heard(TWO, standing(10))
    assert known.next(range(2, 10), end=0) == CopyGap(TWO, 2, 10)


def test_a_source_whose_copy_is_damaged_is_passed_over_at_that_position_only() -> None:
    """It may be the only source of the other positions."""
    known = closing(two=standing(10), three=standing(8))

    known.lacks(TWO, 4)

    assert known.next(range(4, 10), end=0) == CopyGap(THREE, 4, 10)
    assert known.next(range(5, 10), end=0) == CopyGap(TWO, 5, 10)


def test_a_closed_log_is_only_copied() -> None:
    """A closed log may have no quorum any more, so none of it is filled."""
    known = closing(fills=False, two=standing(5, end=9))

    assert known.next(range(3, 10), end=0) == CopyGap(TWO, 3, 10)
    assert known.next(range(5, 10), end=0) == CopyGap(TWO, 5, 10)  # it may have learned it with a hole below
    known.lacks(TWO, 5)
    assert known.next(range(5, 10), end=0) is None


def test_one_source_that_has_everything_is_enough_to_begin() -> None:
    """A source that has learned all missing positions is enough, without answers of the others."""
    known = closing(two=standing(10, begin=3))

    assert known.covers(10)
    assert not known.covers(11)


def test_only_whole_learned_records_in_a_row_are_used() -> None:
    """A record that is missing, damaged, open or out of the range ends the piece."""
    good = tuple(learned(position) for position in range(5, 9))
    broken = attrs.evolve(good[2], value=good[2].value[:-1] + b"y")

    assert usable_untrusted(good, 5, 99) == good
    assert usable_untrusted(good, 5, 7) == good[:2]
    assert usable_untrusted(good, 4, 99) == ()
    assert usable_untrusted((*good[:1], *good[2:]), 5, 99) == good[:1]
    assert usable_untrusted((*good[:2], broken, good[3]), 5, 99) == good[:2]
    assert usable_untrusted((good[0], attrs.evolve(good[1], learned=False)), 5, 99) == good[:1]


def test_a_tombstone_is_a_learned_one_just_below_the_begin() -> None:
    """A replica that learns it drops exactly the truncated positions."""
    marker = tombstone(5)

    assert (marker.position, marker.learned, values.is_tombstone(marker.value)) == (4, True, True)
