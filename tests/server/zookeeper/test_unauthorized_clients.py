"""Clients that can connect, and have neither a session's password nor an ACL's right: they get nothing, and others do not suffer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.server.zookeeper.world import RawClient, World, created, served, setting, watched
from virtuallog.contract.errors import UnavailableError
from virtuallog_database.replica.session_ids import is_local
from virtuallog_database.tree.commands import Acl
from virtuallog_database.tree.results import Error
from virtuallog_server.zookeeper.auth.sasl import SaslExchange
from virtuallog_server.zookeeper.auth.schemes import digest_of
from virtuallog_server.zookeeper.server import TICK_SECONDS
from virtuallog_server.zookeeper.session import handshake_quota
from virtuallog_server.zookeeper.session.handshake_quota import HandshakeQuota
from virtuallog_server.zookeeper.session.serving_context import ServiceMode, SessionHooks
from virtuallog_simulation.workload.database.jute import Writer

CREATED, DELETED, DATA, CHILDREN = 1, 2, 3, 4
ALICE = (Acl(31, "digest", digest_of("alice:secret")),)
OPEN = (Acl(31, "world", "anyone"),)
WRONG = b"sixteen bytes !!"


async def log_in(client: RawClient) -> None:
    await client.call(100, Writer().int32(0).string("digest").buffer(b"alice:secret"))


async def has_nothing_else(client: RawClient) -> bool:
    """The next frame is the answer to a ping, so no event came before."""
    return (await client.call(11, xid=-2)).error == 0


# -- watches --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/vault"])
async def test_a_recursive_watch_tells_only_what_may_be_read(path: str) -> None:
    """Neither creations, nor data, nor deletions below it; and all of them to a client that has the right (CVE-2024-23944)."""
    async with served() as world:
        owner, stranger = await world.client(), await world.client()
        await log_in(owner)
        await owner.create("/vault", acl=ALICE)
        for client in (owner, stranger):
            await client.call(106, Writer().string(path).int32(1))
        events = []
        for kind, body in (
            (1, created("/vault/a", acl=ALICE)),
            (5, setting("/vault/a", b"1")),
            (2, Writer().string("/vault/a").int32(-1)),
        ):
            await owner.send(kind, body)
            events.append(await owner.event())
            await owner.reply()
        assert events == [(CREATED, "/vault/a"), (DATA, "/vault/a"), (DELETED, "/vault/a")]
        assert await has_nothing_else(stranger)


async def test_each_kind_of_watch_is_judged_by_the_znode_that_changed() -> None:
    """Children by the parent. A standard watch that was not told is used up, as in ZooKeeper."""
    async with served() as world:
        owner, stranger = await world.client(), await world.client()
        await log_in(owner)
        await owner.create("/vault")
        await owner.create("/vault/own", acl=ALICE)
        await stranger.call(3, watched("/vault/own"))
        await stranger.call(3, watched("/vault/new"))
        await stranger.call(8, watched("/vault"))
        await stranger.call(106, Writer().string("/vault/own").int32(0))
        await owner.set("/vault/own", b"1")
        assert await has_nothing_else(stranger)
        await owner.create("/vault/new", acl=ALICE)
        assert await stranger.event() == (CHILDREN, "/vault")
        await owner.call(7, Writer().string("/vault/new").acl(OPEN).int32(-1))
        await owner.set("/vault/new", b"1")
        await owner.call(2, Writer().string("/vault/own").int32(-1))
        assert await has_nothing_else(stranger)


async def test_rights_are_those_of_the_change_itself() -> None:
    """Not those that a later command of the same transaction of the replica has left."""
    async with served() as world:
        owner, stranger = await world.client(), await world.client()
        await log_in(owner)
        await owner.create("/a", acl=ALICE)
        await stranger.call(106, Writer().string("/a").int32(1))
        world.log.held = True
        await owner.send(5, setting("/a", b"hidden"))
        await owner.send(7, Writer().string("/a").acl(OPEN).int32(-1))
        await owner.send(5, setting("/a", b"shown"))
        await owner.send(7, Writer().string("/a").acl(ALICE).int32(-1))
        await owner.send(2, Writer().string("/a").int32(-1))
        await wait_all_tasks_blocked()
        world.log.apply()
        assert await stranger.event() == (DATA, "/a")
        world.log.held = False
        assert await has_nothing_else(stranger)


async def test_rights_are_asked_of_the_connection_when_the_watch_fires() -> None:
    """A login behind the registration counts."""
    async with served() as world:
        owner, late = await world.client(), await world.client()
        await log_in(owner)
        await owner.create("/a", acl=ALICE)
        await late.call(106, Writer().string("/a").int32(0))
        await log_in(late)
        await owner.set("/a", b"1")
        assert await late.event() == (DATA, "/a")


async def test_restored_watches_tell_only_what_may_be_read() -> None:
    """Missed changes of a znode that may not be read are not reported; its deletion is, as `exists` reports it to any client."""
    async with served() as world:
        owner, stranger = await world.client(), await world.client()
        await log_in(owner)
        for path in ("/data", "/exist", "/child"):
            await owner.create(path, acl=ALICE)
        await owner.create("/child/c", acl=ALICE)
        for client in (stranger, owner):
            body = Writer().int64(0).strings(("/data", "/gone")).strings(("/exist",)).strings(("/child",))
            await client.send(105, body.strings(()).strings(("/",)), xid=-8)
        assert await stranger.event() == (DELETED, "/gone")
        assert (await stranger.reply()).xid == -8
        told = [await owner.event() for _ in range(4)]
        assert told == [(DATA, "/data"), (DELETED, "/gone"), (CREATED, "/exist"), (CHILDREN, "/child")]
        assert (await owner.reply()).xid == -8
        await owner.send(5, setting("/data", b"1"))
        assert await owner.event() == (DATA, "/data")
        assert await has_nothing_else(stranger)


# -- sessions -------------------------------------------------------------------------------------------------------------


async def claim(world: World, session: int, password: bytes = WRONG, *, read_only: bool = False) -> RawClient:
    client = world.dial()
    await client.connect(session=session, password=password, read_only=read_only)
    return client


async def test_a_wrong_password_costs_the_owner_and_the_log_nothing() -> None:
    """Before a login as well, where one is required: ids are public, as `exists` tells them."""
    hooks = SessionHooks(sasl_required=True, new_exchange=lambda: SaslExchange({"app": "secret"}, "nonce"))
    async with served(hooks=hooks) as world:
        owner = await world.client()
        before = world.log.position
        for _ in range(3):
            assert (await claim(world, owner.session)).session == 0
        assert world.log.position == before
        assert (await owner.call(11)).error == 0


async def test_claims_of_unknown_sessions_are_bounded_for_each_address(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is an entry of the log. Beyond the bound the claimant is closed; another address is not, nor one that waits, nor a
    client with a session."""
    monkeypatch.setattr(handshake_quota, "BURST", 3)
    async with served() as world:
        owner = await world.client()
        before = world.log.position
        for unknown in range(3):
            assert (await claim(world, owner.session + 1 + unknown)).session == 0
        with pytest.raises(UnavailableError):
            await claim(world, owner.session + 9)
        assert world.log.position == before + 3
        other = world.dial(host="10.0.0.1")
        await other.connect(session=owner.session + 9, password=WRONG)
        assert other.session == 0
        assert (await claim(world, owner.session, owner.password)).session == owner.session
        await world.server.clock.sleep(1 / handshake_quota.PER_SECOND)
        assert (await claim(world, owner.session + 9)).session == 0


async def test_sessions_before_a_login_are_bounded_where_one_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an entry of the log."""
    monkeypatch.setattr(handshake_quota, "BURST", 2)
    hooks = SessionHooks(sasl_required=True, new_exchange=lambda: SaslExchange({"app": "secret"}, "nonce"))
    async with served(hooks=hooks) as world:
        for _ in range(2):
            await world.client()
        with pytest.raises(UnavailableError):
            await world.client()
        other = world.dial(host="10.0.0.1")
        await other.connect()
        assert other.session


def test_attempts_come_back_with_time_and_with_success() -> None:
    """The table of addresses is bounded, and holds none that has all of its attempts."""
    counts = HandshakeQuota()
    assert [counts.take("a", 0.0) for _ in range(handshake_quota.BURST + 1)] == [True] * handshake_quota.BURST + [False]
    counts.give_back("a", 0.0)
    assert (counts.take("a", 0.0), counts.take("a", 0.0)) == (True, False)
    assert counts.take("a", 1 / handshake_quota.PER_SECOND)
    for number in range(2 * handshake_quota.ADDRESSES_MAX):
        counts.take(str(number), 1.0)
    assert len(counts._left) == handshake_quota.ADDRESSES_MAX
    counts.take("b", 2.0)
    counts.give_back("b", 2.0)
    assert "b" not in counts._left


# -- read-only mode -------------------------------------------------------------------------------------------------------


@attrs.define
class Doorman:
    """Says how clients are served."""

    standing: ServiceMode = ServiceMode.FULL


@asynccontextmanager
async def ruled() -> AsyncIterator[tuple[World, Doorman]]:
    doorman = Doorman()
    async with served(hooks=SessionHooks(standing=lambda: doorman.standing)) as world:
        yield world, doorman


async def ephemerals(client: RawClient) -> list[str]:
    found = await client.call(103, Writer().string("/"))
    return [found.body.string() for _ in range(found.body.int32())]


async def test_read_only_mode_gives_no_session_away(autojump_clock: MockClock) -> None:
    """A wrong password is refused, the right one keeps the id; an unknown session is closed, as it may live elsewhere."""
    async with ruled() as (world, doorman):
        owner = await world.client()
        await owner.create("/lock", flags=1)
        doorman.standing = ServiceMode.READ_ONLY
        back = await claim(world, owner.session, owner.password, read_only=True)
        assert (back.session, await ephemerals(back)) == (owner.session, ["/lock"])
        assert (await claim(world, owner.session, read_only=True)).session == 0
        with pytest.raises(UnavailableError):
            await claim(world, owner.session + 1, read_only=True)
        visitor = world.dial()
        await visitor.connect(read_only=True)
        assert visitor.session != owner.session
        assert await ephemerals(visitor) == []
        assert await ephemerals(back) == ["/lock"], "its connection has outlived all that"


async def test_a_local_session_is_over_with_its_connection(autojump_clock: MockClock) -> None:
    """A client that returns with its id gets that answer, in either mode, and no entry is spent."""
    async with ruled() as (world, doorman):
        doorman.standing = ServiceMode.READ_ONLY
        visitor = world.dial()
        await visitor.connect(read_only=True)
        assert is_local(visitor.session)
        for doorman.standing in (ServiceMode.READ_ONLY, ServiceMode.FULL):
            assert (await claim(world, visitor.session, visitor.password, read_only=True)).session == 0
        assert world.log.position == 0


async def test_a_guest_of_read_only_mode_is_closed_when_it_ends_however_short_it_was(autojump_clock: MockClock) -> None:
    """It was over before the server looked again: each client is compared with the mode in which it connected."""
    async with ruled() as (world, doorman):
        full = await world.client()
        await world.server.clock.sleep(0.1)
        doorman.standing = ServiceMode.READ_ONLY
        visitor = world.dial()
        await visitor.connect(read_only=True)
        doorman.standing = ServiceMode.FULL
        await world.server.clock.sleep(2 * TICK_SECONDS)
        assert await visitor.closed() == b""
        assert (await full.create("/a")).error == Error.OK
