"""Choice of a server of the database to read the tree from."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import ReplyT, Request, Services
from virtuallog.contract.types import NodeId
from virtuallog_database.control.client import statuses
from virtuallog_database.control.messages import SERVING

READ_SECONDS: Final = 5.0
"""Timeout of one read. A server answers in a millisecond."""


@attrs.frozen
class TreeServer:
    """One server that serves the tree, as it has applied it."""

    services: Services
    node: NodeId

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        """The reply of this server. Raises VirtualLogError."""
        return await self.services.call(self.node, request, READ_SECONDS)


async def find_server(log: VirtualLog, wanted: int | None = None) -> TreeServer:
    """The server that has applied most, or the wanted one.

    Raises:
        VirtualLogError: there is no such server, or none that serves.
    """
    services = log.view.environment.services
    nodes = sorted((await log.view.current()).nodes)
    if wanted is not None:
        if wanted not in nodes:
            raise UnavailableError(f"the cluster has no node {wanted}")
        return TreeServer(services, NodeId(wanted))
    answers = await statuses(services, nodes)
    serving = {
        node: answer.cursor
        for node, answer in answers.items()
        if not isinstance(answer, VirtualLogError) and answer.state == SERVING
    }
    if not serving:
        reasons = "; ".join(
            f"node {node}: {answer if isinstance(answer, VirtualLogError) else answer.state}"
            for node, answer in answers.items()
        )
        raise UnavailableError(f"no server of a database serves ({reasons})")
    return TreeServer(services, max(serving, key=lambda node: (serving[node], -node)))
