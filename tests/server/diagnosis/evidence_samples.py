"""Pictures of a small cluster, made of what servers might say; the evidence is put together as the kinds do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId
from virtuallog_loglets.native import diagnosis as native
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.messages import NativeState
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.evidence import LogEvidence, NodeFacts, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, Topic, chosen

NODES = (NodeId(1), NodeId(2), NodeId(3))
CONFIG = NativeConfig(servers=NODES, sequencer=NodeId(1), boot=7)
SILENT = UnavailableError("no answer")
OPEN = SegmentId(2, 0xB)
"""Id of the open segment, from 100 on."""
CLOSED = SegmentId(1, 0xA)
"""Id of the segment before, from 0 to 100."""


def state(
    tail: int = 10, *, known: int | None = None, sealed: bool = False, trim: int = 0, full: bool = False
) -> NativeState:
    return NativeState(
        local_tail=tail, sealed=sealed, known_tail=tail if known is None else known, trim=trim, full=full
    )


def native_evidence(answers: Sequence[NativeState | None]) -> tuple[Evidence, ...]:
    """Evidence of a loglet on nodes 1, 2, ... None for a silent node."""
    outcomes = {node: answer or SILENT for node, answer in zip(NODES, answers, strict=True)}
    servers = [native.evidence_of_server(node, outcome) for node, outcome in outcomes.items()]
    return (*servers, native.evidence_of_whole(CONFIG, outcomes))


def segment(identity: SegmentId, start: int, stop: int | None, kind: str = "native", base: int = 0) -> Segment:
    end = None if stop is None else LogPosition(stop)
    return Segment(
        id=identity, kind=kind, config=CONFIG.encode(), start=LogPosition(start), stop=end, base=LogletOffset(base)
    )


def register(*segments: Segment, version: int = 2, level: int = 3) -> Register:
    entries = {
        node: NodeEntry(store_id=bytes([node]) * 16, addresses=(f"127.0.0.1:{7000 + node}",), roles=frozenset())
        for node in NODES
    }
    return Register(
        cluster=ClusterId(b"c" * 16), chain=Chain(version, segments), members=NODES, nodes=entries, level=level
    )


def node(number: int, *, version: int = 2, **facts: Any) -> NodeFacts:
    return NodeFacts(node=NodeId(number), **{"boot": 7, "version": version, "protocol": 3, **facts})


def member(number: int, version: int = 2, *, accepted: bool = False) -> Evidence:
    return Evidence(f"member {number}", {"node": number, "version": version, "accepted": accepted})


def picture(
    answers: Sequence[NativeState | None] = (state(), state(), state()),
    *,
    before: Sequence[NativeState | None] = (state(100), state(100), state(100)),
    dead: Sequence[int] = (),
    more: Mapping[int, NodeFacts] | None = None,
    **others: Any,
) -> LogEvidence:
    """A closed segment, an open one, and three nodes, of which the dead ones neither answer nor vote."""
    closed, active = segment(CLOSED, 0, 100), segment(OPEN, 100, None)
    nodes = {number: node(number) for number in NODES}
    nodes |= {NodeId(number): NodeFacts(node=NodeId(number), problem="no answer") for number in dead}
    nodes |= {NodeId(number): facts for number, facts in (more or {}).items()}
    made = LogEvidence(
        register=register(closed, active),
        nodes=nodes,
        members=tuple(
            Evidence(f"member {number}", {"node": number}, "no answer") if number in dead else member(number)
            for number in NODES
        ),
        segments=(
            SegmentFacts(segment=closed, evidence=native_evidence(before)),
            SegmentFacts(segment=active, evidence=native_evidence(answers)),
        ),
        look_seconds=(0.5, 1.5),
        grace_seconds=(1.0, 1.5),
    )
    return attrs.evolve(made, **others)


def about(found: LogEvidence, topic: Topic) -> list[Finding]:
    return chosen(conclude(found), topic, None)


def the(findings: Sequence[Finding], words: str) -> Finding:
    """The one finding that says this."""
    told = [finding for finding in findings if words in finding.statement]
    assert len(told) == 1, f"{words!r} is said {len(told)} times by {[finding.statement for finding in findings]}"
    return told[0]
