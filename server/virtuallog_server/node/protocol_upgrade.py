"""Upgrade of the cluster's protocol level, once every node of the register's table has announced a newer version.

    level = the version that all nodes have announced, kept in the register: a reader of a register knows what its nodes can read

A cluster that starts begins at the level of its nodes. During an upgrade each node asks the others now and then. The last
one to be upgraded, or the first one to hear of it, changes the register. The level never goes down by itself: a node that
returns to an older program fails with that program's own error, when it meets data that it cannot read.

A role that came with a version is given to the nodes of the table when the level reaches it: the table says what a node is
used for, and older programs could not list roles that they did not know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import attrs

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.register import NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import REPLICAS, Versions, level_of
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.runtime import log

ASK_SECONDS: Final = 2.0
"""First pause, in seconds, between two rounds that ask all nodes for their versions."""
ASK_SECONDS_MAX: Final = 30.0
"""Longest pause between two rounds, while others speak less than this node. Each pause is twice the one before. An upgrade
takes minutes, and nothing waits for the level.
"""


@attrs.frozen
class RaiseLevel:
    """An amendment of the register: raise the level as far as `announced`, by node and data directory, allows."""

    announced: Mapping[tuple[NodeId, bytes], int]
    replicas: Collection[tuple[NodeId, bytes]] = ()
    """The nodes that can be replicas, with their data directories."""

    def amend(self, register: Register) -> Register | None:
        level = level_of(self.announced.get((node, entry.store_id)) for node, entry in register.nodes.items())
        if level <= register.level:
            return None
        raised = register.with_level(level)
        if register.level < REPLICAS <= level:
            nodes = {node: self._with_replica(node, entry) for node, entry in register.nodes.items()}
            raised = attrs.evolve(raised, nodes=nodes)
        return raised

    def _with_replica(self, node: NodeId, entry: NodeEntry) -> NodeEntry:
        """The entry with the role `replica`. A node without any role is drained, and stays so."""
        able = bool(entry.roles) and (node, entry.store_id) in self.replicas
        return attrs.evolve(entry, roles=entry.roles | {"replica"}) if able else entry


@attrs.define(eq=False)
class ProtocolUpgrade:
    """Raises the level on behalf of one node."""

    _own: Versions
    _view: ChainCache

    async def run(self) -> None:
        """Ask the other nodes and raise the level, for ever. If cancelled, a change may still be made."""
        pause, clock = ASK_SECONDS, self._view.environment.clock
        while True:
            register = self._view.cached
            if register is not None and register.level < self._own.last:
                try:
                    await self._raise(register)
                except VirtualLogError as error:
                    log.info("the level of the cluster stays", level=register.level, reason=str(error))
            await clock.sleep(pause)
            pause = min(2 * pause, ASK_SECONDS_MAX)

    async def _raise(self, register: Register) -> None:
        environment = self._view.environment
        answers = await fetch_statuses(environment.services, sorted(register.nodes))
        heard = [answer for answer in answers.values() if not isinstance(answer, VirtualLogError)]
        change = RaiseLevel(
            {(answer.node, answer.store_id): min(answer.protocol, self._own.last) for answer in heard},
            [(answer.node, answer.store_id) for answer in heard if "replica" in answer.roles],
        )
        if change.amend(register) is not None:
            raised = self._view.adopt(await update_node_table(self._view.metastore, change, environment.random))
            log.info("the level of the cluster", level=raised.level)
