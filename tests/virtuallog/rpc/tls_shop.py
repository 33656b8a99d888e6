"""Certificates for tests, and a shop behind TLS with methods for different roles."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from tests.virtuallog.rpc.shop import IDENTITY, Everything, Shop, Store, Stored, Wait, Waited, schema
from tests.virtuallog.rpc.world import TrioClock
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.security.credentials import Credentials, Loaded
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import bound_address, tcp_connect, tcp_listen
from virtuallog_server.local_cluster.certificates import Authority


def guarded() -> tuple[Interface, ...]:
    """Return interfaces where clients may store (their position is ignored), admins echo, nodes wait."""
    methods = (
        Method(name="store", request=Store, reply=Stored, role=Role.CLIENT, distrusted={"position": 0}),
        Method(name="echo", request=Everything, reply=Everything),
        Method(name="wait", request=Wait, reply=Waited, role=Role.NODE),
    )
    return (Interface(schema=schema().Shop, methods=methods, role=Role.ADMIN),)


@attrs.frozen
class ThrowawayAuthority:
    """An authority and the certificates that it issues."""

    authority: Authority

    @classmethod
    def in_(cls, folder: Path) -> ThrowawayAuthority:
        return cls(Authority.create(folder, "test"))

    def node(self, number: int = IDENTITY.node, cluster: str = "test") -> Credentials:
        return self.credentials(Role.NODE, str(number), cluster)

    def client(self, name: str = "app", cluster: str = "test") -> Credentials:
        return self.credentials(Role.CLIENT, name, cluster)

    def credentials(self, role: Role, name: str, cluster: str = "test") -> Credentials:
        return Credentials.open(self.authority.issue(Principal(cluster=cluster, role=role, name=name)))

    def unchecked(
        self, owner: Principal, *, days: float = 1, shows: bool = True, believes: ThrowawayAuthority
    ) -> Credentials:
        """Make credentials without a check of the own certificate, or without one."""
        files = self.authority.issue(owner, days)
        contexts = []
        for protocol in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER):
            context = ssl.SSLContext(protocol)
            context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
            context.load_verify_locations(believes.authority.folder / "authority.pem")
            if shows:
                context.load_cert_chain(files.certificate, files.key)
            contexts.append(context)
        sound = Credentials.open(self.authority.issue(owner))
        return attrs.evolve(sound, loaded=Loaded(owner, "", *contexts))


@asynccontextmanager
async def serving(shop: Shop, credentials: Credentials | None) -> AsyncIterator[tuple[str, trio.Nursery]]:
    """Run a guarded shop on a free port; yield its address, and a nursery that ends with it."""
    server = RpcServer(shop.handlers(), guarded(), lambda: IDENTITY, TrioClock(), credentials=credentials)
    async with trio.open_nursery() as nursery:
        listeners = await tcp_listen("127.0.0.1:0")
        await nursery.start(server.serve, listeners)
        yield bound_address(listeners[0]), nursery
        nursery.cancel_scope.cancel()


async def client_of(nursery: trio.Nursery, address: str, credentials: Credentials | None) -> RpcServices:
    peer = Peer((address,), OpenNode(node=IDENTITY.node))
    client = RpcServices(guarded(), lambda _: peer, tcp_connect(credentials), TrioClock(), random.Random(1))
    await nursery.start(client.run)
    return client
