"""Opening of the roles' stores: check before a role opens them, mark once they are founded."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.ports import Handlers, NodeEnvironment
from virtuallog_database.ports import StoreDirectory
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.node.ports import NodePorts
from virtuallog_server.node.role import NodeRole, Serve
from virtuallog_server.storage.identity import Identity
from virtuallog_server.storage.stores import REPLICAS, Stores


class RoleStores:
    """The stores of one node's roles (`virtuallog_server.storage.stores`). `open` comes first."""

    def __init__(self, ports: NodePorts) -> None:
        self._ports = ports
        self._stores: Stores

    async def open(self, config: NodeConfig, identity: Identity) -> None:
        """Read the marks of the data directory.

        Raises:
            StorageError: the disk failed.
        """
        self._stores = await Stores.open(
            config.node, identity.storage, config.data, self._ports.stores_present, is_new=identity.fresh
        )

    async def serve(self, serve: Serve, environment: NodeEnvironment) -> Handlers:
        """Call `serve` with stores that are checked as they are opened; mark them once it returns."""
        opening = self._stores.opening(self._ports.storage, self._ports.key_values)
        stored = attrs.evolve(
            environment, storage=opening.storage, key_values=opening.key_values, is_lost=opening.is_lost
        )
        handlers = await serve(stored)
        await opening.founded()
        return handlers

    async def open_replica(self, role: str) -> StoreDirectory:
        """Open the directory of a database replica. A lost one is restored from other nodes.

        Raises:
            StorageError: the disk failed.
        """
        await self._stores.check(REPLICAS, role)
        directory = await self._ports.local_store(role)
        await self._stores.mark_founded(REPLICAS, role)
        return directory

    async def complete(self, founding: Sequence[NodeRole]) -> None:
        """Mark the directory as complete, once each of these roles has founded its stores or failed.

        From then on a store without a mark counts as one that never existed. A directory of a former version gets its marks
        from its roles, so this must come after all of them.
        """
        for role in founding:
            await role.settled.wait()
        await self._stores.complete()
