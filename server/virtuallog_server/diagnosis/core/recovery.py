"""Who will finish what somebody left half done, and when.                                                           Pure."""

from __future__ import annotations

from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts
from virtuallog_server.diagnosis.core.finding import nodes_text


def obstacles(picture: LogEvidence, facts: SegmentFacts) -> list[str]:
    """Why nobody can close the segment and put a successor behind it; none: somebody can."""
    found = []
    if not picture.living:
        found.append("no node that knows the register answers")
    if picture.members and picture.spare_members < 0:
        found.append(f"too few members of the MetaStore answer: {members_text(picture)}")
    if not facts.is_reachable:
        found.append(f"too few of the loglet's servers answer: {facts.counted()}")
    return found


def repair_forecast(picture: LogEvidence, facts: SegmentFacts) -> str:
    """For `Finding.next`, where the open segment needs a successor."""
    if found := obstacles(picture, facts):
        return f"nobody can finish it: {'; '.join(found)}. Start the nodes that are silent; the rest goes by itself"
    return (
        f"the watchdogs of {nodes_text(picture.living)} look every {_span(picture.look_seconds)}, wait "
        f"{_span(picture.grace_seconds)} for whoever began it, and then one of them continues the log on a new "
        f"{facts.segment.kind} loglet"
    )


def _span(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:g} to {seconds[1]:g} s"


def members_text(picture: LogEvidence) -> str:
    """'1 of 3 members answers'."""
    answering = len(picture.members) - len(picture.silent_members)
    return f"{answering} of {len(picture.members)} members {'answers' if answering == 1 else 'answer'}"
