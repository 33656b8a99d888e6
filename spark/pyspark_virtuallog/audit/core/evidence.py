"""What an audit has seen, brought together: sums, and a few examples of each kind. Bounded, however long the log is.    Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs


@attrs.frozen(kw_only=True)
class ObservedRange:
    """Adjacent rows that one task has read."""

    first: int
    last: int
    ends_in_gap: bool
    first_segment: str
    last_segment: str
    first_time_ms: int | None
    last_time_ms: int | None
    kept_from: int | None = None
    """Behind what has been trimmed of it; None: nothing has."""


@attrs.frozen(kw_only=True)
class Fault:
    """Something that was seen `count` times, and where."""

    check: str
    count: int
    examples: Sequence[str]


@attrs.frozen(kw_only=True)
class GapSum:
    """Gaps of one kind, fillers apart."""

    kind: str
    count: int
    examples: Sequence[tuple[int, int | None]]
    """(start, stop) of the first ones; no stop: it reaches to the next piece."""


@attrs.frozen(kw_only=True)
class SegmentSum:
    """What one loglet holds."""

    segment: str
    loglet: str
    entries: int
    bytes: int
    fillers: int
    first: int
    last: int
    first_ms: int | None
    """Time of its first entry, to ten seconds; None: it has none."""
    last_ms: int | None


@attrs.frozen(kw_only=True)
class Rate:
    """What was ordered in one span of time by one kind of loglet."""

    at_ms: int
    loglet: str
    entries: int
    bytes: int


@attrs.frozen(kw_only=True)
class SessionSum:
    """The entries of one session."""

    session: str
    entries: int
    bytes: int
    start: int
    last: int


@attrs.frozen(kw_only=True)
class Round:
    """A comparison of states in which not everybody reports the same: the digests of each replica by part."""

    compared: int
    reports: Mapping[str, Sequence[Mapping[str, str]]]


@attrs.frozen(kw_only=True)
class Comparisons:
    """What replicas of a database have reported of their states."""

    rounds: int = 0
    """Comparisons of which there are reports of several replicas."""
    reports: int = 0
    differing: int = 0
    """Comparisons in which not everybody reports the same."""
    examples: Sequence[Round] = ()
    """The first of these."""


@attrs.frozen(kw_only=True)
class Ends:
    """What loglets of closed segments say of their ends."""

    asked: int = 0
    wrong: Sequence[str] = ()
    silent: Sequence[str] = ()
    """Those that gave no answer."""


@attrs.frozen(kw_only=True)
class PrefixSum:
    """What commands have done to keys with one prefix."""

    prefix: str
    writes: int
    deletes: int
    bytes: int


@attrs.frozen(kw_only=True)
class Growth:
    """The bytes of commands to keys with one prefix in one span of time."""

    at_ms: int
    prefix: str
    writes: int
    bytes: int


@attrs.frozen(kw_only=True)
class Markers:
    """What the markers of the sink name."""

    batches: int = 0
    queries: int = 0
    committed_entries: int = 0
    """Entries of sessions that a marker names."""
    uncommitted_sessions: int = 0
    uncommitted_entries: int = 0
    """Entries of all others, the entries of markers among them: plain appends, and attempts that have lost."""


@attrs.frozen(kw_only=True)
class Evidence:
    """All of it."""

    pieces: Sequence[ObservedRange] = ()
    gaps: Sequence[GapSum] = ()
    segments: Sequence[SegmentSum] = ()
    span_ms: int = 0
    """The length of the spans of `rates` and `growth`."""
    rates: Sequence[Rate] = ()
    sessions: int = 0
    largest_sessions: Sequence[SessionSum] = ()
    faults: Sequence[Fault] = ()
    """Remarks of tasks, and what is wrong with sessions and markers."""
    ends: Ends = attrs.field(factory=Ends)
    comparisons: Comparisons = attrs.field(factory=Comparisons)
    prefixes: Sequence[PrefixSum] = ()
    """The ones with the most bytes."""
    growth: Sequence[Growth] = ()
    markers: Markers = attrs.field(factory=Markers)
