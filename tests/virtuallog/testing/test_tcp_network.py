"""Simulated TCP: bytes arrive in order or not at all, and connections break in all the known ways."""

from __future__ import annotations

from typing import Final

import pytest
import trio

from tests.virtuallog.testing.tcp_pair import A, B, World, simulated
from virtuallog.testing.sim.network import LinkQuality
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.tcp_connection import KEEP_ALIVE_SECONDS, UNANSWERED_SECONDS
from virtuallog.testing.sim.tcp_network import CONNECT_RETRY_SECONDS, SimulatedStream, StreamQuality
from virtuallog_simulation.world.transport import address_of

TEXT: Final = bytes(range(256)) * 40


async def read_all(stream: SimulatedStream) -> list[bytes]:
    """Return each piece that arrives, until the other side has ended."""
    pieces = []
    while piece := await stream.receive_some():
        pieces.append(piece)
    return pieces


# -- bytes ------------------------------------------------------------------------------------------------------


@simulated(
    StreamQuality(cut=0.5, buffer_bytes=500),
    LinkQuality(loss=0.2, duplicate=0.2, reorder=0.5, replay=0.1, tail_probability=0.2, tail_seconds=0.3),
)
async def test_bytes_arrive_once_and_in_order_whatever_the_links_do(world: World) -> None:
    """Losses, duplicates, reorders, delays and replays of segments never show in the stream."""
    ours, theirs = await world.connected()

    async def send() -> None:
        await ours.send_all(TEXT)
        await ours.aclose()

    world.nursery.start_soon(send)
    assert b"".join(await read_all(theirs)) == TEXT
    for fault in ("lost", "duplicated", "reordered", "replayed", "cut", "sent again"):
        assert world.counts[fault] > 0, fault


@simulated(StreamQuality(cut=0.3))
async def test_what_was_written_is_cut_and_joined_anywhere(world: World) -> None:
    """A reader sees neither the beginning nor the end of a write."""
    ours, theirs = await world.connected()
    for start in range(0, len(TEXT), 64):
        await ours.send_all(TEXT[start : start + 64])
        await trio.sleep(0.0001)
    await ours.aclose()

    pieces = await read_all(theirs)

    assert b"".join(pieces) == TEXT
    assert min(map(len, pieces)) < 64 < max(map(len, pieces))


@simulated(StreamQuality(buffer_bytes=100))
async def test_a_writer_waits_for_a_reader(world: World) -> None:
    """The buffers on the way are bounded, so a writer waits for a reader."""
    ours, theirs = await world.connected()
    with trio.move_on_after(60) as limit:
        await ours.send_all(TEXT)
    assert limit.cancelled_caught

    assert await theirs.receive_some() == TEXT[:100]
    with trio.fail_after(1):
        await ours.wait_send_all_might_not_block()


@simulated()
async def test_a_blocked_link_stalls_a_stream_and_loses_nothing(world: World) -> None:
    """A partition that ends before an end gives up loses nothing: everything arrives then."""
    ours, theirs = await world.connected()
    world.block()
    await ours.send_all(b"hello")
    with trio.move_on_after(10) as limit:
        await theirs.receive_some()
    assert limit.cancelled_caught

    world.network.heal()
    with trio.fail_after(5):
        assert await theirs.receive_some() == b"hello"


# -- ends -------------------------------------------------------------------------------------------------------


@simulated()
async def test_a_closed_stream_ends_behind_its_last_byte(world: World) -> None:
    """The other side reads all bytes, then the end; its own answer gets a reset."""
    ours, theirs = await world.connected()
    await ours.send_all(b"goodbye")
    await ours.aclose()

    assert await read_all(theirs) == [b"goodbye"]
    await theirs.send_all(b"wait")
    await trio.sleep(1)
    with pytest.raises(trio.BrokenResourceError):
        await theirs.send_all(b"wait!")
    with pytest.raises(trio.ClosedResourceError):
        await ours.receive_some()


@simulated()
async def test_a_killed_process_leaves_its_streams_to_the_kernel(world: World) -> None:
    """Bytes that a killed process had written still arrive, with an end behind them; unread ones
    become a reset."""
    listener = world.listener()
    said, unread = [await world.streams.connect(world.a, address_of(B)) for _ in range(2)]
    await said.send_all(b"last words")
    told = await listener.accept()
    asking = await listener.accept()
    await asking.send_all(b"are you there?")
    await trio.sleep(1)

    world.a.crash()
    world.streams.end(world.a, power=False)

    assert await read_all(told) == [b"last words"]
    with pytest.raises(trio.BrokenResourceError):
        await asking.receive_some()
    with pytest.raises(CrashedError):
        await unread.receive_some()


@simulated(StreamQuality(patience_seconds=10))
async def test_a_machine_without_power_leaves_the_other_end_half_open(world: World) -> None:
    """Bytes to a machine without power vanish, until they are unacknowledged for too long."""
    ours, _ = await world.connected()
    world.b.crash()
    world.streams.end(world.b, power=True)
    await ours.send_all(b"are you there?")
    began = trio.current_time()
    with pytest.raises(trio.BrokenResourceError):
        await ours.receive_some()

    assert 10 <= trio.current_time() - began <= 14
    assert world.counts["half-open"] == 1


@simulated()
async def test_an_idle_half_open_stream_is_noticed_by_keep_alive(world: World) -> None:
    """Keep-alive ends an idle half-open stream, so a reader does not wait for ever."""
    ours, _ = await world.connected()
    world.b.crash()
    world.streams.end(world.b, power=True)
    with pytest.raises(trio.BrokenResourceError), trio.fail_after(KEEP_ALIVE_SECONDS + UNANSWERED_SECONDS + 1):
        await ours.receive_some()


@simulated()
async def test_a_machine_that_is_back_knows_none_of_its_old_streams(world: World) -> None:
    """A machine that is back answers with a reset, a round trip after the next byte."""
    ours, _ = await world.connected()
    world.b.crash()
    world.streams.end(world.b, power=True)
    await trio.sleep(3)
    world.streams.start(B)
    await ours.send_all(b"are you there?")
    with pytest.raises(trio.BrokenResourceError), trio.fail_after(1):
        await ours.receive_some()


@simulated()
async def test_a_reset_of_one_end_reaches_the_other_when_that_sends(world: World) -> None:
    """After a reset of one end, the other believes in the connection until it sends."""
    ours, theirs = await world.connected()
    world.connection.reset(ours)
    with pytest.raises(trio.BrokenResourceError):
        await ours.send_all(b"hello")

    await theirs.send_all(b"hello")
    await trio.sleep(1)
    with pytest.raises(trio.BrokenResourceError):
        await theirs.receive_some()
    assert list(world.streams.connections) == []


@simulated()
async def test_a_reset_of_both_ends_loses_what_was_on_the_way(world: World) -> None:
    """A reset of both ends wakes waiting tasks at once, and loses the bytes on the way."""
    ours, theirs = await world.connected()
    await ours.send_all(b"hello")
    world.connection.reset()
    for end in (ours, theirs):
        with pytest.raises(trio.BrokenResourceError):
            await end.receive_some()


@simulated()
async def test_a_stalled_stream_goes_on_where_it_stopped(world: World) -> None:
    """A stalled stream goes on where it stopped; others between the same machines are not held."""
    ours, theirs = await world.connected()
    world.connection.stall(5)
    await ours.send_all(b"hello")
    began = trio.current_time()

    assert await theirs.receive_some() == b"hello"
    assert trio.current_time() - began == pytest.approx(5)


@simulated()
async def test_a_vanished_stream_tells_nobody(world: World) -> None:
    """Both ends of a vanished stream find out by themselves."""
    ours, theirs = await world.connected()
    world.connection.vanish()
    for end in (ours, theirs):
        with pytest.raises(trio.BrokenResourceError):
            await end.receive_some()
    assert trio.current_time() >= KEEP_ALIVE_SECONDS


@simulated()
async def test_a_paused_process_neither_reads_nor_writes(world: World) -> None:
    """The kernel of a paused process takes incoming bytes; the process reads them when it is resumed."""
    ours, theirs = await world.connected()
    world.b.pause()
    await ours.send_all(b"hello")
    with trio.move_on_after(5) as limit:
        await theirs.receive_some()
    assert limit.cancelled_caught

    world.b.resume()
    assert await theirs.receive_some() == b"hello"
    assert world.counts["sent again"] == 0


# -- connecting -------------------------------------------------------------------------------------------------


@simulated()
async def test_a_machine_on_which_nobody_listens_refuses(world: World) -> None:
    """A machine without a listener refuses within a round trip."""
    with pytest.raises(ConnectionRefusedError), trio.fail_after(0.01):
        await world.streams.connect(world.a, address_of(B))


@simulated()
async def test_a_machine_without_power_does_not_answer(world: World) -> None:
    """A connection attempt to a machine without power ends when the kernel gives up; product code
    does not wait so long."""
    world.streams.end(world.b, power=True)
    began = trio.current_time()
    with pytest.raises(TimeoutError):
        await world.streams.connect(world.a, address_of(B))
    assert trio.current_time() - began == pytest.approx(sum(CONNECT_RETRY_SECONDS))


@simulated()
async def test_a_connection_that_its_maker_gave_up_ends_at_the_other_side(world: World) -> None:
    """A connection that its maker gave up ends at the other side: the acceptor reads a reset."""
    listener = world.listener()
    world.network.link(B, A).clogged_until = 5.0
    with trio.move_on_after(1) as limit:
        await world.streams.connect(world.a, address_of(B))
    assert limit.cancelled_caught

    stream = await listener.accept()
    with pytest.raises(trio.BrokenResourceError), trio.fail_after(10):
        await stream.receive_some()


@simulated()
async def test_an_address_is_free_again_when_its_process_is_dead(world: World) -> None:
    """An address is free again when its process is dead, and not before."""
    world.listener()
    with pytest.raises(OSError, match="in use"):
        world.listener()
    world.b.crash()
    world.b = Process(B, 2)
    ours, theirs = await world.connected()
    assert (ours.is_open, theirs.process.boot) == (True, 2)
