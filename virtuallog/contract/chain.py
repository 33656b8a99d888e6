"""The chain: the mapping of the virtual address space to loglets.

    virtual     0          100        150                        tail
                |-----------|----------|---------------------------|......
    segment     A [0,100)    B [100,150)  C [150, open)
    loglet      A: 0..100    B: 0..50     C: 0..

Delos, OSDI'20, section 3.1. Ranges are half-open. A segment is one loglet over one range. Its id is
(version, attempt) of the change that put it there, and is never used again. Only this module
converts between positions and offsets.

Rules, held by `validate` and `validate_successor`:
* segments are adjacent, in order, and only the last may be open (no `stop`). The first one need not
  start at 0: what lies below is trimmed;
* every change of the chain adds one to its version;
* a boundary, once decided, never moves: changes may close the open segment, add one behind it,
  replace a closed segment by another over the same range (`modify`), or drop the first ones
  (`truncate`).

Empty segments are dropped when they are closed, so no two segments ever start at the same position.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogletOffset, LogPosition

_ORIGIN = LogletOffset(0)


@attrs.frozen(order=True)
class SegmentId:
    """Permanent name of a segment, and of the loglet behind it."""

    version: int
    """Version of the chain in which the segment first stands."""
    attempt: int
    """Random 63-bit number of the attempt that put it there. Losers of the same version have
    another one."""

    def __str__(self) -> str:
        return f"{self.version}.{self.attempt:x}"

    @classmethod
    def parse(cls, text: str) -> SegmentId:
        """Parse the text that `str` returns.

        Raises:
            InvalidSettingError: the text is not version.attempt.
        """
        version, _, attempt = text.partition(".")
        try:
            return cls(int(version), int(attempt, 16))
        except ValueError:
            raise InvalidSettingError("segment", f"'{text}' is not version.attempt") from None


@attrs.frozen(kw_only=True)
class Segment:
    """One loglet over the positions [start, stop)."""

    id: SegmentId
    kind: str
    """Name of the loglet provider."""
    config: bytes = attrs.field(repr=False)
    """Config of the loglet; opaque to all but the provider."""
    start: LogPosition
    stop: LogPosition | None = None
    """None while the segment is open."""
    base: LogletOffset = _ORIGIN
    """Offset in the loglet that `start` maps to."""

    def position(self, offset: int) -> LogPosition:
        return LogPosition(offset - self.base + self.start)

    def offset(self, position: int) -> LogletOffset:
        return LogletOffset(position - self.start + self.base)

    @property
    def shift(self) -> int:
        """Difference of positions and offsets: position = offset + shift."""
        return self.start - self.base


@attrs.frozen
class Chain:
    """One version of the chain. Immutable: `extend`, `close`, `truncate`, `modify` return the next
    one."""

    version: int
    segments: tuple[Segment, ...]

    @property
    def start(self) -> LogPosition:
        """First position that the chain still holds."""
        return self.segments[0].start

    @property
    def last(self) -> Segment:
        return self.segments[-1]

    @property
    def active(self) -> Segment | None:
        """The segment that takes appends; None if the log was closed on purpose."""
        return self.last if self.last.stop is None else None

    def segment_at(self, position: int) -> Segment | None:
        """Return the segment that owns `position`; None below the start or past the end of a closed
        chain."""
        index = bisect.bisect_right(self.segments, position, key=lambda segment: segment.start) - 1
        if index < 0:
            return None
        segment = self.segments[index]
        return segment if segment.stop is None or position < segment.stop else None

    def find(self, segment_id: SegmentId) -> Segment | None:
        return next((segment for segment in self.segments if segment.id == segment_id), None)


def genesis(kind: str, config: bytes, attempt: int, *, start: int = 0, history: Sequence[Segment] = ()) -> Chain:
    """Make the first chain of a log: version 1, with one open segment.

    Args:
        kind: kind of the open segment's loglet.
        config: config of that loglet.
        attempt: attempt in the id of that segment.
        start: its first position; 0 unless the log continues another one. Everything below that is
            not in `history` counts as trimmed.
        history: closed segments of version 1 that end at `start`.
    """
    first = Segment(id=SegmentId(1, attempt), kind=kind, config=config, start=LogPosition(start))
    return Chain(1, (*history, first))


def _closed(chain: Chain, stop: int) -> tuple[Segment, ...]:
    """Return the segments with the last closed at `stop`. An empty last segment is dropped unless
    it is the only one."""
    last = chain.last
    assert last.stop is None or last.stop == stop
    assert stop >= last.start
    if stop == last.start and len(chain.segments) > 1:
        return chain.segments[:-1]
    return (*chain.segments[:-1], attrs.evolve(last, stop=LogPosition(stop)))


def extend(chain: Chain, stop: int, kind: str, config: bytes, attempt: int) -> Chain:
    """Close the last segment at `stop` and open a new one there."""
    version = chain.version + 1
    new = Segment(id=SegmentId(version, attempt), kind=kind, config=config, start=LogPosition(stop))
    closed = _closed(chain, stop)
    if closed[-1].start == stop:  # the only segment was empty
        closed = ()
    return Chain(version, (*closed, new))


def close(chain: Chain, stop: int) -> Chain:
    """Close the log on purpose, without a successor; clients do not roll forward.

    `extend` reopens it at the same position.
    """
    return Chain(chain.version + 1, _closed(chain, stop))


def truncate(chain: Chain, first: int) -> Chain | None:
    """Drop the leading closed segments that lie wholly below `first`; None if there are none.

    The last segment stays in any case.
    """
    kept = tuple(s for s in chain.segments[:-1] if s.stop is not None and s.stop > first)
    if len(kept) == len(chain.segments) - 1:
        return None
    return Chain(chain.version + 1, (*kept, chain.last))


def modify(
    chain: Chain, segment_id: SegmentId, kind: str, config: bytes, attempt: int, base: LogletOffset = _ORIGIN
) -> Chain:
    """Put another loglet under a closed segment; its range does not change.

    Raises:
        InvalidSettingError: there is no such segment, or it is still open.
    """
    old = chain.find(segment_id)
    if old is None or old.stop is None:
        raise InvalidSettingError(f"segment {segment_id}", "is open" if old else "is not in the chain")
    version = chain.version + 1
    new = attrs.evolve(old, id=SegmentId(version, attempt), kind=kind, config=config, base=base)
    return Chain(version, tuple(new if s is old else s for s in chain.segments))


def validate(chain: Chain) -> None:
    """Check invariant I1 on one chain.

    Segments are adjacent and ordered, none is empty but an only one, only the last is open, and ids
    are unique.

    Raises:
        AssertionError: the chain breaks it.
    """
    assert chain.version >= 1
    assert chain.segments
    assert chain.start >= 0
    for before, after in zip(chain.segments, chain.segments[1:], strict=False):
        assert before.stop is not None
        assert before.start < before.stop
        assert before.stop == after.start
    last = chain.last
    assert last.stop is None or last.start < last.stop or (last.start == last.stop and len(chain.segments) == 1)
    assert len({segment.id for segment in chain.segments}) == len(chain.segments)
    assert all(1 <= segment.id.version <= chain.version for segment in chain.segments)


def validate_successor(before: Chain, after: Chain) -> None:
    """Check invariant I1 between a version and the next: one version up, no decided boundary moves.

    Both chains are valid by themselves.

    Raises:
        AssertionError: the change breaks it.
    """
    assert after.version == before.version + 1
    starts = {segment.start for segment in before.segments}
    stops = {segment.stop for segment in before.segments if segment.stop is not None}
    assert after.start in starts
    known = {segment.id: segment for segment in before.segments}
    for segment in after.segments:
        old = known.get(segment.id)
        if old is None:
            assert segment.id.version == after.version
            assert segment.stop is None or (segment.start in starts and segment.stop in stops)
        else:
            assert attrs.evolve(segment, stop=old.stop) == old
            assert segment.stop == old.stop or old.stop is None
    _validate_end(before, after)


def _validate_end(before: Chain, after: Chain) -> None:
    """Check that unwritten positions continue at the stop, or in the last segment at or past its
    start."""
    last = before.last
    if after.find(last.id) is None:  # it was replaced as a whole, or dropped as empty: nothing moves
        end = last.start if last.stop is None else last.stop
        assert end in {after.last.start, after.last.stop}
    if last.stop is not None:
        assert last.stop == (after.last.start if after.last.stop is None else after.last.stop)
