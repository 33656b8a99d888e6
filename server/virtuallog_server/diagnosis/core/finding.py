"""A finding: one sentence with reasons and a next step."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId


class Topic(enum.Enum):
    """Topics of findings."""

    CHAIN = "chain"
    """The register, its members, the nodes."""
    APPEND = "append"
    TAIL = "tail"
    SEAL = "seal"
    """The open loglet: sealed or not, sealable or not, its successor."""
    TRIM = "trim"
    DATABASE = "database"
    """Its replicas, and the nodes that serve them."""


class Severity(enum.IntEnum):
    """Severity of a finding."""

    WELL = 0
    """As it should be."""
    NOTE = 1
    """Worth knowing; needs no action."""
    WEAK = 2
    """It works, and survives fewer failures than planned."""
    TROUBLE = 3
    """Something does not work now."""


@attrs.frozen(kw_only=True)
class Finding:
    """One finding."""

    topics: tuple[Topic, ...]
    """It is shown under the first topic, and selected by any."""
    weight: Severity
    statement: str
    because: tuple[str, ...] = ()
    """Observations, with their sources."""
    next: str = ""
    """Next step: what nodes will do, and when, or what an operator should do. Empty if nothing."""
    segment: SegmentId | None = None
    node: NodeId | None = None
    """Node that it is about. None if it is about none, or several."""


def chosen(findings: Iterable[Finding], topic: Topic | None, segment: SegmentId | None) -> list[Finding]:
    """The findings about a topic or a segment. All if neither is given."""
    return [
        finding
        for finding in findings
        if (topic is None or topic in finding.topics) and (segment is None or finding.segment == segment)
    ]


def all_well(findings: Iterable[Finding]) -> bool:
    """True if nothing is amiss. A log that was closed on purpose is well."""
    return all(finding.weight <= Severity.NOTE for finding in findings)


def listed(names: Sequence[object]) -> str:
    """'1, 2 and 3'."""
    words = [str(name) for name in names]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def nodes_text(nodes: Sequence[int]) -> str:
    """'node 2', 'nodes 1 and 3', 'no node'."""
    if not nodes:
        return "no node"
    return f"{'node' if len(nodes) == 1 else 'nodes'} {listed(nodes)}"
