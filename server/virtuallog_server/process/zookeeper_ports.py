"""The sockets for clients of the database, which a real process has and a simulated one has not.

They are open for as long as the process runs. The replica behind them may come and go (`DatabaseRole`). While there is none, a
client's connection is closed, and the client tries another server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import trio
from trio.abc import Listener, Stream

from virtuallog.contract.ports import Clock
from virtuallog.rpc.transport import accepted, peer_address
from virtuallog.runtime import log
from virtuallog_server.database.role import DatabaseRole
from virtuallog_server.process.listeners import listen
from virtuallog_server.zookeeper.auth.tls import ClientSecurity
from virtuallog_server.zookeeper.auth.tls_port import TlsPort


@attrs.frozen(kw_only=True, eq=False)
class ZooKeeperPorts:
    """The open sockets. Use `open_zookeeper_ports`."""

    role: DatabaseRole
    clock: Clock
    clients: Sequence[Listener[Any]]
    tls_clients: Sequence[Listener[Any]]
    security: ClientSecurity | None
    admins: Sequence[Listener[Any]]

    async def serve(self) -> None:
        """Accept connections until cancelled."""
        async with trio.open_nursery() as nursery:
            if self.clients:
                nursery.start_soon(trio.serve_listeners, self._serve, list(self.clients))
            if self.security is not None:
                port = TlsPort(self.security, self, self.clock)
                nursery.start_soon(port.serve, self.tls_clients)
            if self.admins:
                nursery.start_soon(self._serve_admins)

    async def _serve(self, stream: trio.SocketStream) -> None:
        accepted(stream)
        async with stream:
            address = peer_address(stream)
            if address is not None:
                await self.serve_stream(stream, *address)

    async def serve_stream(self, stream: Stream, host: str, port: int = 0, subject: str | None = None) -> None:
        """Serve one client (`DatabaseRole.serve_stream`).

        A bug that a client's bytes trigger ends its connection and not the node, as with requests of the RPC. In the simulator, which
        has no such sockets, it ends the run.
        """
        try:
            await self.role.serve_stream(stream, host, port, subject)
        except Exception:
            log.exception("a connection of a client failed", address=f"{host}:{port}")

    async def _serve_admins(self) -> None:
        from virtuallog_server.process.console.http_server import (
            HttpServer,
        )  # late: HTTP is half of what a node imports
        from virtuallog_server.zookeeper.admin.admin_pages import AdminPages

        await HttpServer(AdminPages(self.role.facts), self.clock).run(self.admins)


async def open_zookeeper_ports(role: DatabaseRole, clock: Clock) -> ZooKeeperPorts:
    """Listen at the addresses of the config.

    Raises:
        InvalidSettingError: an address or a certificate cannot be used.
    """
    settings = role.zookeeper
    return ZooKeeperPorts(
        role=role,
        clock=clock,
        clients=await listen(settings.listen) if settings.listen else (),
        tls_clients=await listen(settings.tls_listen) if settings.tls_listen else (),
        security=ClientSecurity.open(settings.tls, settings.client_certificates) if settings.tls else None,
        admins=await listen(settings.admin_listen) if settings.admin_listen else (),
    )
