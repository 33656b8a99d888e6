"""The database role of a node: a replica of the tree, open to ZooKeeper's clients and to other nodes.

    Role("database")  closed -> open -> closed for good, with a reason          (server.role)
        LocalStore + VirtualLog -> Replica -> Database -> ZooKeeperServer

A replica that cannot go on (its disk, a state that differs from that of others) closes this role and nothing else: the node goes
on to order and store entries of the log, and says why in its status. A log role that fails closes no database either: it reads
and appends elsewhere.

No socket is here. Whoever has listeners (`server.process`) or simulated streams hands them to `accept`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from database.ports import StoreDirectory
from server.zookeeper.settings import ZooKeeperSettings
from virtuallog.metrics import Family
from virtuallog.ports import Handlers, NodeEnvironment
from virtuallog.virtual_log import VirtualLog


@attrs.define(eq=False)
class DatabaseRole:
    """What a `server.role.Role` opens.

    Args:
        settings: of the service for clients.
        store_id: of the node's data directory. A wiped node is another replica.
        local_store: opens the replica's store (`NodePorts.local_store`).
    """

    settings: ZooKeeperSettings
    store_id: bytes
    local_store: Callable[[str], Awaitable[StoreDirectory]]
    replica: Any = attrs.field(default=None, init=False)
    """None unless the role is open."""
    database: Any = attrs.field(default=None, init=False)
    """The same."""
    server: Any = attrs.field(default=None, init=False)
    """The same: hand it streams of clients, `await server.serve_stream(stream, address)`."""

    async def serve(self, environment: NodeEnvironment, virtual_log: VirtualLog) -> Handlers:
        """Open the replica and return the handlers of what other nodes ask of it. Its tasks run in the environment's nursery;
        an error of any of them that is a VirtualLogError closes the role.

        Raises:
            VirtualLogError: the replica cannot be opened.
        """
        raise NotImplementedError

    def metrics(self) -> list[Family]:
        """See `virtuallog.metrics.Measured`."""
        return []
