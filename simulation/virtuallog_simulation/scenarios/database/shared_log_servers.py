"""Servers of ZooKeeper's protocol over one shared log in memory, and the connections that a run opens to them."""

from __future__ import annotations

import random
from typing import Final

import attrs
import trio
from trio.testing import memory_stream_pair

from virtuallog.contract.types import NodeId
from virtuallog_database.replica.database import Database
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.auth.tls_port import TlsPort
from virtuallog_server.zookeeper.service import ZooKeeperService
from virtuallog_simulation.checks.database.access_control import AccessRecord
from virtuallog_simulation.scenarios.database.shared_log import SharedLog, SharedLogReplica
from virtuallog_simulation.workload.database.recorded_connection import (
    Claim,
    RecordedConnection,
)
from virtuallog_simulation.world.world import World

SERVERS: Final = (1, 2, 3)
PREFIX: Final = "strangers: "
CONNECTIONS_PER_CLIENT: Final = 6
HELLO: Final = b"hello"


class _Handshake:
    """Handshake in place of TLS: one word, which silent connections do not send."""

    async def secure(self, stream: trio.abc.Stream) -> tuple[trio.abc.Stream, str]:
        said = b""
        while len(said) < len(HELLO):
            piece = await stream.receive_some(len(HELLO) - len(said))
            if not piece:
                raise trio.BrokenResourceError
            said += piece
        return stream, ""


@attrs.define(eq=False)
class SharedLogServer:
    number: int
    follower: SharedLogReplica
    service: ZooKeeperService
    secure: TlsPort
    nursery: trio.Nursery


@attrs.define(eq=False)
class AccessRun:
    world: World
    source: random.Random
    log: SharedLog
    servers: dict[int, SharedLogServer] = attrs.field(factory=dict)
    record: AccessRecord = attrs.field(factory=AccessRecord)
    held: dict[str, tuple[int, bytes]] = attrs.field(factory=dict)
    """The session that each owner has, and its password."""

    def count(self, what: str, times: int = 1) -> None:
        self.world.counts[PREFIX + what] += times

    async def dial(self, claim: Claim, *, secure: bool = False) -> RecordedConnection:
        """A connection after its handshake. Raises UnavailableError."""
        server = self.servers[claim.server]
        ours, theirs = memory_stream_pair()
        serve = server.secure.serve_stream if secure else server.service.server.serve_stream
        server.nursery.start_soon(serve_stream, serve, theirs, claim.host)
        if secure:
            await ours.send_all(HELLO)
        line = RecordedConnection(claim, ours, trio.current_time(), self.world.history)
        self.record.lines.append(line)
        await line.connect()
        if line.session and not line.read_only:
            self.record.passwords.setdefault(line.session, line.password)
        return line

    def is_well(self, server: int, seconds: float) -> bool:
        """Not cut off now, nor within the last seconds."""
        now = trio.current_time()
        outages = [each for each in self.record.outages if each.server == server]
        return all(not each.since < now < each.until + seconds for each in outages)


async def serve_stream(serve: object, stream: trio.abc.Stream, host: str) -> None:
    await serve(stream, host)  # type: ignore[operator]  # either door
    await trio.aclose_forcefully(stream)


async def host_server(run: AccessRun, number: int) -> None:
    """One server, for the whole run."""
    world = run.world
    settings = ZooKeeperSettings(read_only=True, connections_per_client_max=CONNECTIONS_PER_CLIENT)
    async with world.client(NodeId(number)) as environment:
        source = world.random(f"server {number}")
        database = Database(clock=environment.clock, random=source)
        follower = SharedLogReplica(run.log, database, source, source.choice((0.005, 0.05, 0.15)))
        follower.begin()
        service = ZooKeeperService(
            database, settings, environment.clock, source, node=number, address=f"127.0.0.1:{7000 + number}"
        )
        async with trio.open_nursery() as nursery:
            secure = TlsPort(_Handshake(), service.server, environment.clock)
            nursery.start_soon(follower.run)
            await nursery.start(database.run)
            await nursery.start(service.run)
            run.servers[number] = SharedLogServer(number, follower, service, secure, nursery)
            await trio.sleep_forever()
