"""What was found out, as one sentence with reasons and a next step.                                                  Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import attrs

from virtuallog.contract.chain import SegmentId


class Topic(enum.Enum):
    """What is asked about."""

    CHAIN = "chain"
    """The register, its members, the nodes."""
    APPEND = "append"
    TAIL = "tail"
    SEAL = "seal"
    """Whether the open loglet is sealed, could be sealed, has a successor."""
    TRIM = "trim"
    DATABASE = "database"
    """Its replicas, and the nodes that serve them."""


class Severity(enum.IntEnum):
    """How bad it is."""

    WELL = 0
    """As it should be."""
    NOTE = 1
    """Worth knowing; nobody has to do anything."""
    WEAK = 2
    """It works, and has less to lose than it was made for."""
    TROUBLE = 3
    """Something does not work now."""


@attrs.frozen(kw_only=True)
class Finding:
    """See above."""

    topics: tuple[Topic, ...]
    """It is shown with the first one, and found by any."""
    weight: Severity
    statement: str
    because: tuple[str, ...] = ()
    """What was seen, and who said so."""
    next: str = ""
    """Who will do what, and when, or what somebody should do; empty: nothing."""
    segment: SegmentId | None = None


def chosen(findings: Iterable[Finding], topic: Topic | None, segment: SegmentId | None) -> list[Finding]:
    """Those about a topic or a segment; all, if neither is given."""
    return [
        finding
        for finding in findings
        if (topic is None or topic in finding.topics) and (segment is None or finding.segment == segment)
    ]


def all_well(findings: Iterable[Finding]) -> bool:
    """Whether nothing is amiss. A log that was closed on purpose is as somebody wanted it."""
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
