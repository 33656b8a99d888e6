"""Bounds on the memory that one client can make a server hold, each reached here."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.server.zookeeper.test_requests import multi
from tests.server.zookeeper.world import RawClient, World, created, served, setting, watched
from virtuallog_database.tree.results import ChangeKind
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.session import read_budget
from virtuallog_server.zookeeper.session.client_session import ClientSession
from virtuallog_server.zookeeper.wire import replies
from virtuallog_server.zookeeper.wire.connection import PENDING_BYTES_MAX, UNSENT_BYTES_MAX
from virtuallog_simulation.workload.database.jute import Writer

LARGEST = (1 << 20) - 1
HEADER = 8


def _session(world: World) -> ClientSession:
    (session,) = world.server._clients
    return session


async def test_the_largest_request_is_taken_and_a_larger_one_closes() -> None:
    """jute.maxbuffer counts the content of a frame. Nothing is read of one that is too large."""
    async with served() as world:
        client = await world.client()
        around = len(created("/a").content) + HEADER
        assert (await client.create("/a", bytes(LARGEST - around))).error == 0
        await client.send_bytes((LARGEST + 1).to_bytes(4, "big"))
        assert await client.closed() == b""


@pytest.mark.parametrize("length", [-1, -(1 << 31)])
async def test_a_negative_length_closes(length: int) -> None:
    """Also as the first thing that is said."""
    async with served() as world:
        client = await world.client()
        await client.send_bytes(length.to_bytes(4, "big", signed=True))
        assert await client.closed() == b""
        silent = world.dial()
        await silent.send_bytes(length.to_bytes(4, "big", signed=True))
        assert await silent.closed() == b""


async def test_requests_under_way_are_bounded() -> None:
    """Requests beyond the bound wait in the stream, and are served in order once there is room."""
    async with served(ZooKeeperSettings(outstanding_max=10)) as world:
        client = await world.client()
        await client.create("/a")
        world.log.held = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_all, client, 35, b"x")
            await world.settled()
            assert (len(world.log.waiting), len(_session(world).connection.pipeline)) == (10, 10)
            world.log.held = False
            world.log._arrived.set()
            zxids = [(await client.reply()).zxid for _ in range(35)]
        assert zxids == sorted(set(zxids))


async def _write_all(client: RawClient, count: int, data: bytes) -> None:
    for _ in range(count):
        await client.send(5, setting("/a", data))


async def test_bytes_of_requests_under_way_are_bounded() -> None:
    """One request may overshoot. The client's stream is full then, and it waits."""
    async with served() as world:
        client = world.dial(tight=True)
        await client.connect()
        await client.create("/a")
        world.log.held = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_all, client, 25, bytes(1_000_000))
            await world.settled()
            session = _session(world)
            assert PENDING_BYTES_MAX <= session.connection.pipeline.held_bytes < PENDING_BYTES_MAX + LARGEST
            assert session.held_bytes < PENDING_BYTES_MAX + 2 * LARGEST
            world.log.held = False
            world.log._arrived.set()
            assert [(await client.reply()).error for _ in range(25)] == [0] * 25


async def test_a_client_that_does_not_read_is_not_read_for() -> None:
    """Small requests for a large znode: so many replies are made as may wait, then no more until some are taken. In the end
    all come."""
    async with served() as world:
        await (await world.client()).create("/large", bytes(500_000))
        client = world.dial(tight=True)
        await client.connect()
        session = list(world.server._clients)[-1]
        await client.send_bytes(b"".join(_reading(number, "/large") for number in range(100)))
        for number in range(100):
            await world.settled()
            assert session.channel.unsent_bytes < UNSENT_BYTES_MAX + 2 * 500_100
            reply = await client.reply()
            assert (reply.xid, len(reply.body.buffer() or b"")) == (number, 500_000)


async def test_what_one_multi_read_asks_for_is_bounded() -> None:
    """The same large znode, over and over: refused as a whole, the connection stays."""
    async with served() as world:
        client = await world.client()
        await client.create("/large", bytes(1_000_000))
        part = (4, watched("/large", False))
        assert (await client.call(22, multi(*[part] * 4))).error == 0
        assert (await client.call(22, multi(*[part] * 5))).error == -5
        assert (await client.get("/large")).error == 0


def test_all_who_are_told_of_a_change_share_the_frame() -> None:
    """A multi that changes one znode a thousand times, with 300 clients that watch it, took 52 MB; memory is that of the changes now."""
    of_znode, of_parent = (replies.event(ChangeKind.CREATED, "/a"), replies.event(ChangeKind.CHILDREN_CHANGED, "/"))
    assert replies.event(ChangeKind.CREATED, "/a") is of_znode
    assert replies.event(ChangeKind.CHILDREN_CHANGED, "/") is of_parent


async def test_a_client_that_does_not_take_its_events_is_closed() -> None:
    """Changes are made by others, without end."""
    async with served() as world:
        client = world.dial(tight=True)
        await client.connect()
        session = list(world.server._clients)[-1]
        await client.call(106, Writer().string("/").int32(1))
        path = "/" + "x" * 200_000
        for _ in range(2 * UNSENT_BYTES_MAX // len(path) + 5):
            session.fire(ChangeKind.DATA_CHANGED, path, 1)
        assert session.connection.failure is not None
        await world.settled()
        assert session not in world.server._clients


async def test_a_client_that_takes_nothing_for_long_is_closed(autojump_clock: MockClock) -> None:
    """Half a minute for the next piece."""
    async with served() as world:
        await (await world.client()).create("/large", bytes(500_000))
        client = world.dial(tight=True)
        await client.connect(timeout_ms=40_000)
        session = list(world.server._clients)[-1]
        await client.send_bytes(_reading(1, "/large"))
        await world.server.clock.sleep(29)
        assert session in world.server._clients
        await world.server.clock.sleep(3)
        assert session not in world.server._clients


def _reading(number: int, path: str) -> bytes:
    writer = Writer().int32(number).int32(4)
    writer.content += watched(path, False).content
    return writer.frame()


async def test_reads_of_one_turn_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is for all connections together: a client with many requests or connections does not delay others by their sum."""
    monkeypatch.setattr(read_budget, "WORK_MAX", 10_000)
    monkeypatch.setattr(read_budget, "WORK_PER_SECOND", 0)
    async with served() as world:
        clients = [await world.client() for _ in range(3)]
        await clients[0].create("/a", bytes(1000))
        tree, steps = world.server.database.tree, list[int]()

        async def count() -> None:
            while True:
                before = tree.looked
                await trio.lowlevel.checkpoint()
                steps.append(tree.looked - before)

        frames = b"".join(Writer().int32(number).int32(4).string("/a").flag(False).frame() for number in range(1, 41))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            for client in clients:
                nursery.start_soon(client.send_bytes, frames)
            for client in clients:
                assert [(await client.reply()).xid for _ in range(40)] == list(range(1, 41))
            nursery.cancel_scope.cancel()
        assert 10_000 <= max(steps) <= 2 * 12_000  # two turns of the server may fall between two of the counter
        assert sum(steps) >= 120 * 1000


async def test_a_client_that_goes_while_its_reads_wait_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the others go on."""
    monkeypatch.setattr(read_budget, "WORK_MAX", 1)
    async with served() as world:
        leaving, staying = await world.client(), await world.client()
        await staying.create("/a", bytes(1000))
        frames = b"".join(Writer().int32(number).int32(4).string("/a").flag(False).frame() for number in range(1, 11))
        await leaving.send_bytes(frames)
        await staying.send_bytes(frames)
        await trio.aclose_forcefully(leaving.stream)
        assert [(await staying.reply()).xid for _ in range(10)] == list(range(1, 11))
        await world.settled()
        assert not world.server.read_budget._waiting
