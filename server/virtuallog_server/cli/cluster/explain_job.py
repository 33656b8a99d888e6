"""The work of `virtuallog explain`: gather evidence, draw conclusions, print both."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
import click

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import NodeId
from virtuallog.plugins import loglet_providers, metastore_provider
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import FAILED, WrongUsage
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.diagnosis.collector import gather, open_environment
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.evidence import LogEvidence, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, Topic, all_well, chosen, listed

_COLOURS: Final = {"WELL": "green", "NOTE": "cyan", "WEAK": "yellow", "TROUBLE": "bold red"}
_TOPICS: Final = ", ".join(topic.value for topic in Topic)


def explain(cluster: ClusterFile, subject: str | None, as_json: bool) -> None:
    """Print what the evidence says about the subject: a topic, a segment, or everything if None.

    Raises:
        WrongUsage: there is no such topic, and it names no segment.
        click.exceptions.Exit: not all is well.
    """
    topic, name = _parse(subject)
    log = event_loop.run(collect, cluster)
    segment = _find(log, name) if name is not None else None
    findings = chosen(conclude(log), topic, segment.id if segment else None)
    shown = [facts for facts in log.segments if _is_shown(facts, log, topic, segment)]
    if as_json:
        echo_json(_plain(log, findings, shown))
    else:
        _show(findings, shown, segment)
    if not all_well(findings):
        raise click.exceptions.Exit(FAILED)


def _parse(subject: str | None) -> tuple[Topic | None, int | SegmentId | None]:
    """The topic, or the position or id that names a segment. None for the one that is not given."""
    if subject is None:
        return None, None
    if subject in {topic.value for topic in Topic}:
        return Topic(subject), None
    with suppress(InvalidSettingError):
        return None, int(subject) if subject.isdecimal() else SegmentId.parse(subject)
    raise WrongUsage(f"'{subject}' is none of {_TOPICS}, and no segment (see `virtuallog explain --help`)")


async def collect(cluster: ClusterFile) -> LogEvidence:
    """Gather the evidence of this moment from all nodes of the cluster.

    Raises:
        UnavailableError: none of them answers, or the cluster is not bootstrapped.
    """
    cluster, providers, metastore = await with_all_nodes(cluster), loglet_providers(), metastore_provider()
    async with open_environment(cluster, providers, metastore) as environment:
        return await gather([NodeId(node.id) for node in cluster.nodes], providers, metastore, environment)


def _find(log: LogEvidence, name: int | SegmentId) -> Segment:
    """The segment with that id, or the one that holds that position."""
    chain = log.register.chain
    found = chain.segment_at(name) if isinstance(name, int) else chain.find(name)
    if found is None:
        raise InvalidSettingError(
            "segment", f"the chain has none of that name, or at that position: '{name}'; it starts at {chain.start}"
        )
    return found


def _is_shown(facts: SegmentFacts, log: LogEvidence, topic: Topic | None, segment: Segment | None) -> bool:
    """True if the evidence of this segment is printed.

    That is the named segment, all segments if the topic concerns all, else the last one.
    """
    if segment is not None:
        return facts.segment.id == segment.id
    return topic in {None, Topic.CHAIN, Topic.TRIM} or facts.segment.id == log.register.chain.last.id


def _plain(log: LogEvidence, findings: Sequence[Finding], shown: Sequence[SegmentFacts]) -> dict[str, Any]:
    return {
        "version": log.register.version,
        "well": all_well(findings),
        "findings": [plain_finding(finding) for finding in findings],
        "nodes": [_plain_node(log, node) for node in log.nodes],
        "members": [attrs.asdict(member) for member in log.members],
        "segments": [
            {
                "id": str(facts.segment.id),
                "kind": facts.segment.kind,
                "start": facts.segment.start,
                "stop": facts.segment.stop,
                "problem": facts.problem,
                "evidence": [attrs.asdict(piece) for piece in facts.evidence],
            }
            for facts in shown
        ],
    }


def plain_finding(finding: Finding) -> dict[str, Any]:
    """A finding as plain values."""
    return {
        "topics": [topic.value for topic in finding.topics],
        "weight": finding.weight.name.lower(),
        "statement": finding.statement,
        "because": list(finding.because),
        "next": finding.next,
        "segment": str(finding.segment) if finding.segment else None,
    }


def _plain_node(log: LogEvidence, node: NodeId) -> dict[str, Any]:
    facts = log.nodes[node]
    return {**attrs.asdict(facts), "roles": sorted(facts.roles)}


def _show(findings: Sequence[Finding], shown: Sequence[SegmentFacts], segment: Segment | None) -> None:
    from rich.console import Console  # takes longer than to ask the cluster

    console = Console(highlight=False, markup=True)
    for topic in Topic:
        told = [finding for finding in findings if finding.topics[0] is topic]
        if told:
            console.print(f"[bold]{topic.value}[/bold]")
        for finding in told:
            show_finding(console, finding)
    for facts in shown:
        _show_evidence(console, facts)


def show_finding(console: Any, finding: Finding) -> None:
    """Print a finding: its weight, its reasons, its next step."""
    from rich.markup import escape

    weight = finding.weight.name
    console.print(f"  [{_COLOURS[weight]}]{weight.lower():8}[/] {escape(finding.statement)}", soft_wrap=True)
    for reason in finding.because:
        console.print(f"           because: {escape(reason)}", soft_wrap=True)
    if finding.next:
        console.print(f"           next: {escape(finding.next)}", soft_wrap=True)


def _show_evidence(console: Any, facts: SegmentFacts) -> None:
    """Print one line for each source, so that the reader can draw other conclusions."""
    from rich.markup import escape

    if not facts.evidence:
        return
    segment = facts.segment
    stop = "open" if segment.stop is None else segment.stop
    console.print(f"[bold]evidence[/bold]: segment {segment.id}, {segment.kind}, {segment.start} to {stop}; offsets")
    for piece in facts.evidence:
        console.print(f"  {escape(piece.source)}: {escape(_line(piece))}", soft_wrap=True)


def _line(piece: Evidence) -> str:
    shown = {name: value for name, value in piece.facts.items() if name not in {"node", "orders"} and value is not None}
    facts = ", ".join(f"{name}={listed(value) if isinstance(value, list) else value}" for name, value in shown.items())
    return "; ".join(part for part in (facts, piece.problem) if part)
