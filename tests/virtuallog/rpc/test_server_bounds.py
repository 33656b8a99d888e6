"""Bounds of an RPC server."""

from __future__ import annotations

import pytest
import trio.testing
from trio.abc import Stream

from tests.virtuallog.rpc.shop import Everything, Stored, Wait, Waited, interfaces
from tests.virtuallog.rpc.test_services import Outcomes, store
from tests.virtuallog.rpc.world import SHOP, TrioClock, shop_world
from virtuallog.contract.errors import OverloadedError, UnavailableError
from virtuallog.rpc.channel import SEND_BYTES, Channel
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.server import UNSENT_BYTES_MAX as SERVER_UNSENT_BYTES_MAX
from virtuallog.rpc.session import UNSENT_BYTES_MAX


async def test_node_that_does_not_take_calls_is_overloaded(autojump_clock: object) -> None:
    """Bytes that wait for a node are bounded; beyond, posts fail with nothing sent."""
    async with shop_world() as world:
        world.make_pair = trio.testing.lockstep_stream_pair

        async def stuck(_: str) -> Stream:
            return trio.testing.lockstep_stream_pair()[0]

        world.connect = stuck
        client, outcomes = await world.client(), Outcomes()
        batch = 8 << 20
        posts = UNSENT_BYTES_MAX // batch + 5
        for position in range(posts):
            client.post(SHOP, store(position, batch), outcomes.done, 60.0)
        await trio.testing.wait_all_tasks_blocked()

        refused = len(outcomes.received)
        assert {type(outcome) for outcome in outcomes.received} == {OverloadedError}
        assert 3 <= refused < posts


async def test_slow_reader_keeps_the_servers_memory_bounded(autojump_clock: object) -> None:
    """No more is read from a client that asks for megabytes and takes none of them."""
    async with shop_world() as world:
        ours, theirs = trio.testing.lockstep_stream_pair()
        world.nursery.start_soon(world.server.serve_stream, theirs)
        greedy = RpcConnection.new(bind(interfaces()))
        greedy.questions.open(OpenNode())
        await ours.send_all(b"".join(greedy.outbox.take()))
        echoed, sent = Everything(raw_bytes=b"m" * (4 << 20)), 0
        while sent < 40:
            greedy.questions.call(echoed)
            with trio.move_on_after(1) as waiting:
                await ours.send_all(b"".join(greedy.outbox.take()))
            if waiting.cancelled_caught:
                break
            sent += 1

        assert 4 <= sent <= (SERVER_UNSENT_BYTES_MAX + 2 * FRAME_BYTES_MAX) // len(echoed.raw_bytes)
        assert await (await world.client()).call(SHOP, store(40), 1.0) == Stored(41)


async def test_what_a_slow_reader_leaves_is_weighed_as_it_is_held(autojump_clock: object) -> None:
    """Replies joined for sending count as held until their last byte is taken.

    Megabytes pile up, and the other side takes them by the kilobyte.
    """
    ours, theirs = trio.testing.memory_stream_pair()
    channel = Channel(RpcConnection.new(bind(interfaces())), TrioClock())
    held: list[int] = []

    async def hold(data: bytes | bytearray | memoryview) -> None:
        held[:] = [
            memoryview(data.obj).nbytes if isinstance(data, memoryview) else len(data)
        ]  # objects that a view keeps alive
        assert channel.unsent_bytes >= held[0] + channel.connection.outbox.waiting_bytes
        await send_all(data)

    send_all, ours.send_stream.send_all = ours.send_stream.send_all, hold  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run, ours, lambda event: None)
        for _ in range(64):
            channel.connection.outbox.put([b"x" * (512 << 10)])
        channel.kick()
        received = 0
        while received < 64 * ((512 << 10) + 8) and (chunk := await theirs.receive_some()):
            received += len(chunk)
            assert held[0] <= SEND_BYTES + (512 << 10) + 8
        await trio.testing.wait_all_tasks_blocked()

        assert channel.unsent_bytes == 0
        nursery.cancel_scope.cancel()


async def test_small_requests_for_large_replies_do_not_fill_memory(autojump_clock: object) -> None:
    """A hundred reads in one packet, 800 MB in all, do not fill memory: most get an error that
    their reply was dropped."""
    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        for _ in range(100):
            client.post(SHOP, Everything(name="inflate"), outcomes.done, 60.0)
        await outcomes.wait(100)
        replies = [outcome for outcome in outcomes.received if isinstance(outcome, Everything)]
        dropped = [outcome for outcome in outcomes.received if isinstance(outcome, UnavailableError)]

        assert len(replies) + len(dropped) == 100
        assert 4 <= len(replies) <= 2 * SERVER_UNSENT_BYTES_MAX // (8 << 20) + 1


async def test_flood_of_one_client_does_not_starve_another(autojump_clock: object) -> None:
    """A client with thousands of unanswered calls does not hold up another one."""
    async with shop_world() as world:
        flooder, polite, outcomes = await world.client(), await world.client(), Outcomes()
        for token in range(4000):
            flooder.post(SHOP, Wait(token), outcomes.done, 60.0)
        for position in range(40, 50):
            assert await polite.call(SHOP, store(position), 1.0) == Stored(position + 1)
        await trio.testing.wait_all_tasks_blocked()
        held = len(world.shop.waiting)
        assert held < 4000  # the server reads no more of the flooding client than its share

        while len(outcomes.received) < 4000:
            world.shop.release(list(world.shop.waiting))
            await trio.testing.wait_all_tasks_blocked()
        assert outcomes.received == [Waited(token) for token in range(4000)]


@pytest.mark.parametrize(
    "rubbish",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0\0\0\0\xff\xff\xff\x7f", b"\0\0\0\0\1\0\0\0" + b"\xee" * 8],
    ids=["another protocol", "too many segments", "huge frame", "broken pointer"],
)
async def test_rubbish_ends_its_own_connection_only(autojump_clock: object, rubbish: bytes) -> None:
    """A client that sends rubbish gets an abort and is cut off; its neighbour is not affected."""
    async with shop_world() as world:
        client = await world.client()
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        stranger = await world.connect_to_server("shop:1")
        await stranger.send_all(rubbish)
        answer = b""
        while chunk := await stranger.receive_some():
            answer += chunk

        assert b"not an RPC message" in answer or b"limit" in answer
        assert await client.call(SHOP, store(41), 1.0) == Stored(42)
        assert len(world.server_ends) == 2


async def test_truncated_frame_waits_and_then_ends_quietly(autojump_clock: object) -> None:
    """Half a frame, then the end of the stream, makes no call and does no harm."""
    async with shop_world() as world:
        stranger = await world.connect_to_server("shop:1")
        await stranger.send_all(b"\0\0\0\0\x10\0\0\0" + b"\0" * 20)
        await trio.testing.wait_all_tasks_blocked()
        await stranger.aclose()
        await trio.testing.wait_all_tasks_blocked()

        assert await (await world.client()).call(SHOP, store(40), 1.0) == Stored(41)
