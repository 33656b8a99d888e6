"""The chain as a timeline, with the findings of `virtuallog explain` on the segments and nodes that they are about.

Gathering asks each node, each member of the MetaStore and each loglet of the chain once, all at the same time, and ends after `SECONDS`. The
register bounds the number of segments: some hundred at most. Without any answer the view shows the chain as this client knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog.contract.metastore import MetaStoreProvider
from virtuallog.contract.provider import LogletProvider, servers_of
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog_server.diagnosis.collector import gather
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.evidence import LogEvidence, NodeFacts, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, all_well

SECONDS: Final = 10.0
"""Time after which the view is shown without answers: twice that of a collection in which some nodes are silent."""
ARCHIVE: Final = "archive"
"""Kind of the segments that are archived."""


@attrs.frozen(kw_only=True)
class FindingRow:
    """One finding of the diagnosis."""

    weight: str
    """`well`, `note`, `weak` or `trouble`."""
    topics: tuple[str, ...]
    statement: str
    because: tuple[str, ...] = ()
    """Observations, with their sources."""
    next: str = ""
    """Next step of nodes or of an operator. Empty if there is none."""


@attrs.frozen(kw_only=True)
class SourceRow:
    """Report of one source of a loglet, or of one member of the MetaStore. Facts of a loglet are offsets in it."""

    source: str
    facts: Mapping[str, object] = attrs.field(factory=dict)
    problem: str = ""


@attrs.frozen(kw_only=True)
class SegmentRow:
    """One segment."""

    id: str
    kind: str
    start: int
    stop: int | None
    """None while it is open."""
    size: int | None
    """Number of positions, up to the tail if it is open. None if the tail is not known."""
    state: str
    """`active`, `sealed`, `archived`, or `trimmed`: wholly, and still in the chain."""
    trimmed_to: int
    """Position below which it is trimmed; `start` if nothing of it is."""
    servers: tuple[int, ...]
    """Nodes that have copies. Empty if its kind keeps none on nodes, or is not installed here."""
    config: Mapping[str, object]
    """Its config in the words of its kind."""
    findings: tuple[FindingRow, ...] = ()
    evidence: tuple[SourceRow, ...] = ()
    problem: str = ""
    """Reason why there is no evidence. Empty if there is."""


@attrs.frozen(kw_only=True)
class ChainNodeRow:
    """One node of the register's table, as the chain needs it."""

    node: int
    roles: tuple[str, ...] = ()
    boot: int = 0
    version: int = 0
    """Version of the register that it knows. 0 if it knows none, or was not asked."""
    is_expected: bool = False
    """True if the register waits for a new data directory in its place."""
    problem: str = ""
    """Reason why it is of no use. Empty if it is there."""
    findings: tuple[FindingRow, ...] = ()


@attrs.frozen(kw_only=True)
class ChainView:
    """The chain, and why it is as it is."""

    version: int = 0
    """Version of the register, which is that of the chain."""
    cluster: str = ""
    level: int = 0
    """Version of the protocol that all nodes have announced."""
    has_database: bool = False
    guarded: int = 0
    """Version from which on only nodes and admins append; 0 if clients may."""
    start: int = 0
    """First position of the chain: everything below is trimmed away."""
    tail: int | None = None
    """First unwritten position. None if it is not known."""
    is_closed: bool = False
    """True if the log was closed on purpose."""
    is_well: bool = True
    """True if no finding asks for action."""
    segments: tuple[SegmentRow, ...] = ()
    """Oldest first."""
    nodes: tuple[ChainNodeRow, ...] = ()
    members: tuple[SourceRow, ...] = ()
    """Members of the MetaStore."""
    findings: tuple[FindingRow, ...] = ()
    """Findings that are about no segment and no node in particular."""
    problem: str = ""
    """Reason why the view is not whole. Empty if it is."""


async def read_chain(log: VirtualLog, metastore: MetaStoreProvider) -> ChainView:
    """Gather evidence from all that the newest known register names, and draw the conclusions."""
    known, problem = log.view.cached, f"no answer within {SECONDS:g} s"
    with log.view.environment.clock.timeout(SECONDS):
        try:
            known = await log.view.current()
            nodes = sorted(known.nodes)
            return describe(
                await gather(nodes, log.view.providers, metastore, log.view.environment), log.view.providers
            )
        except VirtualLogError as error:
            problem = str(error)
    return ChainView(problem=problem) if known is None else describe_known(known, log.view.providers, problem)


def describe(evidence: LogEvidence, providers: Mapping[str, LogletProvider]) -> ChainView:
    """The view of this evidence."""
    findings = conclude(evidence)
    segments = tuple(_segment_row(facts, providers, _about(findings, facts.segment.id)) for facts in evidence.segments)
    nodes = tuple(_node_row(facts, evidence.register, findings) for _, facts in sorted(evidence.nodes.items()))
    known_nodes = {row.node for row in nodes}
    rest = [each for each in findings if each.segment is None and each.node not in known_nodes]
    return attrs.evolve(
        _head(evidence.register),
        tail=_tail(evidence),
        is_well=all_well(findings),
        segments=segments,
        nodes=nodes,
        members=tuple(map(_source_row, evidence.members)),
        findings=_rows(rest),
    )


def describe_known(register: Register, providers: Mapping[str, LogletProvider], problem: str) -> ChainView:
    """The view of a register alone, for a client whose questions are not answered."""
    facts = [SegmentFacts(segment=segment, problem="it was not asked") for segment in register.chain.segments]
    return attrs.evolve(
        _head(register),
        tail=register.chain.last.stop,
        is_well=False,
        segments=tuple(_segment_row(each, providers, ()) for each in facts),
        nodes=tuple(
            ChainNodeRow(
                node=node, roles=tuple(sorted(entry.roles)), is_expected=entry.is_expected, problem="it was not asked"
            )
            for node, entry in sorted(register.nodes.items())
        ),
        members=tuple(SourceRow(source=f"node {member}", problem="it was not asked") for member in register.members),
        problem=problem,
    )


def _head(register: Register) -> ChainView:
    return ChainView(
        version=register.version,
        cluster=register.cluster.hex(),
        level=register.level,
        has_database=register.database,
        guarded=register.guarded,
        start=register.chain.start,
        is_closed=register.chain.active is None,
    )


def _tail(evidence: LogEvidence) -> int | None:
    if evidence.active is None:
        return evidence.register.chain.last.stop
    return evidence.active.position("tail")


def _segment_row(
    facts: SegmentFacts, providers: Mapping[str, LogletProvider], findings: Sequence[Finding]
) -> SegmentRow:
    segment = facts.segment
    trimmed_to = facts.position("trim") or segment.start
    stop = facts.position("tail") if segment.stop is None else segment.stop
    config, servers = _config(segment, providers.get(segment.kind))
    return SegmentRow(
        id=str(segment.id),
        kind=segment.kind,
        start=segment.start,
        stop=segment.stop,
        size=None if stop is None else stop - segment.start,
        state=_state(segment, trimmed_to),
        trimmed_to=trimmed_to,
        servers=servers,
        config=config,
        findings=_rows(findings),
        evidence=tuple(map(_source_row, facts.evidence)),
        problem=facts.problem,
    )


def _state(segment: Segment, trimmed_to: int) -> str:
    if segment.stop is None:
        return "active"
    if segment.start < segment.stop <= trimmed_to:
        return "trimmed"
    return "archived" if segment.kind == ARCHIVE else "sealed"


def _config(segment: Segment, provider: LogletProvider | None) -> tuple[Mapping[str, object], tuple[int, ...]]:
    """The config in plain values and the servers in it. Its size if the kind is not installed here."""
    if provider is None:
        return {"bytes": len(segment.config)}, ()
    try:
        return dict(provider.describe(segment.config)), tuple(sorted(servers_of(provider, segment.config)))
    except MalformedError as error:
        return {"unreadable": str(error)}, ()


def _node_row(facts: NodeFacts, register: Register, findings: Sequence[Finding]) -> ChainNodeRow:
    node = facts.node
    roles = facts.roles or (register.nodes[node].roles if node in register.nodes else frozenset())
    return ChainNodeRow(
        node=node,
        roles=tuple(sorted(roles)),
        boot=facts.boot,
        version=facts.version,
        is_expected=facts.is_expected,
        problem=facts.problem,
        findings=_rows(_about_node(findings, node)),
    )


def _source_row(evidence: Evidence) -> SourceRow:
    return SourceRow(source=evidence.source, facts=evidence.facts, problem=evidence.problem)


def _about(findings: Sequence[Finding], segment: SegmentId) -> list[Finding]:
    return [finding for finding in findings if finding.segment == segment]


def _about_node(findings: Sequence[Finding], node: NodeId) -> list[Finding]:
    return [finding for finding in findings if finding.node == node and finding.segment is None]


def _rows(findings: Sequence[Finding]) -> tuple[FindingRow, ...]:
    """The findings, the heaviest first, each once."""
    unique = list({(each.weight, each.statement): each for each in findings}.values())
    return tuple(
        FindingRow(
            weight=each.weight.name.lower(),
            topics=tuple(topic.value for topic in each.topics),
            statement=each.statement,
            because=each.because,
            next=each.next,
        )
        for each in sorted(unique, key=lambda each: -each.weight)
    )
