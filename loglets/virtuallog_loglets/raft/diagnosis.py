"""Evidence about a raft loglet: what each replica knows, and the conclusion from all of them.

Sends `RaftGetStanding` only, which changes nothing: no seal, no vote (see `virtuallog.contract.diagnosis`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtuallog.admin.cluster_status import call_each
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import ANSWER_SECONDS, COMBINED, Evidence
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Environment, Outcome
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftConfig
from virtuallog_loglets.raft.messages import NO_NODE, RaftGetStanding, RaftStanding


async def explain(loglet: SegmentId, config: RaftConfig, environment: Environment) -> list[Evidence]:
    """See `SupportsDiagnosis.explain`; `loglet` is the id on the replicas."""
    answers = await call_each(environment.services, config.replicas, RaftGetStanding(segment=loglet), ANSWER_SECONDS)
    return [
        *(evidence_of_replica(replica, answer) for replica, answer in answers.items()),
        evidence_of_whole(config, answers),
    ]


def evidence_of_replica(replica: NodeId, answer: Outcome[RaftStanding]) -> Evidence:
    """Evidence from one replica's answer."""
    if isinstance(answer, VirtualLogError):
        return Evidence(f"node {replica}", {"node": replica}, str(answer))
    facts = {
        "node": replica,
        "role": answer.role,
        "state": answer.state,
        "term": answer.term,
        "tail": answer.tail,
        "sealed": answer.sealed,
        "trim": answer.trim,
        "full": answer.full,
        "commit index": answer.commit_index,
        "last index": answer.last_index,
    }
    full = "its disk has no room for another file: it takes no more records soon" if answer.full else ""
    return Evidence(f"node {replica}", facts, full)


def evidence_of_whole(config: RaftConfig, answers: Mapping[NodeId, Outcome[RaftStanding]]) -> Evidence:
    """Evidence about the loglet as a whole. One replica that knows it to be sealed is enough for that."""
    standings = {node: answer for node, answer in answers.items() if isinstance(answer, RaftStanding)}
    sealed = [standing for standing in standings.values() if standing.sealed]
    spare = max(len(standings) - config.quorum, len(sealed) - 1) if sealed else len(standings) - config.quorum
    leads = [(standing.term, standing.leader) for standing in standings.values() if standing.leader != NO_NODE]
    facts: dict[str, Any] = {"tail": None, "sealed": None, "trim": None, "spare": spare, "orders": []}
    if leads:
        facts["leads"] = max(leads)[1]
    if spare < 0:
        return Evidence(COMBINED, facts)
    tail = max(standing.tail for standing in standings.values())
    trims = sorted((standing.trim for standing in standings.values()), reverse=True)
    last = max(standing.last_index for standing in standings.values())
    facts |= {
        "tail": tail,
        "undecided": 0 if sealed else last - max(standing.commit_index for standing in standings.values()),
        "by": [f"node {node}" for node, standing in standings.items() if standing.tail >= tail],
        "sealed": bool(sealed),
        "trim": trims[min(config.quorum, len(trims)) - 1],
    }
    return Evidence(COMBINED, facts)
