"""Findings about appends: an append would be refused, would wait, or is fine."""

from __future__ import annotations

from collections.abc import Iterator

from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts, said
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, listed, nodes_text
from virtuallog_server.diagnosis.core.recovery import repair_forecast

TOPICS = (Topic.APPEND,)


def findings(log: LogEvidence) -> list[Finding]:
    """Findings about the open segment. Those about its seal are in `seal`."""
    facts = log.active
    if facts is None or not facts.evidence:
        return []
    found = [*_unordered(log, facts), *_full(facts), *_unwell(facts)]
    takes = facts.is_reachable and not facts.together.get("sealed")
    return found if found or not takes else [_well(facts)]


def _unordered(log: LogEvidence, facts: SegmentFacts) -> Iterator[Finding]:
    """Findings if no node orders: the process start that the config names is over, or does not answer."""
    for sequencer in facts.together.get("orders", ()):
        if problem := _absence(log, sequencer["node"], sequencer["boot"]):
            yield Finding(
                topics=TOPICS,
                weight=Severity.TROUBLE,
                statement=f"appends wait: node {sequencer['node']}, which orders them, cannot",
                because=(problem, *_healing(log)),
                next=_replacement(log, facts),
                segment=facts.segment.id,
            )
    leader = facts.together.get("leads")
    if leader is not None and (problem := _absence(log, leader, 0)):
        yield Finding(
            topics=TOPICS,
            weight=Severity.WEAK,
            statement=f"the next append is slow: node {leader}, which leads, does not answer",
            because=(problem,),
            next="another replica stands for election as soon as a client misses an answer",
            segment=facts.segment.id,
        )


def _absence(log: LogEvidence, number: int, boot: int) -> str:
    """The reason why a node does not order appends. Empty if it does, as far as can be seen."""
    node = next((node for node in log.nodes.values() if node.node == number), None)
    if node is None:
        return f"node {number} is not in the register any more"
    if node.problem:
        return said(f"node {number}", node.problem)
    if boot not in {0, node.boot}:
        return f"node {number} has started again: the loglet names its start {boot}, this is start {node.boot}"
    if node.failures:
        return f"node {number}: {listed(node.failures)}"
    return ""


def _replacement(log: LogEvidence, facts: SegmentFacts) -> str:
    if not facts.is_reachable or log.spare_members < 0:
        return repair_forecast(log, facts)
    return (
        f"{nodes_text(log.living)} notice that within some seconds and extend the chain, each trying in turn; where "
        f'healing is "off": `virtuallog reconfigure --to {facts.segment.kind}`'
    )


def _healing(log: LogEvidence) -> tuple[str, ...]:
    return tuple(f"node {node.node} says: {text}" for node in log.nodes.values() for text in node.healing)


def _full(facts: SegmentFacts) -> Iterator[Finding]:
    full = facts.full
    if not full:
        return
    stops = facts.spare is not None and len(full) > facts.spare
    yield Finding(
        topics=TOPICS,
        weight=Severity.TROUBLE if stops else Severity.WEAK,
        statement=f"{listed([part.source for part in full])}: the disk is full"
        + (", and appends are refused, now or soon" if stops else "; the others store appends"),
        because=facts.says(full),
        next="trim the log, or make room: the nodes go on by themselves. Or continue on nodes that have room: "
        "`virtuallog reconfigure`",
        segment=facts.segment.id,
    )


def _unwell(facts: SegmentFacts) -> Iterator[Finding]:
    """Problems that only the kind knows, in its words: a stripe that waits, a replica that does not vote."""
    if unwell := facts.unwell:
        yield Finding(
            topics=TOPICS,
            weight=Severity.WEAK,
            statement=f"{listed([part.source for part in unwell])} of the open {facts.segment.kind} loglet: not well",
            because=facts.says(unwell),
            segment=facts.segment.id,
        )


def _well(facts: SegmentFacts) -> Finding:
    orders = [sequencer["node"] for sequencer in facts.together.get("orders", ())]
    leader = facts.together.get("leads")
    who = f"{nodes_text(orders)} order{'s' if len(orders) == 1 else ''} them" if orders else ""
    who = who or (f"node {leader} leads" if leader is not None else "the loglet orders them")
    return Finding(
        topics=TOPICS,
        weight=Severity.WELL,
        statement=f"appends are taken by a {facts.segment.kind} loglet: {who}",
        because=facts.says(facts.silent) or (f"{facts.counted()}, and none is in the way",),
        segment=facts.segment.id,
    )
