"""Asks many nodes at once how they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

import trio

from virtuallog.admin.control import GetStatus, NodeStatus
from virtuallog.contract.errors import UnavailableError, VirtualLogError, WrongRecipientError
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.ports import Outcome, ReplyT, Request, Services
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId

ANSWER_SECONDS: Final = 1.0
"""A node that lives answers in a millisecond; one that takes a second is as good as dead to a planner."""

METASTORE_ROLE: Final = "metastore"
"""The role of an acceptor of the register. A node names it in the failures of its status once it is closed."""

_SILENT: Final = UnavailableError("it has not answered for a while")


async def call_each(
    services: Services, nodes: Iterable[NodeId], request: Request[ReplyT], timeout_seconds: float = ANSWER_SECONDS
) -> dict[NodeId, Outcome[ReplyT]]:
    """The answer of each node to the same request, or why there is none, in the order given; takes `timeout_seconds` at
    most."""
    answers: dict[NodeId, Outcome[ReplyT]] = dict.fromkeys(nodes, UnavailableError("no answer"))
    missing, finished = len(answers), trio.Event()
    if not answers:
        return answers

    def answered(node: NodeId) -> Callable[[Outcome[ReplyT]], None]:
        def done(outcome: Outcome[ReplyT]) -> None:
            nonlocal missing
            answers[node] = outcome
            missing -= 1
            if not missing:
                finished.set()

        return done

    for node in answers:
        services.post(node, request, answered(node), timeout_seconds)
    await finished.wait()
    return answers


async def fetch_statuses(
    services: Services, nodes: Iterable[NodeId], timeout_seconds: float = ANSWER_SECONDS
) -> dict[NodeId, Outcome[NodeStatus]]:
    """The status of each node, or why there is none, in the order given; takes `timeout_seconds` at most."""
    answers = await call_each(services, nodes, GetStatus(), timeout_seconds)
    return {node: _meant(node, outcome) for node, outcome in answers.items()}


def _meant(node: NodeId, outcome: Outcome[NodeStatus]) -> Outcome[NodeStatus]:
    if isinstance(outcome, VirtualLogError) or outcome.node == node:
        return outcome
    return WrongRecipientError("node", str(node), str(outcome.node))


async def fetch_cluster(
    services: Services, register: Register, planner: NodeId, silent: Collection[NodeId] = ()
) -> Cluster:
    """Which nodes of the register's table live, for a loglet provider to choose from. The `silent` ones are dead without
    being asked: waiting for them would be most of what a reconfiguration takes."""
    asked = await fetch_statuses(services, [node for node in sorted(register.nodes) if node not in silent])
    answers = {node: asked.get(node, _SILENT) for node in sorted(register.nodes)}
    return Cluster(members=tuple(_member(register, node, answer) for node, answer in answers.items()), planner=planner)


def _member(register: Register, node: NodeId, answer: Outcome[NodeStatus]) -> Member:
    """A node counts as alive if it is the one meant and serves every role that the table says it has. It may be able to do
    more: what it is used for is said by the table.

    One that has lost a role stays a candidate, only a dead one: else a planner would take it for a smaller cluster and
    keep fewer copies than before, silently.
    """
    entry = register.nodes[node]
    if (
        isinstance(answer, VirtualLogError)
        or entry.is_expected
        or answer.store_id != entry.store_id
        or not entry.roles.issubset(answer.roles)
    ):
        return Member(node=node, boot=0, roles=entry.roles, alive=False)
    votes = not any(failure.startswith(f"{METASTORE_ROLE}:") for failure in answer.failures)
    return Member(node=node, boot=answer.boot, roles=entry.roles, alive=True, votes=votes)
