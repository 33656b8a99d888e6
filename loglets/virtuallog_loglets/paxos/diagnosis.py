"""Diagnosis of a paxos loglet: the state of each replica, and the conclusion from a quorum of them.

Asks `GetStanding` only (see `virtuallog.contract.diagnosis`). A replica that the chain names and that does not exist yet
is created by that, as by any other question. Positions in flight stay undecided: nothing is settled and no election
starts.
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
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.core.tail_check import decided_to, newest_of
from virtuallog_loglets.paxos.messages import NO_NODE, NOWHERE, GetStanding, Standing, Status
from virtuallog_loglets.paxos.offsets import offset_of


async def explain(loglet: SegmentId, config: PaxosConfig, environment: Environment) -> list[Evidence]:
    """Evidence of each replica and of the whole; see `SupportsDiagnosis.explain`.

    `loglet` is the id on the replicas.
    """
    answers = await call_each(environment.services, config.replicas, GetStanding(segment=loglet), ANSWER_SECONDS)
    return [
        *(evidence_of_replica(replica, answer) for replica, answer in answers.items()),
        evidence_of_whole(config, answers),
    ]


async def partial_replicas(loglet: SegmentId, config: PaxosConfig, environment: Environment) -> set[NodeId]:
    """Replicas that do not report everything they may have accepted: they recover, wait for a copy or do not answer."""
    answers = await call_each(environment.services, config.replicas, GetStanding(segment=loglet), ANSWER_SECONDS)
    return {node for node, answer in answers.items() if not (isinstance(answer, Standing) and _is_whole(answer))}


def _is_whole(standing: Standing) -> bool:
    """True if the replica votes, or has a whole copy of a closed log, which needs no vote."""
    return standing.status is Status.VOTING or standing.seal != NOWHERE


def evidence_of_replica(replica: NodeId, answer: Outcome[Standing]) -> Evidence:
    """Evidence from the answer of one replica."""
    if isinstance(answer, VirtualLogError):
        return Evidence(f"node {replica}", {"node": replica}, str(answer))
    facts = {
        "node": replica,
        "status": answer.status.name.lower(),
        "tail": offset_of(answer.learned),
        "sealed": answer.seal != NOWHERE,
        "trim": answer.trim,
        "full": answer.full,
        "learned": answer.learned,
        "end": answer.end,
        "promised": answer.promised,
    }
    return Evidence(f"node {replica}", facts, _problem(answer))


def _problem(standing: Standing) -> str:
    if standing.full:
        return "its disk is nearly full: it takes no more data"
    if _is_whole(standing):
        return ""
    return f"does not vote: it is {standing.status.name.lower()}, until it has recovered from a majority of others"


def evidence_of_whole(config: PaxosConfig, answers: Mapping[NodeId, Outcome[Standing]]) -> Evidence:
    """Evidence from all answers together. A replica with a whole copy of a closed log is enough by itself."""
    standings = newest_of({node: answer for node, answer in answers.items() if isinstance(answer, Standing)})
    voting = [standing for standing in standings.values() if standing.status is Status.VOTING]
    whole = [standing for standing in standings.values() if standing.seal != NOWHERE]
    spare = max(len(voting) - config.quorum, len(whole) - 1) if whole else len(voting) - config.quorum
    facts: dict[str, Any] = {"tail": None, "sealed": None, "trim": None, "spare": spare, "orders": []}
    if spare >= 0:
        facts |= _established(standings, config.quorum)
    leader = max(standings.values(), key=lambda standing: standing.promised, default=None)
    if leader is not None and leader.coordinator != NO_NODE:
        facts["leads"] = leader.coordinator
    return Evidence(COMBINED, facts)


def _established(standings: Mapping[NodeId, Standing], quorum: int) -> dict[str, Any]:
    seal = max(standing.seal for standing in standings.values())
    decided, seal = (seal, seal) if seal != NOWHERE else decided_to(list(standings.values()), quorum)
    end = seal if seal != NOWHERE else decided + 1
    is_sealing = any(standing.seal_seen != NOWHERE for standing in standings.values())
    trims = sorted((standing.trim for standing in standings.values()), reverse=True)
    last = max(standing.end for standing in standings.values())  # position 0 holds no user data
    return {
        "tail": offset_of(end),
        "undecided": max(0, last - max(decided, 0)) if seal == NOWHERE else 0,
        "by": [
            f"node {node}" for node, standing in standings.items() if max(standing.learned, standing.end + 1) >= end
        ],
        "sealed": True if seal != NOWHERE else None if is_sealing else False,
        "trim": trims[min(quorum, len(trims)) - 1],
    }
