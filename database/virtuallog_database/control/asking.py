"""Asks one replica of the database that serves: whatever is in the state, or gets there, is the same at all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from virtuallog.errors import UnavailableError, VirtualLogError
from virtuallog.ports import Outcome, ReplyT, Request, Services
from virtuallog.survey import ask_each
from virtuallog.types import NodeId
from virtuallog_database.control.messages import SERVING, DatabaseStatus, GetDatabaseStatus

ANSWER_SECONDS: Final = 10.0
"""For one question; each is an entry in the log at most."""


async def ask_one(services: Services, nodes: Iterable[NodeId], request: Request[ReplyT]) -> ReplyT:
    """The answer of one replica that serves.

    Raises:
        UnavailableError: none does, or it did not answer in time: the outcome is unknown.
        VirtualLogError: what it answered.
    """
    answers = await statuses(services, nodes)
    for node, answer in answers.items():
        if not isinstance(answer, VirtualLogError) and answer.state == SERVING:
            return await services.call(node, request, ANSWER_SECONDS)
    reasons = "; ".join(f"node {node}: {_reason(answer)}" for node, answer in answers.items())
    raise UnavailableError(f"no server of a database can be used ({reasons})")


async def statuses(services: Services, nodes: Iterable[NodeId]) -> Mapping[NodeId, Outcome[DatabaseStatus]]:
    """Of each of these nodes, or why there is none."""
    return await ask_each(services, nodes, GetDatabaseStatus())


def _reason(answer: Outcome[DatabaseStatus]) -> str:
    return str(answer) if isinstance(answer, VirtualLogError) else answer.waiting_for or answer.state
