"""Status of many nodes at once, and the live nodes for a planner."""

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
"""Time limit of a status. A live node answers in a millisecond; a planner takes a slower one for dead."""

METASTORE_ROLE: Final = "metastore"
"""Role of an acceptor of the register. A node whose acceptor is closed names it in the failures of its status."""

_SILENT: Final = UnavailableError("it has not answered for a while")


async def call_each(
    services: Services, nodes: Iterable[NodeId], request: Request[ReplyT], timeout_seconds: float = ANSWER_SECONDS
) -> dict[NodeId, Outcome[ReplyT]]:
    """Ask all nodes the same; returns the answer or the error of each, in the order given.

    Takes `timeout_seconds` at most.
    """
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
    """Status or error of each node, in the order given; takes `timeout_seconds` at most."""
    answers = await call_each(services, nodes, GetStatus(), timeout_seconds)
    return {node: _meant(node, outcome) for node, outcome in answers.items()}


def _meant(node: NodeId, outcome: Outcome[NodeStatus]) -> Outcome[NodeStatus]:
    if isinstance(outcome, VirtualLogError) or outcome.node == node:
        return outcome
    return WrongRecipientError("node", str(node), str(outcome.node))


async def fetch_cluster(
    services: Services, register: Register, planner: NodeId, silent: Collection[NodeId] = ()
) -> Cluster:
    """Nodes of the register, with those that live, for a loglet provider to choose from.

    Args:
        services: to ask nodes.
        register: the table of nodes.
        planner: the node that plans, or a member in place of a client.
        silent: nodes that count as dead without a call. Waiting for them would take most of the time of a
            reconfiguration.
    """
    asked = await fetch_statuses(services, [node for node in sorted(register.nodes) if node not in silent])
    answers = {node: asked.get(node, _SILENT) for node in sorted(register.nodes)}
    return Cluster(members=tuple(_member(register, node, answer) for node, answer in answers.items()), planner=planner)


def _member(register: Register, node: NodeId, answer: Outcome[NodeStatus]) -> Member:
    """One node as a planner sees it.

    A node is alive if it has the expected data directory and serves all roles of its entry in the table. It may be
    able to do more: the table decides its use.

    A node that has lost a role stays a member, as a dead one. Otherwise a planner would take the cluster for a
    smaller one, and would silently keep fewer copies than before.
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
