"""Findings about the beginning of the log, and obstacles to a trim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtuallog.contract.diagnosis import Evidence
from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, listed

TOPICS = (Topic.TRIM,)


def findings(log: LogEvidence) -> list[Finding]:
    """Findings about the log as a whole, then segment by segment."""
    return [_start(log), *(finding for facts in log.segments for finding in _of_segment(log, facts))]


def _start(log: LogEvidence) -> Finding:
    start = log.register.chain.start
    trimmed = {facts.segment.id: point for facts in log.segments if (point := _trim_point(facts)) is not None}
    because = [f"the chain starts at {start}"]
    because += [f"segment {segment} is trimmed up to {point}" for segment, point in trimmed.items()]
    point = max(trimmed.values(), default=start)
    return Finding(topics=TOPICS, weight=Severity.WELL, statement=f"the log begins at {point}", because=tuple(because))


def _trim_point(facts: SegmentFacts) -> int | None:
    """Position up to which the segment is trimmed. None if nothing of it is."""
    point = facts.position("trim")
    return point if point is not None and point > facts.segment.start else None


def _of_segment(log: LogEvidence, facts: SegmentFacts) -> Iterator[Finding]:
    if not facts.evidence:
        return
    if not facts.is_reachable:
        yield _blocked(facts)
    elif facts.together.get("trim") is not None:
        yield from _uneven(facts)
        yield from _leftover(facts)
    yield from _kept(log, facts)


def _blocked(facts: SegmentFacts) -> Finding:
    segment = facts.segment
    cause = f"cannot be done: too few servers of segment {segment.id} answer"
    if facts.spare is None:  # an archive without its manifest can be trimmed, as long as nodes keep the entries in it
        cause = f"may fail: not all of segment {segment.id} ({segment.kind}) is there"
    return Finding(
        topics=TOPICS,
        weight=Severity.TROUBLE,
        statement=f"a trim past {segment.start} {cause} ({facts.counted()})",
        because=facts.says(facts.silent),
        next=f"{facts.remedy}, then trim again" if facts.remedy else "",
        segment=segment.id,
    )


def _uneven(facts: SegmentFacts) -> Iterator[Finding]:
    """Parts of a segment that have trimmed more than a majority, or less."""
    for group in facts.groups:
        trims = sorted((part.facts["trim"] for part in group if "trim" in part.facts), reverse=True)
        majority = len(group) // 2 + 1
        if len(trims) >= majority:
            yield from _uneven_group(facts, group, trims[majority - 1])


def _uneven_group(facts: SegmentFacts, group: Sequence[Evidence], trim: int) -> Iterator[Finding]:
    segment = facts.segment
    ahead = [part.source for part in group if part.facts.get("trim", trim) > trim]
    behind = [part.source for part in group if part.facts.get("trim", trim) < trim]
    if ahead:
        yield Finding(
            topics=TOPICS,
            weight=Severity.NOTE,
            statement=f"a trim of segment {segment.id} is half done: only {listed(ahead)} took it",
            next="the next `virtuallog trim`, to any position, completes it",
            segment=segment.id,
        )
    silent = [part for part in group if part in facts.silent and trim > 0]
    if late := [*behind, *(part.source for part in silent)]:
        yield Finding(
            topics=TOPICS,
            weight=Severity.NOTE,
            statement=f"{listed(late)} may still keep what is trimmed of segment {segment.id}",
            because=(*(f"{source} has missed a trim" for source in behind), *facts.says(silent)),
            next="reads do not show it; the space comes back with the next trim that reaches it, or when the segment is dropped",
            segment=segment.id,
        )


def _leftover(facts: SegmentFacts) -> Iterator[Finding]:
    segment = facts.segment
    if segment.stop is not None and segment.start < segment.stop == facts.position("trim"):
        yield Finding(
            topics=TOPICS,
            weight=Severity.NOTE,
            statement=f"segment {segment.id} is trimmed as a whole, and still in the chain",
            because=("the trim was interrupted before the chain was put, or is about to put it",),
            next="`virtuallog truncate`, or the next trim, drops it",
            segment=segment.id,
        )


def _kept(log: LogEvidence, facts: SegmentFacts) -> Iterator[Finding]:
    for part in facts.evidence:
        until = part.facts.get("release_at_ms")
        if until is None:
            continue
        over = until <= log.now_ms
        yield Finding(
            topics=TOPICS,
            weight=Severity.NOTE,
            statement=f"nodes keep a copy of their own of segment {facts.segment.id}, beside the {facts.segment.kind}",
            because=("its time is over" if over else f"it is kept for {_duration(until - log.now_ms)} more",),
            next="a node releases it when it looks next" if over else "a node releases it then; there is nothing to do",
            segment=facts.segment.id,
        )


def _duration(milliseconds: int) -> str:
    """'2 h 5 min', '40 s'."""
    seconds = milliseconds // 1000
    return f"{seconds // 3600} h {seconds % 3600 // 60} min" if seconds >= 60 else f"{seconds} s"
