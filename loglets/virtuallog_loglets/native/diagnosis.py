"""Evidence about a native loglet: the state of each log server, and the conclusion from a majority.

Sends `NativeGetState` only, which changes nothing (see `virtuallog.contract.diagnosis`). It is no
tail check: it neither seals nor repairs, and it does not decide what is in flight.
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
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core.quorum import committed_tail
from virtuallog_loglets.native.messages import NativeGetState, NativeState


async def explain(loglet: SegmentId, config: NativeConfig, environment: Environment) -> list[Evidence]:
    """See `SupportsDiagnosis.explain`; `loglet` is the id on the servers."""
    answers = await call_each(environment.services, config.servers, NativeGetState(segment=loglet), ANSWER_SECONDS)
    return [
        *(evidence_of_server(server, answer) for server, answer in answers.items()),
        evidence_of_whole(config, answers),
    ]


def evidence_of_server(server: NodeId, answer: Outcome[NativeState]) -> Evidence:
    """Evidence from one log server's answer."""
    if isinstance(answer, VirtualLogError):
        return Evidence(f"node {server}", {"node": server}, str(answer))
    facts = {
        "node": server,
        "tail": answer.local_tail,
        "known_tail": answer.known_tail,
        "sealed": answer.sealed,
        "trim": answer.trim,
        "full": answer.full,
    }
    return Evidence(
        f"node {server}",
        facts,
        "its disk has no room for another file: it takes no more entries soon" if answer.full else "",
    )


def evidence_of_whole(config: NativeConfig, answers: Mapping[NodeId, Outcome[NativeState]]) -> Evidence:
    """Evidence about the loglet as a whole, combined from all answers."""
    states = {server: answer for server, answer in answers.items() if isinstance(answer, NativeState)}
    spare = len(states) - config.majority
    orders = [{"node": config.sequencer, "boot": config.boot}]
    if spare < 0:
        return Evidence(COMBINED, {"tail": None, "sealed": None, "trim": None, "spare": spare, "orders": orders})
    tails = {server: state.local_tail for server, state in states.items()}
    known = max(state.known_tail for state in states.values())
    tail = max(known, committed_tail(list(tails.values()), len(config.servers)))
    trims = sorted((state.trim for state in states.values()), reverse=True)
    facts: dict[str, Any] = {
        "tail": tail,
        "undecided": max(max(tails.values()) - tail, 0),
        "by": [f"node {server}" for server, state in states.items() if max(state.local_tail, state.known_tail) >= tail],
        "sealed": _sealed([state.sealed for state in states.values()], config.majority),
        "trim": trims[config.majority - 1],
        "spare": spare,
        "orders": orders,
    }
    return Evidence(COMBINED, facts)


def _sealed(bits: list[bool], majority: int) -> bool | None:
    return True if sum(bits) >= majority else None if any(bits) else False
