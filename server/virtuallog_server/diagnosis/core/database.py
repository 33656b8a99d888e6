"""Findings about the database on the log: the replicas of its view, and the nodes that serve them.

The log is kept for every replica of the view until that is ejected, and clients are served by those that run. So a finding reports
each replica that no node serves, with the node that should serve it, and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from virtuallog.contract.errors import UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog_database.control.messages import SERVING, DatabaseStatus
from virtuallog_database.identity import node_of, replica_name
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, listed, nodes_text

TOPICS = (Topic.DATABASE,)


@attrs.frozen(kw_only=True)
class DatabaseFacts:
    """Answers of the nodes about the database."""

    register: Register
    answers: Mapping[NodeId, Outcome[DatabaseStatus]] = attrs.field(factory=dict)
    """Answer of each node. An UnsupportedError if its config has no `[zookeeper]`."""

    @property
    def replicas(self) -> Mapping[NodeId, DatabaseStatus]:
        """Replicas that run, in any state."""
        return {node: answer for node, answer in self.answers.items() if not isinstance(answer, VirtualLogError)}

    @property
    def view(self) -> Sequence[str]:
        """Names of the replicas that the log is kept for, from the replica that has applied most."""
        newest = max(self.replicas.values(), key=lambda status: status.cursor, default=DatabaseStatus(state=""))
        return [member.name for member in newest.members]

    @property
    def concerned(self) -> Sequence[NodeId]:
        """Nodes that have something to do with the database: they run a replica, should, or may."""
        unserved = {node_of(name) for name in self.view}
        others = {node for node, answer in self.answers.items() if not isinstance(answer, UnsupportedError)}
        return sorted(unserved | others)


def findings(facts: DatabaseFacts | None) -> list[Finding]:
    """Findings about each replica of the view, and about the database as a whole. Empty if there is none."""
    if facts is None or not (facts.register.database or facts.replicas):
        return []
    if not facts.replicas:
        return [_nobody(facts)]
    unserved = [finding for name in facts.view for finding in _replica(facts, name)]
    return [*_shape(facts), *unserved]


def _shape(facts: DatabaseFacts) -> Iterator[Finding]:
    serving = [node for node, status in facts.replicas.items() if status.state == SERVING]
    if serving:
        weight, statement = Severity.WELL, f"the database is served by {nodes_text(serving)}"
    else:
        weight, statement = Severity.WEAK, "no replica of the database serves"
    others = [
        f"node {node} is {status.state}{f': {status.waiting_for}' if status.waiting_for else ''}"
        for node, status in facts.replicas.items()
        if node not in serving
    ]
    yield Finding(topics=TOPICS, weight=weight, statement=statement, because=tuple(others))


def _nobody(facts: DatabaseFacts) -> Finding:
    without = [node for node, answer in facts.answers.items() if isinstance(answer, UnsupportedError)]
    because = [
        f"node {node}: {answer}"
        for node, answer in facts.answers.items()
        if isinstance(answer, VirtualLogError) and node not in without
    ]
    if without:
        because.append(f"the config of {nodes_text(without)} has no [zookeeper]")
    return Finding(
        topics=TOPICS,
        weight=Severity.TROUBLE,
        statement="the log has a database, and no node serves it",
        because=tuple(because),
        next="start its servers, with [zookeeper] in their configs",
    )


def _replica(facts: DatabaseFacts, name: str) -> Iterator[Finding]:
    """Problems of one replica of the view."""
    node = node_of(name)
    entry, answer = facts.register.nodes.get(node), facts.answers.get(node, UnavailableError("it was not asked"))
    eject = f"`virtuallog database eject {name}`"
    if entry is None:
        yield _unserved(name, f"the cluster has no node {node}", f"{eject}: it does not come back")
    elif name != replica_name(node, entry.store_id):
        because = f"node {node} has another data directory than the one of this replica"
        yield _unserved(name, because, f"{eject}, unless a new replica of node {node} takes its place soon")
    elif isinstance(answer, UnsupportedError):
        because = f"the config of node {node} has no [zookeeper]"
        remedy = (
            f"put that section back into its config, and start it again; if it shall be no server any more: {eject}"
        )
        yield _unserved(name, because, remedy)
    elif isinstance(answer, UnavailableError):
        yield _unserved(name, f"node {node}: {answer}", f"start node {node}; if it does not come back: {eject}")
    elif isinstance(answer, VirtualLogError):
        remedy = (
            f"mend that (docs/howto/operate.md says what each reason means) and start node {node} again; or {eject}"
        )
        yield _unserved(name, f"node {node}: {answer}", remedy)


def _unserved(name: str, because: str, remedy: str) -> Finding:
    return Finding(
        topics=TOPICS,
        weight=Severity.WEAK,
        statement=f"replica {name} is in the view of the database, and no node serves it",
        because=(because,),
        next=remedy,
        node=node_of(name),
    )


def problems(found: Sequence[Finding]) -> list[str]:
    """Problems that an operator must solve, each in one line."""
    return [
        f"{finding.statement}{f' ({listed(finding.because)})' if finding.because else ''}"
        f"{f'. Next: {finding.next}' if finding.next else ''}"
        for finding in found
        if finding.weight >= Severity.WEAK
    ]
