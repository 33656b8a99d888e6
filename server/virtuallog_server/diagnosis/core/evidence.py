"""All evidence of one moment, with the values that every conclusion needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from virtuallog.contract.chain import Segment
from virtuallog.contract.diagnosis import COMBINED, Evidence
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_server.diagnosis.core.database import DatabaseFacts

NO_DIAGNOSIS: Final = "this kind says nothing about itself"


@attrs.frozen(kw_only=True)
class NodeFacts:
    """A node's answer about itself."""

    node: NodeId
    problem: str = ""
    """Reason why it is of no use: it does not answer, or is not the one that the register means. Empty if it is there."""
    is_expected: bool = False
    """True if the register waits for a new data directory in its place."""
    boot: int = 0
    version: int = 0
    """Version of the register, as the node knows it. 0 if it knows none."""
    protocol: int = 0
    """Newest version of the protocol that it speaks; its config may hold it back."""
    software: str = ""
    """Version of its program."""
    roles: frozenset[str] = frozenset()
    failures: tuple[str, ...] = ()
    healing: tuple[str, ...] = ()


def said(source: str, problem: str) -> str:
    """A problem with its source, named once: the errors of a node begin with its name."""
    return problem if problem.startswith(source) else f"{source}: {problem}"


@attrs.frozen(kw_only=True)
class SegmentFacts:
    """A segment, and the answers of its loglet."""

    segment: Segment
    evidence: tuple[Evidence, ...] = ()
    problem: str = ""
    """Reason why there is no evidence. Then no conclusion about the loglet is possible."""
    lost: frozenset[NodeId] = frozenset()
    """Servers without a copy, as their data directory joined later. They have one once the segment has been rebuilt."""

    @property
    def parts(self) -> Sequence[Evidence]:
        return [piece for piece in self.evidence if piece.source != COMBINED]

    @property
    def groups(self) -> Sequence[Sequence[Evidence]]:
        """Parts with the same content: all, unless the loglet consists of others ("stripe 1, node 3")."""
        found: dict[str, list[Evidence]] = {}
        for part in self.parts:
            found.setdefault(part.source.rpartition(", ")[0], []).append(part)
        return list(found.values())

    @property
    def together(self) -> Mapping[str, Any]:
        return next((piece.facts for piece in self.evidence if piece.source == COMBINED), {})

    @property
    def silent(self) -> Sequence[Evidence]:
        """Parts that did not answer."""
        return [part for part in self.parts if part.problem and not part.facts.keys() - {"node"}]

    @property
    def unwell(self) -> Sequence[Evidence]:
        """Parts that answered, and have a problem. A full disk does not count: it matters to appends only (`full`)."""
        return [part for part in self.parts if part.problem and part not in self.silent and part not in self.full]

    @property
    def full(self) -> Sequence[Evidence]:
        """Parts without room for more."""
        return [part for part in self.parts if part.facts.get("full")]

    @property
    def spare(self) -> int | None:
        """Number of further failures that the loglet survives (`virtuallog.contract.diagnosis`). None if the kind does not say."""
        return self.together.get("spare")

    @property
    def remedy(self) -> str:
        """Action of an operator for silent or damaged parts. Empty if nodes of the cluster can be repaired as usual."""
        if self.spare is not None:
            return "start what is silent"
        if any("release_at_ms" in part.facts for part in self.parts):
            return f"`virtuallog archive {self.segment.id} --undo` puts the nodes' own copy back, while they keep it"
        return ""

    @property
    def is_reachable(self) -> bool:
        """True if enough parts answer for a seal and a tail."""
        return self.together.get("tail") is not None if self.spare is None else self.spare >= 0

    def position(self, fact: str) -> LogPosition | None:
        """An offset that the parts agree on, as a position, within the segment."""
        offset = self.together.get(fact)
        if offset is None:
            return None
        segment = self.segment
        position = max(segment.start, segment.position(offset))
        return LogPosition(position if segment.stop is None else min(position, segment.stop))

    def counted(self) -> str:
        """'1 of 3 answers'."""
        answering = len(self.parts) - len(self.silent)
        return f"{answering} of {len(self.parts)} {'answers' if answering == 1 else 'answer'}"

    def says(self, parts: Sequence[Evidence]) -> tuple[str, ...]:
        """Problems of the parts, one by one."""
        return tuple(said(part.source, part.problem) for part in parts)

    @property
    def committed(self) -> LogPosition:
        """Position below which everything is part of the log, as far as the answering parts know."""
        known = max((part.facts.get("known_tail", 0) for part in self.parts), default=0)
        return max(self.segment.start, self.segment.position(known))


@attrs.frozen(kw_only=True)
class LogEvidence:
    """The evidence about a log."""

    register: Register
    """The newest register in all answers."""
    nodes: Mapping[NodeId, NodeFacts]
    """Each node in the register's table."""
    members: tuple[Evidence, ...] = ()
    """Answers of the MetaStore's members (`SupportsRegisterDiagnosis`)."""
    segments: tuple[SegmentFacts, ...] = ()
    """All segments of the chain, oldest first."""
    since: Mapping[str, int] = attrs.field(factory=dict)
    """Installed kind -> level of the cluster from which it may be used."""
    database: DatabaseFacts | None = None
    """Answers about the database. None if the nodes were not asked."""
    now_ms: int = 0
    look_seconds: tuple[float, float] = (0.0, 0.0)
    """Time between two looks of a node's watchdog at the open loglet, least and most."""
    grace_seconds: tuple[float, float] = (0.0, 0.0)
    """Time that it then waits for the node that began a change, least and most."""

    @property
    def active(self) -> SegmentFacts | None:
        """The open segment. None if the log is closed."""
        return next((facts for facts in self.segments if facts.segment.stop is None), None)

    @property
    def living(self) -> list[NodeId]:
        """Nodes that answer and know the register: they look after the chain."""
        return [node for node, facts in sorted(self.nodes.items()) if not facts.problem and facts.version > 0]

    def lives(self, node: NodeId) -> bool:
        facts = self.nodes.get(node)
        return facts is not None and not facts.problem

    @property
    def silent_members(self) -> list[Evidence]:
        return [member for member in self.members if member.problem]

    @property
    def spare_members(self) -> int:
        """Number of further members that could fail while the chain can still change. Below 0 it cannot change now."""
        return len(self.members) - len(self.silent_members) - (len(self.members) // 2 + 1)
