"""Forecast of repairs: the node that will finish a half-done change, and when."""

from __future__ import annotations

from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts
from virtuallog_server.diagnosis.core.finding import nodes_text


def obstacles(log: LogEvidence, facts: SegmentFacts) -> list[str]:
    """Reasons why no node can close the segment and put a successor behind it. Empty if one can."""
    found = []
    if not log.living:
        found.append("no node that knows the register answers")
    if log.members and log.spare_members < 0:
        found.append(f"too few members of the MetaStore answer: {members_text(log)}")
    if not facts.is_reachable:
        found.append(f"too few of the loglet's servers answer: {facts.counted()}")
    return found


def repair_forecast(log: LogEvidence, facts: SegmentFacts) -> str:
    """Value of `Finding.next` if the open segment needs a successor."""
    if found := obstacles(log, facts):
        return f"no node can finish it: {'; '.join(found)}. Start the nodes that are silent; the rest goes by itself"
    return (
        f"the watchdogs of {nodes_text(log.living)} look every {_span(log.look_seconds)}, wait "
        f"{_span(log.grace_seconds)} for the node that began it, and then one of them continues the log on a new "
        f"{facts.segment.kind} loglet"
    )


def _span(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:g} to {seconds[1]:g} s"


def members_text(log: LogEvidence) -> str:
    """'1 of 3 members answers'."""
    answering = len(log.members) - len(log.silent_members)
    return f"{answering} of {len(log.members)} members {'answers' if answering == 1 else 'answer'}"
