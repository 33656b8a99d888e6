"""Findings about the seal of the open loglet: sealed or not, by which node, sealable or not, and what follows."""

from __future__ import annotations

from typing import Final

from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, listed
from virtuallog_server.diagnosis.core.recovery import repair_forecast

TOPICS: Final[tuple[Topic, ...]] = (Topic.SEAL,)
BOTH: Final[tuple[Topic, ...]] = (Topic.APPEND, Topic.SEAL)
"""Topics of findings that concern appends as well."""


def findings(log: LogEvidence) -> list[Finding]:
    """Findings about the open segment, if there is one. The chain decides about closed ones."""
    facts = log.active
    if facts is None:
        return [_closed(log)]
    if not facts.evidence:
        return []
    if not facts.is_reachable:
        return [_unreachable(facts)]
    return [_bit(log, facts), *_endurance(facts)]


def _closed(log: LogEvidence) -> Finding:
    last = log.register.chain.last
    return Finding(
        topics=BOTH,
        weight=Severity.NOTE,
        statement=f"the log is closed at {last.stop}, on purpose: appends are refused",
        because=(f"version {log.register.version} of the register has no open segment",),
        next="no watchdog continues it; `virtuallog reconfigure --to KIND` does, at the same position",
        segment=last.id,
    )


def _unreachable(facts: SegmentFacts) -> Finding:
    return Finding(
        topics=BOTH,
        weight=Severity.TROUBLE,
        statement="the open loglet can neither take appends nor be sealed: too few of its servers answer "
        f"({facts.counted()})",
        because=facts.says(facts.silent),
        next="start what is silent: appends go on by themselves once enough servers answer. Until then the log can neither "
        "be closed nor continued elsewhere",
        segment=facts.segment.id,
    )


def _bit(log: LogEvidence, facts: SegmentFacts) -> Finding:
    said = [part.source for part in facts.parts if part.facts.get("sealed")]
    because = (
        (f"sealed: {listed(said)}; of {len(facts.parts)}",) if said else (f"none of {len(facts.parts)} is sealed",)
    )
    match facts.together.get("sealed"):
        case False:
            weight, what, then = Severity.WELL, "the open loglet is not sealed", ""
        case True:
            weight = Severity.TROUBLE
            what = "a change is half done, and appends wait: the open loglet is sealed, and has no successor"
            then = repair_forecast(log, facts)
        case _:
            weight = Severity.WEAK
            what = "a seal has reached a part of the open loglet: a change is under way, or was given up"
            then = f"appends may still be taken. The next tail check completes the seal; then {repair_forecast(log, facts)}"
    return Finding(
        topics=BOTH if weight else TOPICS,
        weight=weight,
        statement=what,
        because=because,
        next=then,
        segment=facts.segment.id,
    )


def _endurance(facts: SegmentFacts) -> list[Finding]:
    """The effect of one more failure."""
    if not facts.silent or facts.spare is None:
        return []
    if facts.spare:
        then = f"it can lose {facts.spare} more"
    else:
        then = "one more failure stops appends, and the log could be neither sealed nor continued"
    return [
        Finding(
            topics=BOTH,
            weight=Severity.WEAK,
            statement=f"the open loglet is short of {listed([part.source for part in facts.silent])}: {then}",
            because=facts.says(facts.silent),
            next="start it again, or add a node: a spare one takes its place by itself",
            segment=facts.segment.id,
        )
    ]
