"""The chain: segments over the address space, and the rules that every change of it keeps."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.chain import (
    Chain,
    Segment,
    SegmentId,
    close,
    extend,
    genesis,
    modify,
    truncate,
    validate,
    validate_successor,
)
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogletOffset, LogPosition


def segment(version: int, start: int, stop: int | None, **more: Any) -> Segment:
    """Make a segment with its version as attempt."""
    position = None if stop is None else LogPosition(stop)
    return Segment(
        id=SegmentId(version, version), kind="memory", config=b"", start=LogPosition(start), stop=position, **more
    )


PICTURE = Chain(3, (segment(1, 0, 100), segment(2, 100, 150), segment(3, 150, None)))
"""The chain in the docstring of `chain.py`."""


@st.composite
def histories(draw: st.DrawFn) -> list[Chain]:
    """Make a chain and its later versions, by changes of every sort with stops and places from
    anywhere."""
    start = draw(st.sampled_from([0, 0, 5]))
    past = [segment(1, 2, 5)] if start and draw(st.booleans()) else []
    chains = [genesis("memory", b"", attempt=99, start=start, history=past)]
    for attempt in range(2, draw(st.integers(3, 15))):
        chain = chains[-1]
        end = chain.last.start if chain.last.stop is None else chain.last.stop
        stop = end + (draw(st.integers(0, 3)) if chain.active else 0)
        change = draw(st.sampled_from(["extend", "extend", "close", "truncate", "modify"]))
        closed = [segment for segment in chain.segments if segment.stop is not None]
        after: Chain | None = None
        if change == "extend":
            after = extend(chain, stop, "memory", b"", attempt)
        elif change == "close":
            after = close(chain, stop)
        elif change == "truncate":
            after = truncate(chain, draw(st.integers(0, end + 2)))
        elif closed:
            after = modify(chain, draw(st.sampled_from(closed)).id, "archive", b"", attempt, base=LogletOffset(7))
        chains += [after] if after is not None else []
    return chains


def owners(chain: Chain) -> dict[int, Segment | None]:
    """Return the owner of each position, by a slow search."""
    return {
        position: next(
            (s for s in chain.segments if s.start <= position and (s.stop is None or position < s.stop)), None
        )
        for position in range(-1, 60)
    }


@given(histories())
def test_every_change_keeps_the_rules(chains: list[Chain]) -> None:
    """After any sequence of changes each version is valid and follows from the one before."""
    for chain in chains:
        validate(chain)
    for before, after in itertools.pairwise(chains):
        validate_successor(before, after)


@given(histories())
def test_a_written_position_keeps_its_loglet_until_it_is_modified_or_dropped(chains: list[Chain]) -> None:
    """A position in a closed segment is, in the next version, in the same segment, in a replacement, or trimmed."""
    for before, after in itertools.pairwise(chains):
        after_owners = owners(after)
        for position, owner in owners(before).items():
            if owner is not None and owner.stop is not None and position >= after.start:
                now = after_owners[position]
                assert now is not None
                assert (now.start, now.stop) == (owner.start, owner.stop)


@given(histories())
def test_segment_at_agrees_with_the_slow_way(chains: list[Chain]) -> None:
    """`segment_at` agrees with a slow search at, below and above every boundary, on open and closed
    chains."""
    for chain in chains:
        assert {position: chain.segment_at(position) for position in range(-1, 60)} == owners(chain)


def test_segment_at_each_boundary() -> None:
    """Ranges are half-open: a boundary belongs to the segment that starts there."""
    first, second, third = PICTURE.segments

    found = [PICTURE.segment_at(position) for position in (-1, 0, 99, 100, 149, 150, 1 << 60)]

    assert found == [None, first, first, second, second, third, third]
    assert [close(PICTURE, 160).segment_at(position) for position in (159, 160)] == [
        attrs.evolve(third, stop=LogPosition(160)),
        None,
    ]


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_positions_and_offsets_are_each_other_s_inverse(start: int, base: int, offset: int) -> None:
    """`base` is the offset of the segment's first position, and the two conversions are inverse."""
    here = segment(1, start, None, base=LogletOffset(base))

    assert here.position(base) == start
    assert here.offset(here.position(base + offset)) == base + offset
    assert here.position(base + offset) == base + offset + here.shift


def test_extend_closes_the_last_segment_and_opens_one_behind_it() -> None:
    """The stop of the closed segment is the start of the new one; nothing else moves."""
    after = extend(PICTURE, 170, "native", b"config", attempt=9)

    *closed, active = after.segments
    assert closed == [*PICTURE.segments[:2], attrs.evolve(PICTURE.last, stop=LogPosition(170))]
    assert active == Segment(id=SegmentId(4, 9), kind="native", config=b"config", start=LogPosition(170))
    assert after.active is active


@pytest.mark.parametrize("stop", [0, 5])
def test_an_empty_segment_is_dropped_when_the_chain_is_extended(stop: int) -> None:
    """No two segments start at the same position, after any number of changes of an idle log."""
    chain = extend(genesis("a", b"", 1), stop, "b", b"", 2)
    for attempt in (3, 4):
        chain = extend(chain, stop, "c", b"", attempt)

    assert [s.start for s in chain.segments] == ([0, 5] if stop else [0])
    assert chain.last.id == SegmentId(4, 4)


def test_closing_an_empty_segment_drops_it_unless_it_is_all_there_is() -> None:
    """A closed log keeps its end, even if nothing was ever in it."""
    assert close(extend(genesis("a", b"", 1), 5, "b", b"", 2), 5).segments == (
        attrs.evolve(genesis("a", b"", 1).last, stop=LogPosition(5)),
    )
    empty = close(genesis("a", b"", 1), 0)
    assert [(s.start, s.stop) for s in empty.segments] == [(0, 0)]
    assert empty.active is None


@pytest.mark.parametrize("stop", [0, 7])
def test_a_closed_log_is_reopened_at_its_end(stop: int) -> None:
    """A reopened log continues at the next position."""
    closed = close(genesis("a", b"", 1), stop)
    reopened = extend(closed, stop, "b", b"", 3)

    assert reopened.last.start == stop
    validate_successor(closed, reopened)


def test_truncate_drops_whole_closed_segments_only() -> None:
    """A segment exactly at the boundary goes, one below it stays; the last one stays in any case."""
    kept = {first: truncate(PICTURE, first) for first in (0, 99, 100, 149, 150, 1000)}

    starts = {first: chain and [s.start for s in chain.segments] for first, chain in kept.items()}
    assert starts == {0: None, 99: None, 100: [100, 150], 149: [100, 150], 150: [150], 1000: [150]}
    assert truncate(close(PICTURE, 160), 1000) == Chain(5, (attrs.evolve(PICTURE.last, stop=LogPosition(160)),))


def test_modify_replaces_the_loglet_and_keeps_the_range() -> None:
    """The new loglet has the same boundaries, offsets of its own, and a new id."""
    after = modify(PICTURE, SegmentId(2, 2), "archive", b"where", attempt=9, base=LogletOffset(1000))

    assert after.segments[1] == Segment(
        id=SegmentId(4, 9),
        kind="archive",
        config=b"where",
        start=LogPosition(100),
        stop=LogPosition(150),
        base=LogletOffset(1000),
    )
    assert after.segments[::2] == PICTURE.segments[::2]


@pytest.mark.parametrize(("segment_id", "why"), [(SegmentId(3, 3), "is open"), (SegmentId(9, 9), "not in the chain")])
def test_modify_refuses_what_is_open_or_unknown(segment_id: SegmentId, why: str) -> None:
    """An open segment cannot be replaced: it may still grow, so no copy of it is complete."""
    with pytest.raises(InvalidSettingError, match=why):
        modify(PICTURE, segment_id, "archive", b"", attempt=9)


@given(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 63) - 1))
def test_a_segment_id_is_its_text(version: int, attempt: int) -> None:
    """A segment id survives its text form, for file names and command lines."""
    assert SegmentId.parse(str(SegmentId(version, attempt))) == SegmentId(version, attempt)


BROKEN: dict[str, Chain] = {
    "version 0": attrs.evolve(PICTURE, version=0),
    "no segments": Chain(1, ()),
    "a hole": Chain(3, (segment(1, 0, 99), segment(2, 100, None))),
    "an overlap": Chain(3, (segment(1, 0, 101), segment(2, 100, None))),
    "out of order": Chain(3, (segment(1, 100, 200), segment(2, 0, 100), segment(3, 200, None))),
    "two open": Chain(3, (segment(1, 0, None), segment(2, 100, None))),
    "open before closed": Chain(3, (segment(1, 0, None), segment(2, 100, 200))),
    "empty in the middle": Chain(3, (segment(1, 0, 100), segment(2, 100, 100), segment(3, 100, None))),
    "empty at the end": Chain(3, (segment(1, 0, 100), segment(2, 100, 100))),
    "stop before start": Chain(3, (segment(1, 100, 50),)),
    "negative start": Chain(3, (segment(1, -1, None),)),
    "one id twice": Chain(3, (segment(1, 0, 100), segment(1, 100, None))),
    "an id from the future": Chain(3, (segment(1, 0, 100), segment(4, 100, None))),
    "an id of version 0": Chain(3, (segment(0, 0, None),)),
}


@pytest.mark.parametrize("chain", BROKEN.values(), ids=BROKEN)
def test_a_broken_chain_is_noticed(chain: Chain) -> None:
    """Each broken chain breaks the invariant in one way, and is noticed."""
    with pytest.raises(AssertionError):
        validate(chain)


A, B, C = PICTURE.segments
CLOSED_C = segment(3, 150, 160)
CLOSED = Chain(3, (A, B, CLOSED_C))

BROKEN_SUCCESSORS: dict[str, tuple[Chain, Chain]] = {
    "same version": (PICTURE, PICTURE),
    "two versions": (PICTURE, Chain(5, PICTURE.segments)),
    "version back": (PICTURE, Chain(2, PICTURE.segments[:2])),
    "a boundary moved down": (PICTURE, Chain(4, (segment(1, 0, 90), segment(2, 90, 150), C))),
    "a closed segment was cut": (CLOSED, Chain(4, (A, B, segment(3, 150, 155)))),
    "a closed segment grew": (CLOSED, Chain(4, (A, B, segment(3, 150, 170)))),
    "a closed segment was opened": (CLOSED, Chain(4, (A, B, C))),
    "a loglet was changed under its id": (PICTURE, Chain(4, (A, segment(2, 100, 150, base=LogletOffset(1)), C))),
    "an old id came back": (PICTURE, Chain(4, (A, segment(2, 100, 150), CLOSED_C, segment(1, 160, None)))),
    "a new segment with an old version": (CLOSED, Chain(4, (A, attrs.evolve(B, id=SegmentId(2, 9)), CLOSED_C))),
    "reopened further on": (CLOSED, Chain(4, (A, B, CLOSED_C, segment(4, 161, None)))),
    "reopened over written positions": (CLOSED, Chain(4, (A, B, segment(4, 150, None)))),
    "the end of a closed log was dropped": (CLOSED, Chain(4, (A, B))),
    "the open segment was dropped, though it began later": (PICTURE, Chain(4, (A, segment(4, 100, None)))),
    "the whole chain was replaced": (PICTURE, Chain(4, (segment(4, 0, None),))),
    "positions were skipped": (PICTURE, Chain(4, (segment(4, 5000, None),))),
    "truncated in the middle of a segment": (PICTURE, Chain(4, (segment(4, 50, 150), C))),
    "the start went back": (Chain(3, (B, C)), Chain(4, (segment(4, 0, 100), B, C))),
    "a replacement with a boundary of its own": (PICTURE, Chain(4, (A, segment(4, 100, 120), segment(4, 120, 150), C))),
    "extended by a segment that is closed already": (
        PICTURE,
        Chain(4, (A, B, CLOSED_C, segment(4, 160, 170))),
    ),
}


@pytest.mark.parametrize(("before", "after"), BROKEN_SUCCESSORS.values(), ids=BROKEN_SUCCESSORS)
def test_a_broken_change_is_noticed(before: Chain, after: Chain) -> None:
    """Each broken change would lose, move or give away a decided position, and is noticed."""
    with pytest.raises(AssertionError):
        validate_successor(before, after)


def test_neighbours_may_be_merged() -> None:
    """Closed segments may become one over the same range, though no command does it."""
    merged = Chain(4, (segment(4, 0, 150), C))

    validate(merged)
    validate_successor(PICTURE, merged)
