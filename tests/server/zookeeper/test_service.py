"""The whole service over a log that is a list: logging in, the list of servers, and what happens when the log is silent."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.interop.node import SUPER
from tests.server.zookeeper.auth.test_sasl import spell
from tests.server.zookeeper.world import RawClient, Reply, World, listed_database
from tests.virtuallog.rpc.world import TrioClock
from virtuallog.contract.errors import ForbiddenError, OverloadedError, UnavailableError, VirtualLogError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog_database.tree.commands import Acl, Create, Delete
from virtuallog_database.tree.results import Error
from virtuallog_server.config.zookeeper_settings import SaslUser, ZooKeeperSettings
from virtuallog_server.zookeeper.auth.sasl import Proof
from virtuallog_server.zookeeper.log_contact import TICK_SECONDS, TICKS_MAX
from virtuallog_server.zookeeper.service import ZooKeeperService
from virtuallog_server.zookeeper.session.serving_context import ServiceMode
from virtuallog_server.zookeeper.wire.opcodes import OpCode
from virtuallog_server.zookeeper.wire.quorum_config import parse
from virtuallog_simulation.workload.database.jute import Writer

SETTINGS = ZooKeeperSettings(
    commands=("*",), read_only=True, superuser_digest=SUPER, sasl_users=(SaslUser(name="ben", password="hi"),)
)
CONFIG = "/zookeeper/config"
OWN_LINE = b"server.1=127.0.0.1:7001:0:participant;127.0.0.1:2181"
MOVED = "server.1=127.0.0.1:7001:0:participant;127.0.0.1:9999"


@asynccontextmanager
async def serviced(settings: ZooKeeperSettings = SETTINGS) -> AsyncIterator[World]:
    """A service that has announced itself, until the block ends."""
    clock = TrioClock()
    database, log = listed_database(clock)
    service = ZooKeeperService(database, settings, clock, random.Random(2), node=1, address="127.0.0.1:7001")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        await nursery.start(database.run)
        await nursery.start(service.run)
        world = World(service.server, log, nursery)
        await world.settled()
        yield world
        nursery.cancel_scope.cancel()


async def authenticate(client: RawClient, credential: bytes) -> Reply:
    return await client.call(OpCode.AUTH, Writer().int32(0).string("digest").buffer(credential), xid=-4)


async def reconfig(client: RawClient, joining: str | None, leaving: str | None, version: int = -1) -> Reply:
    writer = Writer()
    for text in (joining, leaving, None):
        writer = writer.buffer(None) if text is None else writer.string(text)
    return await client.call(OpCode.RECONFIG, writer.int64(version))


async def listed(client: RawClient) -> bytes:
    return (await client.get(CONFIG)).body.buffer() or b""


async def test_a_server_that_the_list_does_not_take_goes_easy_on_the_log(autojump_clock: MockClock) -> None:
    """Any client may set a quota there; the log must not pay for it with an entry for each turn of the event loop."""
    clock = TrioClock()
    database, log = listed_database(clock)
    quota = "/zookeeper/quota/zookeeper/config"
    service = ZooKeeperService(database, SETTINGS, clock, random.Random(2), node=1, address="127.0.0.1:7001")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        for path in ("/zookeeper/quota/zookeeper", quota, f"{quota}/zookeeper_stats"):
            await database.proposals.execute(Create(path, b"count=0,bytes=0"))
        await database.proposals.execute(Create(f"{quota}/zookeeper_limits", b"byteHardLimit=0"))
        before = log.position
        await nursery.start(service.run)
        for _ in range(1000):
            await trio.lowlevel.checkpoint()
        assert log.position == before + 1
        await database.proposals.execute(Delete(f"{quota}/zookeeper_limits"))
        await trio.sleep(2.0)  # noqa: TID251 -- simulated time
        assert database.tree.get_data(CONFIG, ())[0] == OWN_LINE + b"\nversion=1"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("error", [OverloadedError("full"), ForbiddenError("Settle", "CLIENT", "NODE")])
async def test_a_server_outlives_a_log_that_does_not_answer(error: VirtualLogError, autojump_clock: MockClock) -> None:
    """Any error of the log while a server only keeps in touch: its clients hear of that, and the server continues once the log answers."""
    clock = TrioClock()
    database, log = listed_database(clock)
    service = ZooKeeperService(database, SETTINGS, clock, random.Random(2), node=1, address="127.0.0.1:7001")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        await nursery.start(service.run)
        log.failure = error
        await trio.sleep(30)  # noqa: TID251 -- simulated time
        silent = service.contact.standing
        log.failure = None
        await trio.sleep(2)  # noqa: TID251 -- simulated time
        assert [silent, service.contact.standing] == [ServiceMode.READ_ONLY, ServiceMode.FULL]
        nursery.cancel_scope.cancel()


async def test_a_server_is_on_the_list_once_it_serves(autojump_clock: MockClock) -> None:
    """And `conf` shows the list."""
    async with serviced() as world:
        client = await world.client()
        assert await listed(client) == OWN_LINE + b"\nversion=1"
        asking = world.dial()
        await asking.send_bytes(b"conf")
        assert OWN_LINE in await asking.closed()


async def test_a_server_with_tls_is_listed_with_the_port_that_other_machines_reach(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """The port without TLS takes this machine only, and there may be none: then the line was one that no server could read, and each
    one wrote the list anew with itself alone.
    """
    files = TlsFiles(certificate=tmp_path / "c", key=tmp_path / "k", authority=tmp_path / "a")
    for listen in ("", "127.0.0.1:2181"):
        settings = attrs.evolve(SETTINGS, listen=listen, tls_listen="10.0.0.1:2182", tls=files)
        async with serviced(settings) as world:
            found = await listed(await world.client())
        assert found == b"server.1=127.0.0.1:7001:0:participant;10.0.0.1:2182\nversion=1"
        assert parse(found.decode()).members.keys() == {1}


async def test_the_super_user_changes_the_list_and_nobody_else(autojump_clock: MockClock) -> None:
    """The answer is the new list and the stat of its znode; errors come in ZooKeeper's order: version, text, right."""
    async with serviced() as world:
        client = await world.client()
        assert (await reconfig(client, MOVED, None)).error == Error.NO_AUTH
        assert (await reconfig(client, "some thing", None)).error == Error.BAD_ARGUMENTS
        assert (await reconfig(client, MOVED, None, version=7)).error == Error.BAD_VERSION

        assert (await authenticate(client, b"super:test")).error == 0
        changed = (await reconfig(client, MOVED, None, version=1)).body.buffer()
        assert changed == MOVED.encode() + b"\nversion=2"
        assert changed == await listed(client)
        assert (await reconfig(client, None, "1")).error == Error.BAD_ARGUMENTS


async def test_a_user_logs_in_and_is_who_an_acl_means(autojump_clock: MockClock) -> None:
    """Three messages; from then on the connection has the identity sasl:ben."""
    async with serviced() as world:
        client = await world.client()
        await log_in(client)
        await client.create("/ben", acl=(Acl(31, "sasl", "ben"),))
        assert (await client.get("/ben")).error == 0
        assert (await (await world.client()).get("/ben")).error == Error.NO_AUTH


async def test_where_everybody_must_log_in_nothing_else_is_answered(autojump_clock: MockClock) -> None:
    """Before it: an error, and the connection is closed. After it: everything."""
    async with serviced(attrs.evolve(SETTINGS, sasl_required=True)) as world:
        client = await world.client()
        assert (await client.create("/a")).error == Error.SASL_REQUIRED
        assert await client.closed() == b""
        client = await world.client()
        await log_in(client)
        assert (await client.create("/a")).error == 0


async def log_in(client: RawClient) -> None:
    """As ben."""
    challenge = ((await client.call(OpCode.SASL, Writer().buffer(b""))).body.buffer() or b"").decode()
    nonce = challenge.partition('nonce="')[2].partition('"')[0]
    said = {
        "username": "ben", "realm": "zk-sasl-md5", "nonce": nonce, "cnonce": "c", "nc": "00000001", "qop": "auth",
        "digest-uri": "zookeeper/zk-sasl-md5",
    }  # fmt: skip
    said["response"] = Proof(said, "hi").of("AUTHENTICATE")
    answer = (await client.call(OpCode.SASL, Writer().buffer(spell(said)))).body.buffer()
    assert answer == f"rspauth={Proof(said, 'hi').of('')}".encode()


async def test_the_id_of_the_scheme_auth_may_be_null(autojump_clock: MockClock) -> None:
    """It means nothing, so kazoo sends none; the ACL is that of the creator."""
    async with serviced() as world:
        client = await world.client()
        await authenticate(client, b"ben:hi")
        body = Writer().string("/ben").buffer(b"").int32(1).int32(31).string("auth").buffer(None).int32(0)
        assert (await client.call(OpCode.CREATE, body)).error == 0
        assert (await (await world.client()).get("/ben")).error == Error.NO_AUTH


async def test_a_wrong_password_closes_the_connection(autojump_clock: MockClock) -> None:
    """After the error, which tells the client not to try again: a connection is good for one guess."""
    async with serviced() as world:
        client = await world.client()
        await client.call(OpCode.SASL, Writer().buffer(b""))
        assert (
            await client.call(OpCode.SASL, Writer().buffer(b'username="ben",response="0"'))
        ).error == Error.AUTH_FAILED
        assert await client.closed() == b""


async def ticks(count: int) -> None:
    await trio.sleep(TICK_SECONDS * count)  # noqa: TID251 -- no product code


async def word(world: World, letters: bytes) -> bytes:
    client = world.dial()
    await client.send_bytes(letters)
    return await client.closed()


async def test_without_the_log_there_are_reads_for_those_who_ask(autojump_clock: MockClock) -> None:
    """All clients are sent away when the log is silent for long, and again when it is back; a session in the log outlives both."""
    async with serviced() as world:
        client = await world.client(timeout_ms=40_000)
        await client.create("/a", b"1")
        assert await word(world, b"isro") == b"rw"

        world.log.failure = UnavailableError("no majority")
        await ticks(TICKS_MAX)
        await client.closed()
        assert await word(world, b"isro") == b"ro"
        assert b"Mode: read-only" in await word(world, b"srvr")

        content = world.dial()
        await content.connect(read_only=True)
        assert content.read_only is True
        assert (await content.get("/a")).body.buffer() == b"1"
        assert (await content.set("/a", b"2")).error == Error.NOT_READ_ONLY
        demanding = world.dial()
        await demanding.greet(session=0, password=bytes(16), timeout_ms=10_000, last_zxid=0, read_only=False)
        assert await demanding.closed() == b""

        world.log.failure = None
        await content.closed()
        again = world.dial()
        await again.connect(session=client.session, password=client.password)
        assert again.session == client.session
        assert (await again.set("/a", b"2")).error == 0


async def test_one_silence_is_no_outage(autojump_clock: MockClock) -> None:
    """A change of the log's segment takes a moment, and sends no client away."""
    async with serviced() as world:
        client = await world.client()
        world.log.failure = UnavailableError("sealed")
        await ticks(TICKS_MAX - 2)
        world.log.failure = None
        await ticks(4)
        assert (await client.create("/a")).error == 0
