"""Check of a rolling upgrade: whether every node, one after the other, may be restarted with another program.

    safe    each node can stop for a moment, and nothing that the cluster has written is of a version that the program cannot read
    behind  nodes that do not run the program yet
    level   what the cluster writes may be of this version of the protocol: a program that speaks less is refused

A restart is a failure that is planned. So all that `virtuallog explain` finds weak is in the way, and so is a part that survives no
further failure. A step down is judged like a step up: what decides is the level, not the direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.chain import Segment
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import Versions
from virtuallog_database.control.messages import SERVING, DatabaseStatus
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.evidence import NO_DIAGNOSIS, LogEvidence, NodeFacts, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, all_well, listed, nodes_text

CHAIN: Final = (Topic.CHAIN,)
DATABASE: Final = (Topic.DATABASE,)


@attrs.frozen(kw_only=True)
class TargetProgram:
    """The program that all nodes shall run."""

    versions: Versions
    software: str = ""
    """Its version. Empty if only its protocol is known."""
    switches: Collection[str] = ()
    """Engines and rules of the database that it knows, if `software` is known."""

    def __str__(self) -> str:
        protocol = f"protocol {self.versions.last}"
        return f"virtuallog {self.software} ({protocol})" if self.software else protocol


@attrs.frozen(kw_only=True)
class UpgradeCheck:
    """Result of a check."""

    target: TargetProgram
    behind: tuple[NodeId, ...]
    """Nodes that answer, and do not run the target yet."""
    findings: tuple[Finding, ...]

    @property
    def is_safe(self) -> bool:
        return all_well(self.findings)


def check_upgrade(log: LogEvidence, target: TargetProgram) -> UpgradeCheck:
    """Check if the nodes may be restarted with the target, one after the other, beginning now."""
    behind = tuple(node for node, facts in sorted(log.nodes.items()) if log.lives(node) and _differs(facts, target))
    findings = (
        *_versions(log, target, behind),
        *_contents(log, target),
        *_spare(log),
        *(finding for finding in conclude(log) if finding.weight >= Severity.WEAK),
    )
    return UpgradeCheck(target=target, behind=behind, findings=findings)


def _differs(facts: NodeFacts, target: TargetProgram) -> bool:
    """True if the node runs another program. One of the same version may be held back by `protocol` in its config."""
    if not target.software:
        return facts.protocol != target.versions.last
    return facts.software != target.software or facts.protocol > target.versions.last


def _versions(log: LogEvidence, target: TargetProgram, behind: Sequence[NodeId]) -> Iterator[Finding]:
    """Findings about the program, the nodes that lack it, and the way back."""
    level, newest = log.register.level, target.versions.last
    runs = [f"node {node} runs {_program(log.nodes[node])}" for node in behind]
    if behind:
        statement = f"{nodes_text(behind)} {'does' if len(behind) == 1 else 'do'} not run {target} yet"
        then = "restart them with it, one after the other, and repeat this check after each"
        yield _finding(Severity.NOTE, statement, then, *runs)
    else:
        yield _finding(Severity.WELL, f"every node that answers runs {target}", "")
    far = [node for node in behind if abs(log.nodes[node].protocol - newest) > 1]
    if far:
        statement = f"{nodes_text(far)} would take more than one step of the protocol"
        yield _finding(Severity.WEAK, statement, "install the versions between first: only neighbours are tested")
    if not target.versions.first <= level <= newest:
        statement = f"{target} cannot be used: the cluster is at level {level}, and the level never goes down"
        yield _finding(Severity.TROUBLE, statement, "docs/reference/formats.md says what each level has brought")
    else:
        yield _way_back(log, target)


def _way_back(log: LogEvidence, target: TargetProgram) -> Finding:
    """Finding about the use of a former program once all nodes run the target."""
    level, newest = log.register.level, target.versions.last
    if level == newest:
        return _finding(
            Severity.WELL, f"the level of the cluster stays {level}: programs that speak it can be used", ""
        )
    held = [node for node, facts in log.nodes.items() if log.lives(node) and facts.protocol == level]
    running = [node for node in held if not _differs(log.nodes[node], target)]
    if running:
        statement = (
            f"the way back to protocol {level} stays open: {nodes_text(running)} {'is' if len(running) == 1 else 'are'} "
            f"held back by `protocol = {level}`"
        )
        return _finding(
            Severity.NOTE, statement, "take that line out of each node.toml once the way back is not needed"
        )
    statement = f"the level rises from {level} to {newest} once every node runs it; then there is no way back"
    return _finding(Severity.NOTE, statement, f"to keep one, put `protocol = {level}` into each node.toml before")


def _program(facts: NodeFacts) -> str:
    return str(TargetProgram(versions=Versions(last=facts.protocol), software=facts.software))


def _contents(log: LogEvidence, target: TargetProgram) -> Iterator[Finding]:
    """Findings about what the log rests on and the target does not know."""
    enabled = sorted({name for status in _replicas(log).values() for name in status.enabled})
    if not target.software:
        if enabled and any(facts.protocol > target.versions.last for facts in log.nodes.values()):
            statement = (
                f"the database uses {listed(enabled)}: a program that does not know one of them stops its replica"
            )
            yield _finding(
                Severity.NOTE, statement, "ask that program: `virtuallog upgrade --check` without --to", topics=DATABASE
            )
        return
    unknown = sorted(set(enabled).difference(target.switches))
    if unknown:
        statement = f"the database uses {listed(unknown)}, which this program does not know: its replica would stop"
        yield _finding(Severity.TROUBLE, statement, "use a program that knows them", topics=DATABASE)
    for kind in sorted({facts.segment.kind for facts in log.segments}.difference(log.since)):
        statement = f"the chain has segments of the kind {kind}, which this program does not know"
        yield _finding(Severity.TROUBLE, statement, "install the package that brings it")


def _spare(log: LogEvidence) -> Iterator[Finding]:
    """Findings about parts that would not survive a restart of one node."""
    if log.members and not log.silent_members and log.spare_members < 1:
        statement = f"the chain cannot change while a node restarts: the register has {len(log.members)} members"
        yield _finding(Severity.WEAK, statement, "add nodes: three survive the restart of one")
    for node, facts in sorted(log.nodes.items()):
        if log.lives(node) and not facts.is_expected and facts.version < log.register.version:
            statement = f"node {node} has not caught up: it knows version {facts.version} of the register, not {log.register.version}"
            yield _finding(Severity.WEAK, statement, "wait for it, and repeat this check", node=node)
    for segment in log.segments:
        yield from _segment(segment)
    yield from _database(log)


def _segment(facts: SegmentFacts) -> Iterator[Finding]:
    name, segment = _spell(facts.segment), facts.segment
    if facts.lost:
        statement = f"{name} is not repaired: {nodes_text(sorted(facts.lost))} {'has' if len(facts.lost) == 1 else 'have'} no copy of it yet"
        yield _finding(Severity.WEAK, statement, "wait for the copy: `virtuallog status` shows it", segment=segment)
    elif facts.spare == 0:
        statement = f"{name} stops while one of its nodes restarts: {facts.counted()}, and none is to spare"
        yield _finding(Severity.WEAK, statement, "start what is silent, or use more nodes", segment=segment)
    if facts.problem and facts.problem != NO_DIAGNOSIS:
        yield _finding(Severity.WEAK, f"nothing is known of {name}", "", facts.problem, segment=segment)


def _database(log: LogEvidence) -> Iterator[Finding]:
    replicas = _replicas(log)
    serving = [node for node, status in replicas.items() if status.state == SERVING]
    for node, status in sorted(replicas.items()):
        if node not in serving:
            statement = f"the replica of the database on node {node} is {status.state}"
            yield _finding(
                Severity.WEAK, statement, "wait for it, and repeat this check", status.waiting_for, topics=DATABASE
            )
    if len(serving) == 1:
        statement = f"clients of the database wait while node {serving[0]} restarts: no other node serves them"
        yield _finding(Severity.WEAK, statement, "let more nodes serve it", topics=DATABASE)


def _replicas(log: LogEvidence) -> Mapping[NodeId, DatabaseStatus]:
    return log.database.replicas if log.database is not None else {}


def _spell(segment: Segment) -> str:
    return (
        f"segment {segment.id} ({segment.kind}, {segment.start} to {'now' if segment.stop is None else segment.stop})"
    )


def _finding(
    weight: Severity,
    statement: str,
    then: str,
    *because: str,
    topics: tuple[Topic, ...] = CHAIN,
    segment: Segment | None = None,
    node: NodeId | None = None,
) -> Finding:
    return Finding(
        topics=topics, weight=weight, statement=statement, because=tuple(filter(None, because)), next=then,
        segment=segment.id if segment is not None else None, node=node,
    )  # fmt: skip
