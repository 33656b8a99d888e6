"""Services that tell the network's watcher of the calls which travel as bytes, where it sees segments only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from virtuallog.errors import VirtualLogError
from virtuallog.ports import ReplyT, Request, Services
from virtuallog.testing.network import SimulatedNetwork
from virtuallog.testing.process import Process
from virtuallog.types import NodeId


@attrs.frozen(eq=False)
class WatchedServices:
    """`ports.Services` of one process: those of `_services`, counted and told as simulated calls are."""

    _network: SimulatedNetwork
    _process: Process
    _services: Services

    def post(
        self,
        node: NodeId,
        request: Request[ReplyT],
        done: Callable[[ReplyT | VirtualLogError], None],
        timeout_seconds: float,
    ) -> None:
        self._asked(node, request)

        def answered(outcome: Any) -> None:
            self._answered(node, outcome)
            done(outcome)

        self._services.post(node, request, answered, timeout_seconds)

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        self._asked(node, request)
        try:
            reply = await self._services.call(node, request, timeout_seconds)
        except VirtualLogError as error:
            self._answered(node, error)
            raise
        self._answered(node, reply)
        return reply

    def _asked(self, node: NodeId, request: object) -> None:
        self._process.check()
        self._network.note("requests", self._process.node, node, request)

    def _answered(self, node: NodeId, outcome: object) -> None:
        self._network.note("replies", node, self._process.node, outcome)
