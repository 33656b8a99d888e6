"""Evidence of an audit: sums, and a few examples of each kind. Bounded, however long the log is."""

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
    """First position behind its trimmed part. None if nothing is trimmed."""


@attrs.frozen(kw_only=True)
class Fault:
    """A fault that was seen `count` times, and where."""

    check: str
    count: int
    examples: Sequence[str]


@attrs.frozen(kw_only=True)
class GapSum:
    """Gaps of one kind, fillers apart."""

    kind: str
    count: int
    examples: Sequence[tuple[int, int | None]]
    """(start, stop) of the first ones; stop is None if the gap reaches to the next piece."""


@attrs.frozen(kw_only=True)
class SegmentSum:
    """Content of one loglet."""

    segment: str
    loglet: str
    entries: int
    bytes: int
    fillers: int
    first: int
    last: int
    first_ms: int | None
    """Time of its first entry, to ten seconds. None if it has no entry."""
    last_ms: int | None


@attrs.frozen(kw_only=True)
class Rate:
    """Entries ordered in one time bucket by one kind of loglet."""

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
    """A comparison of states with differing reports: the digests of each replica by part."""

    compared: int
    reports: Mapping[str, Sequence[Mapping[str, str]]]


@attrs.frozen(kw_only=True)
class Comparisons:
    """Reports of a database's replicas about their states."""

    rounds: int = 0
    """Comparisons with reports of several replicas."""
    reports: int = 0
    differing: int = 0
    """Comparisons with differing reports."""
    examples: Sequence[Round] = ()
    """The first differing comparisons."""


@attrs.frozen(kw_only=True)
class Ends:
    """Ends of closed segments, as their loglets report them."""

    asked: int = 0
    wrong: Sequence[str] = ()
    silent: Sequence[str] = ()
    """Loglets that gave no answer."""


@attrs.frozen(kw_only=True)
class PrefixSum:
    """Commands to keys with one prefix."""

    prefix: str
    writes: int
    deletes: int
    bytes: int


@attrs.frozen(kw_only=True)
class Growth:
    """Bytes of commands to keys with one prefix in one time bucket."""

    at_ms: int
    prefix: str
    writes: int
    bytes: int


@attrs.frozen(kw_only=True)
class Markers:
    """Sessions named by the sink's markers."""

    batches: int = 0
    queries: int = 0
    committed_entries: int = 0
    """Entries of sessions that a marker names."""
    uncommitted_sessions: int = 0
    uncommitted_entries: int = 0
    """All other entries, markers included: plain appends, and attempts that have lost."""


@attrs.frozen(kw_only=True)
class Evidence:
    """All evidence of an audit."""

    pieces: Sequence[ObservedRange] = ()
    gaps: Sequence[GapSum] = ()
    segments: Sequence[SegmentSum] = ()
    span_ms: int = 0
    """Length of the time buckets of `rates` and `growth`, in milliseconds."""
    rates: Sequence[Rate] = ()
    sessions: int = 0
    largest_sessions: Sequence[SessionSum] = ()
    faults: Sequence[Fault] = ()
    """Anomalies seen by tasks, and faults of sessions and markers."""
    ends: Ends = attrs.field(factory=Ends)
    comparisons: Comparisons = attrs.field(factory=Comparisons)
    prefixes: Sequence[PrefixSum] = ()
    """The prefixes with the most bytes."""
    growth: Sequence[Growth] = ()
    markers: Markers = attrs.field(factory=Markers)
