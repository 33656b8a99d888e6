"""Whether the open loglet is sealed, by whom, whether it could be, and what comes then.                              Pure."""

from __future__ import annotations

from server.explaining.finding import Finding, Topic, Weight, listed
from server.explaining.finishing import who_finishes
from server.explaining.picture import Picture, SegmentFacts

TOPICS = (Topic.SEAL,)
BOTH = (Topic.SEAL, Topic.APPEND)


def findings(picture: Picture) -> list[Finding]:
    """About the open segment, if there is one: of closed ones the chain has the last word."""
    facts = picture.active
    if facts is None:
        return [_closed(picture)]
    if not facts.evidence:
        return []
    if not facts.is_reachable:
        return [_unreachable(facts)]
    return [_bit(picture, facts), *_endurance(facts)]


def _closed(picture: Picture) -> Finding:
    last = picture.register.chain.last
    return Finding(
        topics=TOPICS,
        weight=Weight.NOTE,
        statement=f"the log is closed at {last.stop}, on purpose",
        because=(f"version {picture.register.version} of the register says so: it has no open segment",),
        next="no watchdog continues it; `virtuallog reconfigure --to KIND` does",
        segment=last.id,
    )


def _unreachable(facts: SegmentFacts) -> Finding:
    return Finding(
        topics=TOPICS,
        weight=Weight.TROUBLE,
        statement=f"the open loglet cannot be sealed: too few of its servers answer ({facts.counted()})",
        because=facts.says(facts.silent),
        next="start what is silent; until then the log can neither be closed nor continued elsewhere",
        segment=facts.segment.id,
    )


def _bit(picture: Picture, facts: SegmentFacts) -> Finding:
    said = [part.source for part in facts.parts if part.facts.get("sealed")]
    because = (
        (f"sealed: {listed(said)}; of {len(facts.parts)}",) if said else (f"nobody of {len(facts.parts)} is sealed",)
    )
    match facts.together.get("sealed"):
        case False:
            weight, what, then = Weight.WELL, "the open loglet is not sealed", ""
        case True:
            weight, what = Weight.TROUBLE, "a change is half done: the open loglet is sealed, and has no successor"
            then = who_finishes(picture, facts)
        case _:
            weight, what = (
                Weight.WEAK,
                "a seal has reached a part of the open loglet: a change is under way, or was given up",
            )
            then = f"appends may still be taken. Whoever checks the tail completes the seal; then {who_finishes(picture, facts)}"
    return Finding(topics=TOPICS, weight=weight, statement=what, because=because, next=then, segment=facts.segment.id)


def _endurance(facts: SegmentFacts) -> list[Finding]:
    """One more failure, and then?"""
    if not facts.silent or facts.spare is None:
        return []
    if facts.spare:
        then = f"it can lose {facts.spare} more"
    else:
        then = "one more failure stops appends, and the log could be neither sealed nor continued"
    return [
        Finding(
            topics=BOTH,
            weight=Weight.WEAK,
            statement=f"the open loglet is short of {listed([part.source for part in facts.silent])}: {then}",
            because=facts.says(facts.silent),
            next="start it again, or add a node: a spare one takes its place by itself",
            segment=facts.segment.id,
        )
    ]
