"""Findings about the end of the log, with their sources."""

from __future__ import annotations

from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, listed
from virtuallog_server.diagnosis.core.recovery import repair_forecast

TOPICS = (Topic.TAIL,)


def findings(log: LogEvidence) -> list[Finding]:
    """Findings about the end of the log."""
    facts = log.active
    if facts is None:
        stop = log.register.chain.last.stop
        because = (f"version {log.register.version} of the register has closed the log there",)
        return [
            Finding(topics=TOPICS, weight=Severity.WELL, statement=f"the tail is {stop}, for good", because=because)
        ]
    if not facts.evidence:
        return []
    tail = facts.position("tail")
    if tail is None or not facts.is_reachable:
        return [_unknown(facts)]
    return [_known(log, facts, tail), *_undecided(log, facts, tail)]


def _unknown(facts: SegmentFacts) -> Finding:
    return Finding(
        topics=TOPICS,
        weight=Severity.TROUBLE,
        statement=f"the tail cannot be told: too few of the open loglet's servers answer ({facts.counted()})",
        because=(f"it is not below {facts.committed}, as far as the answers tell", *facts.says(facts.silent)),
        next="start the silent servers; clients that wait for the tail get it then",
        segment=facts.segment.id,
    )


def _known(log: LogEvidence, facts: SegmentFacts, tail: int) -> Finding:
    by, segment = facts.together.get("by", ()), facts.segment.id
    seen = [f"{listed(by)} {'has' if len(by) == 1 else 'have'} everything below; {facts.counted()}"] if by else []
    if hole := facts.together.get("first hole"):
        seen.append(f"the first place that is not written is in {hole}")
    because = tuple(seen) or facts.says(facts.silent)
    if facts.together.get("sealed"):
        return Finding(
            topics=TOPICS,
            weight=Severity.TROUBLE,
            statement=f"the open loglet ends at {tail}, sealed; the tail of the log is told once it has a successor",
            because=because,
            next=repair_forecast(log, facts),
            segment=segment,
        )
    return Finding(
        topics=TOPICS, weight=Severity.WELL, statement=f"the tail is {tail}", because=because, segment=segment
    )


def _undecided(log: LogEvidence, facts: SegmentFacts, tail: int) -> list[Finding]:
    undecided = facts.together.get("undecided", 0)
    if not undecided:
        return []
    return [
        Finding(
            topics=TOPICS,
            weight=Severity.NOTE,
            statement=f"{undecided} more behind {tail} are on their way, as in a log that is in use",
            because=tuple(
                f"{part.source} has more" for part in facts.parts if part.facts.get("tail", 0) > facts.together["tail"]
            ),
            next=f"if they stay, no server orders any more: {repair_forecast(log, facts)}",
            segment=facts.segment.id,
        )
    ]
