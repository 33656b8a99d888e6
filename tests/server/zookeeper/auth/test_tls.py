"""TLS for clients: who gets in, and as whom."""

from __future__ import annotations

import socket
import ssl
import struct
from pathlib import Path

import pytest
import trio
import trustme

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.tls_acceptor import HANDSHAKES_MAX
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.zookeeper.auth.tls import ClientSecurity
from virtuallog_server.zookeeper.auth.tls_port import TlsPort


class Echo:
    """Says who the client is, then ends."""

    async def serve_stream(self, stream: trio.abc.Stream, host: str, port: int = 0, subject: str | None = None) -> None:
        await stream.send_all(f"{host} {subject}".encode())
        await stream.receive_some()


class World:
    """An authority for clients, a server that believes it, and clients."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.folder = folder
        self.files = self.certify(self.authority)

    def certify(self, authority: trustme.CA) -> TlsFiles:
        certificate = authority.issue_cert("localhost")
        certificate.private_key_pem.write_to_path(self.folder / "key.pem")
        certificate.cert_chain_pems[0].write_to_path(self.folder / "cert.pem")
        authority.cert_pem.write_to_path(self.folder / "ca.pem")
        return TlsFiles(
            certificate=self.folder / "cert.pem", key=self.folder / "key.pem", authority=self.folder / "ca.pem"
        )

    def client(self, shows: trustme.CA | None, common_name: str = "app") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        self.authority.configure_trust(context)
        if shows is not None:
            shows.issue_cert("client.example", common_name=common_name).configure_cert(context)
        return context


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def ask(
    security: ClientSecurity, context: ssl.SSLContext, listeners: list[trio.SocketListener] | None = None
) -> str:
    """The server's answer to such a client. Empty if it refuses."""
    listeners = listeners or await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(TlsPort(security, Echo(), SystemClock()).serve, listeners)
        stream = trio.SSLStream(
            await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1]),
            context,
            https_compatible=True,
        )
        try:
            said = (await stream.receive_some()).decode()
        except trio.BrokenResourceError:
            said = ""
        await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()
    return said


async def test_a_client_is_the_subject_of_its_certificate(world: World) -> None:
    """As RFC 4514 spells it, which is how ACLs of the scheme x509 name it."""
    security = ClientSecurity.open(world.files, "need")

    host, _, subject = (await ask(security, world.client(world.authority))).partition(" ")
    assert host == "127.0.0.1"
    assert subject.startswith("CN=app,")


@pytest.mark.parametrize(
    ("asked", "anonymous", "stranger"), [("need", False, False), ("want", True, False), ("none", True, True)]
)
async def test_who_gets_in(world: World, asked: str, anonymous: bool, stranger: bool) -> None:
    """`need` a certificate, `want` only valid ones, or `none` at all; the certificate of a stranger proves no identity."""
    security = ClientSecurity.open(world.files, asked)

    assert bool(await ask(security, world.client(None))) is anonymous
    said = await ask(security, world.client(trustme.CA()))
    assert bool(said) is stranger
    assert "CN=" not in said


async def test_new_certificates_are_used_without_being_told(world: World) -> None:
    """Another authority from now on; files that cannot be used change nothing."""
    security = ClientSecurity.open(world.files, "need")
    former = world.client(world.authority)
    assert await ask(security, former)

    (world.folder / "ca.pem").write_text("rubbish")
    assert await ask(security, former)

    world.authority = trustme.CA()
    world.certify(world.authority)
    assert await ask(security, world.client(world.authority))
    assert not await ask(security, former)


async def test_files_that_cannot_be_used_are_named(world: World) -> None:
    """At the start, as an error of the settings: an operator has to know which of three files to look at."""
    (world.folder / "key.pem").write_text("rubbish")
    with pytest.raises(InvalidSettingError, match=r"cert\.pem"):
        ClientSecurity.open(world.files, "need")


async def test_a_client_that_is_gone_before_its_handshake_harms_nobody(world: World) -> None:
    """It has hung up while it waited to be accepted, and has no address any more. The next one is served."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    with socket.create_connection(listeners[0].socket.getsockname()) as hasty:
        hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end

    assert await ask(ClientSecurity.open(world.files, "need"), world.client(world.authority), listeners)


async def test_connections_that_say_nothing_keep_nobody_out(world: World) -> None:
    """More of them than handshakes may be under way, and no certificate needed: the oldest are closed, and a client is served."""
    security, context = ClientSecurity.open(world.files, "need"), world.client(world.authority)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=600)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(TlsPort(security, Echo(), SystemClock()).serve, listeners)
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(HANDSHAKES_MAX)]
        for _ in range(2):
            stream = trio.SSLStream(await trio.open_tcp_stream("127.0.0.1", port), context, https_compatible=True)
            assert (await stream.receive_some()).startswith(b"127.0.0.1 CN=app")
            await trio.aclose_forcefully(stream)
        assert await silent[0].receive_some() == b""
        for each in silent:
            await trio.aclose_forcefully(each)
        nursery.cancel_scope.cancel()
