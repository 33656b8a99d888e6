"""Too many connections, silent ones, stuck ones: clients that behave do not notice."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.abc import Stream

from tests.virtuallog.rpc.shop import Everything, Store, Stored, Wait, Waited, interfaces
from tests.virtuallog.rpc.world import SHOP, World, shop_world
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.rpc.admission import ServerLimits
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.services import RpcServices

HALF_A_FRAME = (0).to_bytes(4, "little") + (FRAME_BYTES_MAX // 8 - 1).to_bytes(4, "little")
"""The header of the largest frame there may be."""


def store(position: int) -> Store:
    return Store(segment=SegmentId(1, 2), batch=b"b", position=position)


async def is_served(client: RpcServices) -> bool:
    return await client.call(SHOP, store(40), 1.0) == Stored(41)


async def is_closed(stream: Stream) -> bool:
    """Whether the server has hung up. Reads what it has said before."""
    with trio.move_on_after(0.01):  # noqa: TID251 -- the test's own clock
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        return True
    return False


async def strangers(world: World, count: int) -> list[Stream]:
    """Connections in this order."""
    streams = []
    for _ in range(count):
        streams.append(await world.connect_to_server("shop:1"))
        await trio.testing.wait_all_tasks_blocked()
    return streams


async def test_silent_connection_makes_room_for_a_client(autojump_clock: object) -> None:
    """All places are taken by some that never speak: the one that came first loses its own to whoever comes."""
    async with shop_world(ServerLimits(connections_max=3)) as world:
        silent = await strangers(world, 3)
        assert await is_served(await world.client())

        assert [await is_closed(stream) for stream in silent] == [True, False, False]
        assert world.server.connections == 3


async def test_idle_connection_makes_room_and_comes_back(autojump_clock: object) -> None:
    """All have asked something: the one that was used least recently goes, and its client does not notice."""
    async with shop_world(ServerLimits(connections_max=2)) as world:
        clients = [await world.client() for _ in range(3)]
        for _ in range(2):
            for client in clients:
                await trio.sleep(1)  # noqa: TID251 -- the test's own clock
                assert await is_served(client)

        assert world.server.connections == 2
        assert len(world.server_ends) == 6


async def test_connections_in_use_stay_and_the_newcomer_goes(autojump_clock: object) -> None:
    """All are in use: one too many is closed before it is read."""
    async with shop_world(ServerLimits(connections_max=2)) as world:
        outcomes: list[Any] = []
        for token in range(2):
            (await world.client()).post(SHOP, Wait(token), outcomes.append, 60.0)
            await trio.testing.wait_all_tasks_blocked()
        newcomer = await world.client()
        with pytest.raises(UnavailableError):
            await newcomer.call(SHOP, store(40), 1.0)
        world.shop.release([0, 1])
        await trio.testing.wait_all_tasks_blocked()

        assert set(outcomes) == {Waited(0), Waited(1)}
        await trio.sleep(2)  # noqa: TID251 -- the newcomer backs off
        assert await is_served(newcomer)


async def test_connection_that_never_speaks_is_closed_in_time(autojump_clock: object) -> None:
    """Half-open ones, port scanners, clients that hang: ten seconds. One that has spoken once may be idle for ever."""
    async with shop_world() as world:
        client, (silent,) = await world.client(), await strangers(world, 1)
        assert await is_served(client)
        await trio.sleep(9)  # noqa: TID251 -- the test's own clock
        assert not await is_closed(silent)
        await trio.sleep(2)  # noqa: TID251 -- the test's own clock
        assert await is_closed(silent)

        await trio.sleep(600)  # noqa: TID251 -- the test's own clock
        assert world.server.connections == 1
        assert await is_served(client)
        assert len(world.server_ends) == 2


async def test_frame_that_drips_in_is_closed_in_time(autojump_clock: object) -> None:
    """Slowloris: a byte a second keeps no frame alive, however many of its bytes come."""
    async with shop_world() as world:
        opened = RpcConnection.new(bind(interfaces()))
        opened.questions.open(OpenNode())
        (slow,) = await strangers(world, 1)
        await trio.sleep(0.5)  # noqa: TID251 -- a byte comes between two rounds of `expire`, which weighs it
        await slow.send_all(b"".join(opened.outbox.take()) + HALF_A_FRAME)
        for _ in range(28):
            await slow.send_all(b"\0")
            await trio.sleep(1)  # noqa: TID251 -- the test's own clock
        assert world.server.held_bytes == len(HALF_A_FRAME) + 28
        await trio.sleep(4)  # noqa: TID251 -- the test's own clock

        assert await is_closed(slow)
        assert world.server.held_bytes == 0


async def test_large_frame_may_take_its_time_while_it_grows_whole(autojump_clock: object) -> None:
    """Frames of a slow but honest client: each takes twenty seconds, for ever."""
    async with shop_world() as world:
        honest = RpcConnection.new(bind(interfaces()))
        honest.questions.open(OpenNode())
        (slow,) = await strangers(world, 1)
        for position in range(10, 15):
            honest.questions.call(store(position))
            frame = b"".join(honest.outbox.take())
            for start in range(0, len(frame), len(frame) // 20):
                await slow.send_all(frame[start : start + len(frame) // 20])
                await trio.sleep(1)  # noqa: TID251 -- the test's own clock

        assert [stored.position for stored in world.shop.stored] == [10, 11, 12, 13, 14]
        assert not await is_closed(slow)


async def test_call_that_waits_for_the_server_is_not_stuck(autojump_clock: object) -> None:
    """The server itself reads no more, as it owes answers: half a frame behind them is not the client's fault."""
    async with shop_world() as world:
        many = RpcConnection.new(bind(interfaces()))
        many.questions.open(OpenNode())
        (stream,) = await strangers(world, 1)
        for token in range(2100):
            many.questions.call(Wait(token))
        await stream.send_all(b"".join(many.outbox.take()) + HALF_A_FRAME)
        await trio.sleep(100)  # noqa: TID251 -- the test's own clock
        assert len(world.shop.waiting) >= 2048
        assert not await is_closed(stream)

        world.shop.release(list(world.shop.waiting))
        await trio.sleep(40)  # noqa: TID251 -- now it is its turn
        assert await is_closed(stream)


async def test_reader_that_takes_nothing_is_closed_in_time(autojump_clock: object) -> None:
    """It asked for megabytes and reads none of them: after half a minute they are thrown away, and it with them."""
    async with shop_world() as world:
        world.make_pair = trio.testing.lockstep_stream_pair
        greedy = RpcConnection.new(bind(interfaces()))
        greedy.questions.open(OpenNode())
        ours = await world.connect_to_server("shop:1")
        for _ in range(8):
            greedy.questions.call(Everything(name="inflate"))
        await ours.send_all(b"".join(greedy.outbox.take()))
        await trio.sleep(28)  # noqa: TID251 -- the test's own clock
        assert world.server.held_bytes > 60 << 20
        await trio.sleep(4)  # noqa: TID251 -- the test's own clock

        assert world.server.held_bytes == 0
        assert world.server.connections == 0


async def test_all_connections_together_hold_a_bounded_number_of_bytes(autojump_clock: object) -> None:
    """Forty strangers send 256 KiB of a frame each: the oldest of them go. A client that works in order does not."""
    async with shop_world(ServerLimits(held_bytes_max=4 << 20)) as world:
        client = await world.client()
        assert await is_served(client)
        piles = await strangers(world, 40)
        for pile in piles:
            await pile.send_all(HALF_A_FRAME + bytes(256 << 10))
            await trio.testing.wait_all_tasks_blocked()
            assert world.server.held_bytes <= 4 << 20
        assert await is_served(client)

        assert world.server.connections == 16
        assert len(world.server_ends) == 41
        assert [await is_closed(pile) for pile in piles] == [True] * 25 + [False] * 15


def test_limits_that_let_nobody_in_are_refused() -> None:
    """An operator's mistake is reported at the start."""
    with pytest.raises(InvalidSettingError):
        ServerLimits(connections_max=0)
