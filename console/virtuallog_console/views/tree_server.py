"""Choice of a server of the database to read the tree from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeGuard

import attrs
import trio

from virtuallog.admin.cluster_status import ANSWER_SECONDS
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Outcome, ReplyT, Request, Services
from virtuallog.contract.types import NodeId
from virtuallog_database.control.messages import SERVING, DatabaseStatus, GetDatabaseStatus

READ_SECONDS: Final = 5.0
"""Timeout of one read. A server answers in a millisecond."""

LAG_MAX: Final = 1000
"""Positions that a server may lag behind and count as current: less than a second of writes."""


@attrs.frozen
class TreeServer:
    """One server that serves the tree, as it has applied it."""

    services: Services
    node: NodeId

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        """The reply of this server. Raises VirtualLogError."""
        return await self.services.call(self.node, request, READ_SECONDS)


async def find_server(log: VirtualLog, wanted: int | None = None) -> TreeServer:
    """The wanted server, or the first one that answers and has applied nearly all that it knows of; else the one that has applied most.

    A silent node costs no time while another one serves.

    Raises:
        VirtualLogError: there is no such server, or none that serves.
    """
    services = log.view.environment.services
    nodes = sorted((await log.view.current()).nodes)
    if wanted is not None:
        if wanted not in nodes:
            raise UnavailableError(f"the cluster has no node {wanted}")
        return TreeServer(services, NodeId(wanted))
    answers = await _ask_until(services, nodes, _is_current)
    serving = {node: answer.cursor for node, answer in answers.items() if _serves(answer)}
    if not serving:
        reasons = "; ".join(
            f"node {node}: {answer if isinstance(answer, VirtualLogError) else answer.state}"
            for node, answer in sorted(answers.items())
        )
        raise UnavailableError(f"no server of a database serves ({reasons})")
    current = [node for node, answer in answers.items() if _is_current(answer)]
    return TreeServer(services, current[0] if current else max(serving, key=lambda node: (serving[node], -node)))


def _serves(answer: Outcome[DatabaseStatus]) -> TypeGuard[DatabaseStatus]:
    return not isinstance(answer, VirtualLogError) and answer.state == SERVING


def _is_current(answer: Outcome[DatabaseStatus]) -> bool:
    return _serves(answer) and answer.known_tail - answer.cursor <= LAG_MAX


async def _ask_until(
    services: Services, nodes: Sequence[NodeId], suffices: Callable[[Outcome[DatabaseStatus]], bool]
) -> dict[NodeId, Outcome[DatabaseStatus]]:
    """Answers in the order of arrival, up to the first one that suffices, or all."""
    answers: dict[NodeId, Outcome[DatabaseStatus]] = {}
    finished = trio.Event()

    def note(node: NodeId, outcome: Outcome[DatabaseStatus]) -> None:
        if not finished.is_set():
            answers[node] = outcome
            if suffices(outcome) or len(answers) == len(nodes):
                finished.set()

    for node in nodes:
        services.post(node, GetDatabaseStatus(), partial(note, node), ANSWER_SECONDS)
    if nodes:
        await finished.wait()
    return answers
