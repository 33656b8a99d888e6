"""Findings about the foundations of the log: the register, its members, and the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from virtuallog.contract.types import NodeId
from virtuallog_server.diagnosis.core.evidence import NO_DIAGNOSIS, LogEvidence, NodeFacts, SegmentFacts, said
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, listed, nodes_text
from virtuallog_server.diagnosis.core.recovery import members_text

TOPICS = (Topic.CHAIN,)
SPARE_NODE: Final = "; a spare node takes its place after a minute, if there is one"


def findings(log: LogEvidence) -> list[Finding]:
    """Findings about the chain, the members of the MetaStore, each node, the kinds, the closed segments."""
    return [
        _shape(log),
        *_members(log),
        *_half_decided(log),
        *(finding for node in log.nodes.values() for finding in _node(log, node)),
        *_levels(log),
        *(_untold(facts) for facts in log.segments if not facts.evidence),
        *(finding for facts in log.segments if facts.segment.stop is not None for finding in _copies(facts)),
    ]


def _shape(log: LogEvidence) -> Finding:
    chain = log.register.chain
    last = "open" if chain.last.stop is None else f"closed at {chain.last.stop}"
    count = len(chain.segments)
    return Finding(
        topics=TOPICS,
        weight=Severity.WELL,
        statement=f"the chain has version {chain.version}: {count} segment{'s' if count > 1 else ''} from {chain.start}, "
        f"the last one {chain.last.kind} and {last}",
    )


def _members(log: LogEvidence) -> Iterator[Finding]:
    if not log.silent_members:
        return
    because = tuple(said(member.source, member.problem) for member in log.silent_members)
    if log.spare_members < 0:
        yield Finding(
            topics=TOPICS,
            weight=Severity.TROUBLE,
            statement=f"the chain cannot change: {members_text(log)}, and a majority must",
            because=because,
            next="start these nodes. Appends go on meanwhile, as long as the open loglet takes them",
        )
        return
    then = f"it can lose {log.spare_members} more" if log.spare_members else "one more failure, and it cannot"
    yield Finding(
        topics=TOPICS,
        weight=Severity.WEAK,
        statement=f"the chain can change ({members_text(log)}); {then}",
        because=because,
        next="start them again, or let others decide: `virtuallog metastore members --set`",
    )


def _half_decided(log: LogEvidence) -> Iterator[Finding]:
    accepted = [member.source for member in log.members if member.facts.get("accepted")]
    if accepted:
        yield Finding(
            topics=TOPICS,
            weight=Severity.NOTE,
            statement="the next version of the register is on its way, or its proposer has died",
            because=(f"{listed(accepted)} {'has' if len(accepted) == 1 else 'have'} accepted it",),
            next="the next one to read the register completes it: "
            + (f"{nodes_text(log.living)} do so about once a second" if log.living else "no node is there to"),
        )


def _node(log: LogEvidence, node: NodeFacts) -> Iterator[Finding]:
    name = f"node {node.node}"
    about = partial(_of_node, node.node)
    if node.is_expected:
        yield about(Severity.NOTE, f"{name} is expected", "start it with an empty data directory")
    elif node.problem:
        yield about(Severity.WEAK, f"{name} takes no part", "start it again, or mend the network", node.problem)
    for failure in node.failures:
        yield about(
            Severity.WEAK, f"{name} refuses a role", "docs/howto/operate.md says what each reason means", failure
        )
    if not node.problem and node.version < log.register.version:
        yield about(
            Severity.NOTE,
            f"{name} lags behind: it knows version {node.version} of the register, which is at {log.register.version}",
            f"it looks every {log.look_seconds[0]:g} to {log.look_seconds[1]:g} s; if this stays, it does not reach "
            "a majority of the MetaStore",
        )
    for text in node.healing:
        yield about(Severity.NOTE, f"{name} says: {text}", "")


def _of_node(node: NodeId, weight: Severity, statement: str, then: str, *because: str) -> Finding:
    return Finding(topics=TOPICS, weight=weight, statement=statement, because=because, next=then, node=node)


def _levels(log: LogEvidence) -> Iterator[Finding]:
    """Kinds that cannot be used yet, because some node would not know them."""
    level = log.register.level
    for kind, since in sorted(log.since.items()):
        if since <= level:
            continue
        older = [node.node for node in log.nodes.values() if node.problem or node.protocol < since]
        yield Finding(
            topics=TOPICS,
            weight=Severity.NOTE,
            statement=f"{kind} cannot be used yet: the cluster is at protocol version {level}, it needs {since}",
            because=(f"{nodes_text(older)} {'has' if len(older) == 1 else 'have'} not announced it",) if older else (),
            next="the level rises by itself once every node has announced the version"
            if not older
            else "upgrade them, or take `protocol` out of their configs",
        )


def _untold(facts: SegmentFacts) -> Finding:
    segment = facts.segment
    return Finding(
        topics=tuple(Topic) if segment.stop is None else (Topic.CHAIN, Topic.TRIM),
        weight=Severity.NOTE if facts.problem == NO_DIAGNOSIS else Severity.WEAK,
        statement=f"nothing is known of segment {segment.id} ({segment.kind}) but what the chain says",
        because=(facts.problem,),
        segment=segment.id,
    )


def _copies(facts: SegmentFacts) -> Iterator[Finding]:
    """Findings about closed segments: readable or not, and the failures that they still survive."""
    segment = facts.segment
    if not facts.evidence:
        return
    if not facts.is_reachable or facts.silent or facts.unwell:
        yield Finding(
            topics=TOPICS,
            weight=Severity.WEAK,
            statement=f"segment {segment.id} ({segment.kind}, {segment.start} to {segment.stop}) is not whole: {facts.counted()}",
            because=facts.says([*facts.silent, *facts.unwell]),
            next=facts.remedy + (SPARE_NODE if facts.spare is not None else ""),
            segment=segment.id,
        )
