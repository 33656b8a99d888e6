"""A server that loses all that it has, and comes back in its own place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Final

import attrs

from virtuallog.admin.membership import ReplaceNode
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Services
from virtuallog.contract.types import NodeId
from virtuallog.node_services import ask_living
from virtuallog_lab.experiments.churn.client import CLOCK, connected
from virtuallog_lab.experiments.churn.load import PATIENCE_SECONDS
from virtuallog_server.local_cluster.supervisor import LocalCluster

RESTORE_SECONDS: Final = 600.0
ASK_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.25


@attrs.frozen(eq=False, kw_only=True)
class Wipe:
    """Wipe of one server.

    Args:
        node: which.
        address: where it takes clients.
        cluster: that it is a part of.
        services: to ask the others with.
        log: of the cluster.
        mark: called at each stage: killed, started, serving, copied.
    """

    node: NodeId
    address: str
    cluster: LocalCluster
    services: Services
    log: VirtualLog
    mark: Callable[[str], None]

    async def run(self) -> None:
        """Kill it, remove all that it has, and start it again; returns when it serves and its copies of the log are there again.

        Raises:
            UnavailableError: it takes no clients within `RESTORE_SECONDS`.
        """
        register = await self.log.view.current()
        request = ReplaceNode(node=self.node, store_id=register.nodes[self.node].store_id, force=True)
        await self.cluster.kill(self.node)
        self.mark("killed")
        self._remove_all()
        while not await self._replaced(request, waiting_is_enough=True):
            await CLOCK.sleep(POLL_SECONDS)
        await self.cluster.start(self.node)
        self.mark("started")
        await self._wait_serving()
        self.mark("serving")
        while not await self._replaced(request, waiting_is_enough=False):
            await CLOCK.sleep(1.0)
        self.mark("copied")

    def _remove_all(self) -> None:
        """But its config, and its log of before."""
        for entry in self.cluster.nodes[self.node].config.data.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name not in {"node.toml", "log"}:
                entry.unlink()

    async def _replaced(self, request: ReplaceNode, *, waiting_is_enough: bool) -> bool:
        try:
            progress = await ask_living(self.services, self.cluster.file, request, ASK_SECONDS)
        except VirtualLogError:  # a busy cluster: ask again
            return False
        return progress.done or (waiting_is_enough and progress.waits)

    async def _wait_serving(self) -> None:
        with CLOCK.timeout(RESTORE_SECONDS):
            while True:
                try:
                    async with connected(self.address, PATIENCE_SECONDS):
                        return
                except UnavailableError:
                    await CLOCK.sleep(POLL_SECONDS)
        raise UnavailableError(f"node {self.node} takes no clients {RESTORE_SECONDS:g} s after its start")
