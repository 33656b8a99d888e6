"""What a native loglet says of itself: the state of each LogServer, and what a majority of them makes of it.

Asks `GetState` only, which changes nothing (see `virtuallog.explaining`). So this is no tail check: it neither seals nor
repairs, and what is in flight it leaves undecided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtuallog.chain import SegmentId
from virtuallog.errors import VirtualLogError
from virtuallog.explaining import ANSWER_SECONDS, TOGETHER, Evidence
from virtuallog.ports import Environment, Outcome
from virtuallog.survey import ask_each
from virtuallog.types import NodeId
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.messages import GetState, State
from virtuallog_loglets.native.quorum import committed_tail


async def explain(loglet: SegmentId, config: NativeConfig, environment: Environment) -> list[Evidence]:
    """See `ExplainsLoglets.explain`; `loglet` is the id on the servers."""
    answers = await ask_each(environment.services, config.servers, GetState(segment=loglet), ANSWER_SECONDS)
    return [*(of_server(server, answer) for server, answer in answers.items()), together(config, answers)]


def of_server(server: NodeId, answer: Outcome[State]) -> Evidence:
    """What one LogServer says."""
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


def together(config: NativeConfig, answers: Mapping[NodeId, Outcome[State]]) -> Evidence:
    """What they say as a whole."""
    states = {server: answer for server, answer in answers.items() if isinstance(answer, State)}
    spare = len(states) - config.majority
    orders = [{"node": config.sequencer, "boot": config.boot}]
    if spare < 0:
        return Evidence(TOGETHER, {"tail": None, "sealed": None, "trim": None, "spare": spare, "orders": orders})
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
    return Evidence(TOGETHER, facts)


def _sealed(bits: list[bool], majority: int) -> bool | None:
    return True if sum(bits) >= majority else None if any(bits) else False
