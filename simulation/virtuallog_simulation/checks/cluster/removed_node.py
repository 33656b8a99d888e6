"""Watches a process that the register does not mean: a directory that was given up, or a copy that was started elsewhere.

It may send queries. It must not ask any node for a change; others must not take its data or give it
more, it from the moment it knows, they from the moment they know.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from virtuallog.contract.ports import Question
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_simulation.checks.cluster.node_state import log_servers
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.transport import node_on


@attrs.define(eq=False)
class RemovedNodeWatch:
    """Watch over one removed machine. Call `start` when its directory has been given up, or its
    copy was started."""

    cluster: Cluster
    machine: NodeId
    version: int
    """Version of the register that does without the machine."""

    def start(self) -> None:
        """Watch the messages of the network from now on."""
        network = self.cluster.world.network
        before = network.watch

        def watch(what: str, source: NodeId, target: NodeId, message: object) -> None:
            if what == "requests" and source == self.machine:
                self._asked(target, message)
            if before is not None:
                before(what, source, target, message)

        network.watch = watch

    def look(self) -> None:
        """Look at a message: no node has given the removed one anything of a loglet that is younger
        than its end."""
        servers: Mapping[NodeId, LogServer] = log_servers(self.cluster)
        server = servers.get(self.machine)
        for segment, loglet in server.durable.loglets.items() if server is not None else ():
            if segment.version > self.version and (loglet.tail or loglet.sealed):
                told = f"sealed at {loglet.tail}" if loglet.sealed else f"has {loglet.tail} entries"
                self._object(
                    f"loglet {segment} {told} on machine {self.machine}, which had no place by version {self.version}"
                )

    def _asked(self, target: NodeId, message: object) -> None:
        if isinstance(message, Question) or not self.knows():
            return
        self._object(f"machine {self.machine} sends {type(message).__name__} to node {target}")

    def knows(self) -> bool:
        """True if its own client has the register that does without it, or a newer one."""
        register = self._register()
        if register is None or register.version < self.version:
            return False
        product = self.cluster.products[self.machine]
        entry = register.nodes.get(node_on(self.machine))
        return entry is None or entry.store_id != product.identity.store_id

    def _register(self) -> Register | None:
        product = self.cluster.products.get(self.machine)
        log = product.virtual_log if product is not None else None
        return log.view.cached if log is not None else None

    def _object(self, message: str) -> None:
        world = self.cluster.world
        if not any(violation.check == "given up moves nothing" for violation in world.violations):
            world.violations.append(Violation("given up moves nothing", message, (len(world.history.events) - 1,)))
