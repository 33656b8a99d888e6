"""All evidence of one moment, with what every conclusion needs of it.                                                Pure."""

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
    """What a node says of itself."""

    node: NodeId
    problem: str = ""
    """Why it is of no use: it does not answer, or is not the one that the register means. Empty: it is there."""
    is_expected: bool = False
    """The register waits for a new data directory in its place."""
    boot: int = 0
    version: int = 0
    """Of the register, as it knows it; 0: it knows none."""
    protocol: int = 0
    roles: frozenset[str] = frozenset()
    failures: tuple[str, ...] = ()
    healing: tuple[str, ...] = ()


def said(source: str, problem: str) -> str:
    """Whose problem it is, said once: the errors of a node begin with its name."""
    return problem if problem.startswith(source) else f"{source}: {problem}"


@attrs.frozen(kw_only=True)
class SegmentFacts:
    """A segment, and what its loglet says."""

    segment: Segment
    evidence: tuple[Evidence, ...] = ()
    problem: str = ""
    """Why there is none; then none of the conclusions about the loglet can be drawn."""

    @property
    def parts(self) -> Sequence[Evidence]:
        return [piece for piece in self.evidence if piece.source != COMBINED]

    @property
    def groups(self) -> Sequence[Sequence[Evidence]]:
        """Parts that have the same: all, unless the loglet consists of others ("stripe 1, node 3")."""
        found: dict[str, list[Evidence]] = {}
        for part in self.parts:
            found.setdefault(part.source.rpartition(", ")[0], []).append(part)
        return list(found.values())

    @property
    def together(self) -> Mapping[str, Any]:
        return next((piece.facts for piece in self.evidence if piece.source == COMBINED), {})

    @property
    def silent(self) -> Sequence[Evidence]:
        """Those that did not answer."""
        return [part for part in self.parts if part.problem and not part.facts.keys() - {"node"}]

    @property
    def unwell(self) -> Sequence[Evidence]:
        """Those that answered, and have a problem. A full disk is none: it matters only to whoever appends (`full`)."""
        return [part for part in self.parts if part.problem and part not in self.silent and part not in self.full]

    @property
    def full(self) -> Sequence[Evidence]:
        """Those without room for more."""
        return [part for part in self.parts if part.facts.get("full")]

    @property
    def spare(self) -> int | None:
        """See `virtuallog.contract.diagnosis`; None: the kind does not say."""
        return self.together.get("spare")

    @property
    def remedy(self) -> str:
        """What a person does about those that do not answer or are damaged; empty: nodes of ours can do nothing."""
        if self.spare is not None:
            return "start what is silent"
        if any("release_at_ms" in part.facts for part in self.parts):
            return f"`virtuallog archive {self.segment.id} --undo` puts the nodes' own copy back, while they keep it"
        return ""

    @property
    def is_reachable(self) -> bool:
        """Whether enough answer for a seal and a tail."""
        return self.together.get("tail") is not None if self.spare is None else self.spare >= 0

    def position(self, fact: str) -> LogPosition | None:
        """An offset that they agree on, as a position, within the segment."""
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
        """Their problems, one by one."""
        return tuple(said(part.source, part.problem) for part in parts)

    @property
    def committed(self) -> LogPosition:
        """Below it everything is part of the log, as far as anybody who answers knows."""
        known = max((part.facts.get("known_tail", 0) for part in self.parts), default=0)
        return max(self.segment.start, self.segment.position(known))


@attrs.frozen(kw_only=True)
class LogEvidence:
    """See above."""

    register: Register
    """The newest that anybody has shown."""
    nodes: Mapping[NodeId, NodeFacts]
    """Of each node in its table."""
    members: tuple[Evidence, ...] = ()
    """What each member of the MetaStore says (`SupportsRegisterDiagnosis`)."""
    segments: tuple[SegmentFacts, ...] = ()
    """All of the chain, oldest first."""
    since: Mapping[str, int] = attrs.field(factory=dict)
    """From which level of the cluster on a kind may be used, of those that are installed here."""
    database: DatabaseFacts | None = None
    """What each node says of the database; None: they were not asked."""
    now_ms: int = 0
    look_seconds: tuple[float, float] = (0.0, 0.0)
    """Between two looks of a node's watchdog at the open loglet, at least and at most."""
    grace_seconds: tuple[float, float] = (0.0, 0.0)
    """How long it then waits for whoever began a change."""

    @property
    def active(self) -> SegmentFacts | None:
        """The open segment; None: the log is closed."""
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
        """How many of the members that answer could fail as well, and the chain could still change; below 0: it cannot now."""
        return len(self.members) - len(self.silent_members) - (len(self.members) // 2 + 1)
