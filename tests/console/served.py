"""A console in this process, over a log in memory, and a client of HTTP that does what a test says and no more."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from trio.abc import Stream

from tests.virtuallog.client.world import World, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.address import split_address
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.transport import bound_address, tcp_listen
from virtuallog.runtime.clock import SystemClock
from virtuallog_console.access.admission import Admission
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.access.routes import RouteGroup
from virtuallog_console.process import serve
from virtuallog_server.local_cluster.certificates import certify

LOOPBACK = AccessPolicy()
PATIENCE_SECONDS = 60
PLAIN = {"Content-Type": "text/plain"}


@attrs.frozen
class Answer:
    """The response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@attrs.frozen
class Served:
    """A console that serves, and its log."""

    port: int
    log: VirtualLog
    world: World
    context: ssl.SSLContext | None = None
    """TLS context with the certificate of the client; None without TLS."""

    def as_(self, files: TlsFiles) -> Served:
        """The same console, called by the owner of these files."""
        return attrs.evolve(self, context=client_context(files))

    async def connect(self) -> Stream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        if self.context is None:
            return stream
        return trio.SSLStream(stream, self.context, server_hostname="localhost", https_compatible=True)

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """One request. Names of headers have `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.send(request(method, path, body, named))

    async def send(self, sent: bytes) -> Answer:
        """Send these bytes, and read until the end."""
        with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real sockets
            async with await self.connect() as stream:
                await stream.send_all(sent)
                return parsed(await all_of(stream))

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, b"", **headers)

    async def post(self, path: str, body: bytes, media_type: str = "text/plain", **headers: str) -> Answer:
        return await self.ask("POST", path, body, Content_Type=media_type, **headers)


def request(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a request, after which the connection ends."""
    named = {"Host": "localhost", "Connection": "close", **(headers or {})}
    if body:
        named.setdefault("Content-Length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


async def all_of(stream: Stream) -> bytes:
    """All that comes until the connection ends."""
    received = []
    try:
        while part := await stream.receive_some():
            received.append(bytes(part))
    except (trio.BrokenResourceError, ssl.SSLError):
        pass
    return b"".join(received)


def parsed(received: bytes) -> Answer:
    """The last response in these bytes."""
    while received.startswith(b"HTTP/1.1 100"):
        received = received.partition(b"\r\n\r\n")[2]
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().splitlines()
    headers = dict(line.split(": ", 1) for line in lines)
    headers = {name.lower(): value for name, value in headers.items()}
    return Answer(int(first.split()[1]), headers, _joined(body) if "transfer-encoding" in headers else body)


def _joined(chunked: bytes) -> bytes:
    parts = []
    while chunked:
        size, _, chunked = chunked.partition(b"\r\n")
        length = int(size or b"0", 16)
        parts.append(chunked[:length])
        chunked = chunked[length + 2 :]
    return b"".join(parts)


@asynccontextmanager
async def served(
    policy: AccessPolicy = LOOPBACK,
    *,
    tls: TlsFiles | None = None,
    groups: Sequence[RouteGroup] = (),
    admission: Admission | None = None,
) -> AsyncIterator[Served]:
    """Serve a log in memory for the length of the block."""
    async with world() as made:
        log = made.client()
        async with served_log(log, policy, tls=tls, groups=groups, admission=admission) as port:
            yield Served(port, log, made)


@asynccontextmanager
async def served_log(
    log: VirtualLog,
    policy: AccessPolicy = LOOPBACK,
    *,
    tls: TlsFiles | None = None,
    groups: Sequence[RouteGroup] = (),
    admission: Admission | None = None,
) -> AsyncIterator[int]:
    """Serve this log; gives the port."""
    listeners = await tcp_listen("127.0.0.1:0")
    credentials = Credentials.open(tls, serves=True) if tls else None
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await serve(
                log, policy, listeners, SystemClock(), credentials=credentials, groups=groups, admission=admission
            )

        nursery.start_soon(run)
        yield split_address(bound_address(listeners[0]))[1]
        nursery.cancel_scope.cancel()


@attrs.frozen
class Owners:
    """Certificates of one authority."""

    console: TlsFiles
    client: TlsFiles
    admin: TlsFiles
    node: TlsFiles
    foreign: TlsFiles
    """A client of another cluster, by the same authority."""

    @classmethod
    def in_(cls, folder: Path) -> Owners:
        """Make them in this folder."""
        here = [(Role.CLIENT, "console"), (Role.CLIENT, "app"), (Role.ADMIN, "alice"), (Role.NODE, "1")]
        owners = [Principal(cluster="here", role=role, name=name) for role, name in here]
        owners.append(Principal(cluster="elsewhere", role=Role.CLIENT, name="other"))
        return cls(*certify(folder, owners, hosts={"console": ["localhost", "127.0.0.1"]}))


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """How a browser or curl would call, with this certificate: it checks the host."""
    context = ssl.create_default_context(cafile=str(files.authority))
    context.load_cert_chain(files.certificate, files.key)
    return context
