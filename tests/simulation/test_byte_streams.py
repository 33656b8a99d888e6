"""Simulated TCP on its own, under the RPC, and under a whole cluster."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs
import pytest
import trio

from simulation.options import Options
from simulation.runner import run_seed
from simulation.world import scheduler
from simulation.world.transport import STREAMS, STREAMS_SHARE, Calls, Transport, address_of, draw, node_at
from tests.rpc.shop import IDENTITY, Shop, Store, Stored, interfaces
from virtuallog.chain import SegmentId
from virtuallog.errors import UnavailableError
from virtuallog.ports import Services
from virtuallog.rpc import Peer, RpcServer, RpcServices
from virtuallog.rpc.session import SILENCE_SECONDS
from virtuallog.testing.byte_streams import (
    CONNECT_RETRY_SECONDS,
    ByteStreams,
    Connection,
    SimulatedListener,
    SimulatedStream,
    StreamQuality,
)
from virtuallog.testing.clock import SimulatedClock
from virtuallog.testing.connection import KEEP_ALIVE_SECONDS, UNANSWERED_SECONDS
from virtuallog.testing.network import LinkQuality, SimulatedNetwork
from virtuallog.testing.process import CrashedError, Process
from virtuallog.testing.timeline import Timeline
from virtuallog.types import NodeId

A, B = NodeId(1), NodeId(2)
TEXT: Final = bytes(range(256)) * 40


@attrs.define(eq=False)
class World:
    """Process A, which connects, and process B, which listens."""

    network: SimulatedNetwork
    streams: ByteStreams
    nursery: trio.Nursery
    a: Process = attrs.field(factory=lambda: Process(A))
    b: Process = attrs.field(factory=lambda: Process(B))

    def listener(self) -> SimulatedListener:
        return self.streams.listen(self.b, address_of(B))

    async def connected(self) -> tuple[SimulatedStream, SimulatedStream]:
        """A's end and B's end of a new connection."""
        listener = self.listener()
        ours = await self.streams.connect(self.a, address_of(B))
        return ours, await listener.accept()

    def block(self) -> None:
        """Nothing gets through, in either direction."""
        self.network.link(A, B).blocked = self.network.link(B, A).blocked = True

    @property
    def connection(self) -> Connection:
        """The only one."""
        (only,) = self.streams.connections
        return only

    @property
    def counts(self) -> dict[str, int]:
        return self.network.counts


Story = Callable[[World], Awaitable[None]]


def simulated(
    quality: StreamQuality | None = None, links: LinkQuality | None = None
) -> Callable[[Story], Callable[[], None]]:
    """Runs an async test in simulated time."""

    async def main(story: Story) -> None:
        network = SimulatedNetwork(Timeline(), random.Random(1), links or LinkQuality())
        streams = ByteStreams(network, random.Random(2), node_at, quality or StreamQuality())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.timeline.run)
            await story(World(network, streams, nursery))
            nursery.cancel_scope.cancel()

    def decorate(story: Story) -> Callable[[], None]:
        def test() -> None:
            scheduler.run(1, lambda: main(story))

        test.__name__, test.__doc__ = story.__name__, story.__doc__
        return test

    return decorate


async def read_all(stream: SimulatedStream) -> list[bytes]:
    """Each piece that comes, until the other side has ended."""
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
    """A link loses, doubles, reorders, delays and replays segments: none of it shows in the stream."""
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
    """A reader sees neither where a write began nor where it ended."""
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
    """The buffers on the way are bounded, whoever fills them."""
    ours, theirs = await world.connected()
    with trio.move_on_after(60) as limit:
        await ours.send_all(TEXT)
    assert limit.cancelled_caught

    assert await theirs.receive_some() == TEXT[:100]
    with trio.fail_after(1):
        await ours.wait_send_all_might_not_block()


@simulated()
async def test_a_blocked_link_stalls_a_stream_and_loses_nothing(world: World) -> None:
    """A partition is over before anybody gives up: all of it arrives then."""
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
    """The other side reads all of it, then the end; its own answer goes to nobody, which it is told."""
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
    """What it had written still arrives, with an end behind it. What it had not read becomes a reset."""
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
    """What is written to it vanishes, until nobody has acknowledged it for too long."""
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
    """Nobody writes anything; still a reader does not wait for ever."""
    ours, _ = await world.connected()
    world.b.crash()
    world.streams.end(world.b, power=True)
    with pytest.raises(trio.BrokenResourceError), trio.fail_after(KEEP_ALIVE_SECONDS + UNANSWERED_SECONDS + 1):
        await ours.receive_some()


@simulated()
async def test_a_machine_that_is_back_knows_none_of_its_old_streams(world: World) -> None:
    """It answers with a reset, a round trip after the next byte."""
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
    """Until then it believes in the connection."""
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
    """At once, for whoever waits."""
    ours, theirs = await world.connected()
    await ours.send_all(b"hello")
    world.connection.reset()
    for end in (ours, theirs):
        with pytest.raises(trio.BrokenResourceError):
            await end.receive_some()


@simulated()
async def test_a_stalled_stream_goes_on_where_it_stopped(world: World) -> None:
    """Others between the same machines are not held."""
    ours, theirs = await world.connected()
    world.connection.stall(5)
    await ours.send_all(b"hello")
    began = trio.current_time()

    assert await theirs.receive_some() == b"hello"
    assert trio.current_time() - began == pytest.approx(5)


@simulated()
async def test_a_vanished_stream_tells_nobody(world: World) -> None:
    """Both ends find out by themselves."""
    ours, theirs = await world.connected()
    world.connection.vanish()
    for end in (ours, theirs):
        with pytest.raises(trio.BrokenResourceError):
            await end.receive_some()
    assert trio.current_time() >= KEEP_ALIVE_SECONDS


@simulated()
async def test_a_paused_process_neither_reads_nor_writes(world: World) -> None:
    """Its kernel takes what comes, and it finds that when it is resumed."""
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
    """Within a round trip."""
    with pytest.raises(ConnectionRefusedError), trio.fail_after(0.01):
        await world.streams.connect(world.a, address_of(B))


@simulated()
async def test_a_machine_without_power_does_not_answer(world: World) -> None:
    """Until the kernel gives up, which no product code waits for."""
    world.streams.end(world.b, power=True)
    began = trio.current_time()
    with pytest.raises(TimeoutError):
        await world.streams.connect(world.a, address_of(B))
    assert trio.current_time() - began == pytest.approx(sum(CONNECT_RETRY_SECONDS))


@simulated()
async def test_a_connection_that_its_maker_gave_up_ends_at_the_other_side(world: World) -> None:
    """The answer comes too late: whoever accepted it reads a reset."""
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
    """And not before."""
    world.listener()
    with pytest.raises(OSError, match="in use"):
        world.listener()
    world.b.crash()
    world.b = Process(B, 2)
    ours, theirs = await world.connected()
    assert (ours.is_open, theirs.process.boot) == (True, 2)


# -- RPC over it ------------------------------------------------------------------------------------------------


def store(position: int) -> Store:
    return Store(segment=SegmentId(1, 2), batch=b"b" * 100, position=position)


@asynccontextmanager
async def shop(world: World) -> AsyncIterator[tuple[Shop, Services]]:
    """A shop on B, a client on A."""
    kept, clock = Shop(), SimulatedClock(world.a)
    server = RpcServer(kept.handlers(), interfaces(), lambda: IDENTITY, SimulatedClock(world.b))
    client = RpcServices(
        interfaces(), lambda _: Peer((address_of(B),)), lambda to: world.streams.connect(world.a, to), clock,
        random.Random(3),
    )  # fmt: skip
    world.nursery.start_soon(server.serve, [world.listener()])
    await world.nursery.start(client.run)
    yield kept, client


@simulated(StreamQuality(read_bytes_max=1))
async def test_calls_over_a_stream_that_is_cut_at_every_byte(world: World) -> None:
    """A frame may arrive in as many pieces as it has bytes."""
    async with shop(world) as (kept, client):
        for position in range(40, 45):
            assert await client.call(B, store(position), 1.0) == Stored(position + 1)
        assert kept.stored == [store(position) for position in range(40, 45)]


@simulated()
async def test_calls_over_a_reset_connection_are_unknown_and_the_next_one_connects_again(world: World) -> None:
    """The request was executed; only the answer is gone."""
    async with shop(world) as (kept, client):
        assert await client.call(B, store(40), 1.0) == Stored(41)
        connection = world.connection
        world.nursery.start_soon(_reset_soon, world)
        world.network.link(B, A).clogged_until = trio.current_time() + 0.1
        with pytest.raises(UnavailableError, match="connection reset by peer"):
            await client.call(B, store(41), 1.0)

        assert await client.call(B, store(42), 1.0) == Stored(43)
        assert len(kept.stored) == 3
        assert not connection.is_open


async def _reset_soon(world: World) -> None:
    await trio.sleep(0.05)
    world.connection.reset()


@simulated()
async def test_calls_over_a_half_open_connection_find_another_after_silence(world: World) -> None:
    """Nobody says that the connection is none: the session gives it up when all that time nothing has come."""
    async with shop(world) as (_, client):
        assert await client.call(B, store(40), 1.0) == Stored(41)
        world.connection.vanish()
        with pytest.raises(UnavailableError):
            await client.call(B, store(41), SILENCE_SECONDS + 1)

        assert await client.call(B, store(42), 1.0) == Stored(43)


# -- clusters over it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scenario", "seed"), [("cluster", 1), ("cluster", 2), ("register", 1), ("register", 2)])
def test_every_promise_is_kept_over_byte_streams(scenario: str, seed: int) -> None:
    """The product's whole RPC stack runs, and is put through what TCP can be put through."""
    report = run_seed(seed, scenario, options=Options(transport=STREAMS))

    assert report.violations == ()
    assert report.counts["rpc over streams"] == 1
    assert report.counts["segments"] > 100


@pytest.mark.parametrize("transport", [None, STREAMS])
def test_a_run_says_how_its_processes_talked(transport: str | None) -> None:
    """Calls are in the trace by name, also those that travelled as bytes; so are the segments that carried them."""
    report = run_seed(3, "register", options=Options(transport=transport), messages=True)
    told = "".join(map(repr, report.history.events))

    assert "Prepare(" in told
    assert ("Carried(" in told) == bool(report.counts["rpc over streams"])


def test_a_share_of_the_seeds_runs_over_streams() -> None:
    """About as many as announced."""
    network = SimulatedNetwork(Timeline(), random.Random(1))

    def draw_for(seed: int) -> Transport:
        return draw(network, lambda purpose: random.Random(f"{seed} {purpose}"), None, (), ())

    drawn = [draw_for(seed) for seed in range(1000)]
    share = sum(not isinstance(transport, Calls) for transport in drawn) / len(drawn)

    assert share == pytest.approx(STREAMS_SHARE, abs=0.03)
