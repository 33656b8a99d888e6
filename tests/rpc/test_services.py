"""Clients and servers on streams in memory: links, timeouts, bounds, and what becomes of calls when things break."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.abc import Stream

from tests.rpc.shop import IDENTITY, Everything, NotServed, Shop, Store, Stored, Visit, Wait, Waited, interfaces
from tests.rpc.world import SHOP, TrioClock, shop_world
from virtuallog.chain import SegmentId
from virtuallog.errors import (
    OverloadedError,
    SealedError,
    TrimmedError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.rpc import Hello, Open, Peer, RpcServices
from virtuallog.rpc.channel import SEND_BYTES, Channel
from virtuallog.rpc.connection import Connection
from virtuallog.rpc.frames import FRAME_BYTES_MAX
from virtuallog.rpc.link import CONNECT_SECONDS
from virtuallog.rpc.methods import bind
from virtuallog.rpc.server import UNSENT_BYTES_MAX as SERVER_UNSENT_BYTES_MAX
from virtuallog.rpc.services import SWEEP_SECONDS
from virtuallog.rpc.session import SILENCE_SECONDS, UNSENT_BYTES_MAX
from virtuallog.types import NodeId


def store(position: int, size: int = 10) -> Store:
    return Store(segment=SegmentId(1, 2), batch=b"b" * size, position=position)


@attrs.define
class Outcomes:
    """Collects what `done` is called with."""

    received: list[Any] = attrs.field(factory=list)
    _arrived: trio.Event = attrs.field(factory=trio.Event)

    def done(self, outcome: Any) -> None:
        self.received.append(outcome)
        self._arrived.set()

    async def wait(self, count: int) -> list[Any]:
        while len(self.received) < count:
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self.received


async def test_call_is_answered(autojump_clock: object) -> None:
    """The simplest thing."""
    async with shop_world() as world:
        client = await world.client()

        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert await client.call(SHOP, Hello(), 1.0) == IDENTITY
        assert world.shop.stored == [store(40)]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (store(1), SealedError()),
        (store(2), TrimmedError(77)),
        (store(3), OverloadedError("no room in the shop")),
        (store(4), UnavailableError("the node failed to handle Store")),
        (store(5), UnavailableError("the node failed to encode its reply")),
        (NotServed(), UnsupportedError("this node does not serve NotServed")),
    ],
    ids=["sealed", "trimmed", "raised", "bug in a handler", "reply does not fit", "no handler"],
)
async def test_error_reaches_the_caller_and_the_node_lives(
    autojump_clock: object, request_: Any, error: VirtualLogError
) -> None:
    """Whatever goes wrong in one call, the next is served."""
    async with shop_world() as world:
        client = await world.client()
        with pytest.raises(type(error)) as caught:
            await client.call(SHOP, request_, 1.0)

        assert repr(caught.value) == repr(error)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert len(world.server_ends) == 1


async def test_unknown_interface_is_unsupported(autojump_clock: object) -> None:
    """A newer client asks an older node."""
    async with shop_world() as world:
        client = await world.client()
        with pytest.raises(UnsupportedError):
            await client.call(SHOP, Visit(), 1.0)


async def test_requests_arrive_in_the_order_they_were_posted(autojump_clock: object) -> None:
    """Over one link, opened by the first of them; `done` comes later, never from within post."""
    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        for position in range(100, 200):
            client.post(SHOP, store(position), outcomes.done, 1.0)
        assert outcomes.received == []

        assert await outcomes.wait(100) == [Stored(position + 1) for position in range(100, 200)]
        assert world.shop.stored == [store(position) for position in range(100, 200)]


@attrs.define
class CountingStream(trio.abc.HalfCloseableStream):
    """Counts what is sent at once."""

    inner: Any
    sends: list[int] = attrs.field(factory=list)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.sends.append(len(data))
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        received: bytes | bytearray = await self.inner.receive_some(max_bytes)
        return received

    async def send_eof(self) -> None:
        await self.inner.send_eof()

    async def aclose(self) -> None:
        await self.inner.aclose()


async def test_one_turn_is_one_segment(autojump_clock: object) -> None:
    """Everything posted in one turn leaves in one send, bootstrap and open included; so do the replies."""
    streams: list[CountingStream] = []

    def counting_pair() -> tuple[Stream, Stream]:
        ours, theirs = trio.testing.memory_stream_pair()
        streams[:] = [CountingStream(ours), CountingStream(theirs)]
        return streams[0], streams[1]

    async with shop_world() as world:
        world.make_pair = counting_pair
        client, outcomes = await world.client(), Outcomes()
        for position in range(100, 150):
            client.post(SHOP, store(position), outcomes.done, 1.0)
        await outcomes.wait(50)
        await trio.testing.wait_all_tasks_blocked()

        ours, theirs = streams
        assert len(ours.sends) == 2  # the calls; the finishes of bootstrap and open
        assert len(theirs.sends) == 1


async def test_timeout_is_unknown_and_the_late_reply_is_dropped(autojump_clock: object) -> None:
    """At the deadline (and a sweep) the caller hears UnavailableError; what comes after, nobody hears."""
    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        start = trio.current_time()  # noqa: TID251 -- the test's own clock
        client.post(SHOP, Wait(5), outcomes.done, 0.5)
        (outcome,) = await outcomes.wait(1)
        waited = trio.current_time() - start  # noqa: TID251 -- the test's own clock
        assert isinstance(outcome, UnavailableError)
        assert 0.5 <= waited <= 0.5 + 2 * SWEEP_SECONDS

        world.shop.release([5])
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert len(outcomes.received) == 1
        assert len(world.server_ends) == 1


async def test_a_wait_for_an_answer_wakes_nobody_before_the_first_deadline(autojump_clock: object) -> None:
    """Timeouts cost nothing until they are due; a call that is due earlier than all others is noticed all the same."""

    @attrs.define(eq=False)
    class Steps(trio.abc.Instrument):
        count: int = 0

        def before_task_step(self, task: object) -> None:
            self.count += 1

    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        await client.call(SHOP, Hello(), 1.0)
        steps, start = Steps(), trio.current_time()  # noqa: TID251 -- the test's own clock
        trio.lowlevel.add_instrument(steps)
        client.post(SHOP, Wait(1), outcomes.done, 4.0)
        client.post(SHOP, Wait(2), outcomes.done, 3.0)

        assert isinstance((await outcomes.wait(1))[0], UnavailableError)
        waited = trio.current_time() - start  # noqa: TID251 -- the test's own clock
        trio.lowlevel.remove_instrument(steps)
        assert 3.0 <= waited <= 3.0 + 2 * SWEEP_SECONDS
        assert steps.count < 30


async def test_cancelled_call_drops_its_reply(autojump_clock: object) -> None:
    """Cancelling stops the wait, not the request; the connection goes on."""
    async with shop_world() as world:
        client = await world.client()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call, SHOP, Wait(5), 60.0)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        world.shop.release([5])

        assert await client.call(SHOP, store(40), 1.0) == Stored(41)


async def test_lost_connection_fails_what_was_in_flight_at_once(autojump_clock: object) -> None:
    """No waiting for timeouts; and the next call opens a new connection."""
    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        for token in range(5):
            client.post(SHOP, Wait(token), outcomes.done, 60.0)
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()  # noqa: TID251 -- the test's own clock
        await trio.aclose_forcefully(world.server_ends[0])

        assert [type(outcome) for outcome in await outcomes.wait(5)] == [UnavailableError] * 5
        assert trio.current_time() - start < 1.5  # noqa: TID251 -- the test's own clock
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert len(world.server_ends) == 2


async def test_unreachable_node_fails_at_once_and_is_tried_again(autojump_clock: object) -> None:
    """Refused: calls fail without waiting, and while the link backs off nobody knocks; then it recovers."""
    async with shop_world() as world:
        attempts = []

        async def refuse(address: str) -> Stream:
            attempts.append(address)
            raise ConnectionRefusedError("nobody there")

        world.connect = refuse
        client = await world.client()
        for _ in range(20):
            with pytest.raises(UnavailableError, match="nobody there"):
                await client.call(SHOP, store(40), 60.0)
        assert len(attempts) == 1

        world.connect = world.connect_to_server
        await trio.sleep(0.1)  # noqa: TID251 -- the test's own clock
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)


async def test_address_that_does_not_answer_is_given_up(autojump_clock: object) -> None:
    """A black hole: calls fail by their own timeout, the attempt by its."""
    async with shop_world() as world:

        async def hang(address: str) -> Stream:
            await trio.sleep_forever()
            raise AssertionError(address)

        world.connect = hang
        client, outcomes = await world.client(), Outcomes()
        client.post(SHOP, store(40), outcomes.done, CONNECT_SECONDS / 2)
        client.post(SHOP, store(41), outcomes.done, CONNECT_SECONDS * 2)
        short, long = await outcomes.wait(2)

        assert "no answer to Store within 1 s" in str(short)
        assert "unreachable" in str(long)


async def test_silent_connection_is_taken_for_dead(autojump_clock: object) -> None:
    """Half-open: bytes go in, none come out. After some seconds of timeouts a new connection is made."""
    async with shop_world() as world:

        async def swallow(_: str) -> Stream:
            ours, theirs = trio.testing.memory_stream_pair()
            world.server_ends.append(theirs)
            return ours

        world.connect = swallow
        client, outcomes = await world.client(), Outcomes()
        client.post(SHOP, store(40), outcomes.done, 1.0)
        await outcomes.wait(1)
        client.post(SHOP, store(40), outcomes.done, SILENCE_SECONDS)
        client.post(SHOP, Wait(1), outcomes.done, 600.0)
        _, _, cut_off = await outcomes.wait(3)
        assert "silent" in str(cut_off)

        world.connect = world.connect_to_server
        await trio.sleep(0.1)  # noqa: TID251 -- the test's own clock
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)


async def test_idle_time_is_no_silence(autojump_clock: object) -> None:
    """Nobody asks for a minute; then a hasty call times out beside a patient one. The node had one second to speak, and
    it answers the patient one when it can."""
    async with shop_world() as world:
        client, hasty, patient = await world.client(), Outcomes(), Outcomes()
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        await trio.sleep(60)  # noqa: TID251 -- the test's own clock
        client.post(SHOP, Wait(1), patient.done, 2 * SILENCE_SECONDS)
        client.post(SHOP, Wait(2), hasty.done, 1.0)
        await hasty.wait(1)
        world.shop.release([1])

        assert await patient.wait(1) == [Waited(1)]
        assert len(world.server_ends) == 1


async def test_many_hasty_calls_notice_a_silent_node(autojump_clock: object) -> None:
    """Each gives up long before the node counts as dead; together they have waited long enough."""
    async with shop_world() as world:

        async def swallow(_: str) -> Stream:
            ours, theirs = trio.testing.memory_stream_pair()
            world.server_ends.append(theirs)
            return ours

        world.connect = swallow
        client, said = await world.client(), ""
        for _ in range(int(SILENCE_SECONDS) + 2):
            with pytest.raises(UnavailableError) as caught:
                await client.call(SHOP, store(40), 1.0)
            said += str(caught.value)

        assert "silent for 5" in said


async def test_wrong_node_fails_typed_and_unexecuted(autojump_clock: object) -> None:
    """Somebody else answers at the address: every call says so, none is executed; a new table heals it at once."""
    async with shop_world() as world:
        world.expected = Open(boot=9)
        client, outcomes = await world.client(), Outcomes()
        for position in range(10, 13):
            client.post(SHOP, store(position), outcomes.done, 1.0)
        assert [type(outcome) for outcome in await outcomes.wait(3)] == [WrongRecipientError] * 3
        assert world.shop.stored == []

        world.expected = Open(boot=IDENTITY.boot)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)


async def test_a_connection_to_a_directory_that_was_given_up_is_used_no_more(autojump_clock: object) -> None:
    """It works as well as ever, and would be asked for ever about what the new directory should have."""
    async with shop_world() as world:
        world.expected = Open(store_id=IDENTITY.store_id)
        client, outcomes = await world.client(), Outcomes()
        client.post(SHOP, Wait(token=7), outcomes.done, 60.0)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)

        world.expected = Open(store_id=b"B" * 16)  # as a newer register says
        client.post(SHOP, store(41), outcomes.done, 1.0)
        assert outcomes.received == [], "nobody is called from within a post"

        waiting, stored = await outcomes.wait(2)
        assert "is not the one meant any more" in str(waiting)
        assert isinstance(stored, WrongRecipientError)
        assert world.shop.stored == [store(40)]
        world.identity = attrs.evolve(IDENTITY, store_id=b"B" * 16)
        await trio.sleep(0.1)  # noqa: TID251 -- the test's own clock
        assert await client.call(SHOP, store(42), 1.0) == Stored(43)


async def test_a_connection_stays_when_only_the_address_is_another(autojump_clock: object) -> None:
    """Whoever is there is the one meant."""
    async with shop_world() as world:
        client = await world.client()
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        world.address = "elsewhere:1"

        assert await client.call(SHOP, store(41), 1.0) == Stored(42)
        assert len(world.server_ends) == 1


async def test_unknown_node_is_unavailable(autojump_clock: object) -> None:
    """The resolver does not know it (yet)."""

    def resolve(node: NodeId) -> Any:
        raise UnavailableError(f"node {node} is in no table")

    async with shop_world() as world:
        client = RpcServices(interfaces(), resolve, world.connect, TrioClock(), random.Random(1))
        await world.nursery.start(client.run)
        with pytest.raises(UnavailableError, match="no table"):
            await client.call(SHOP, store(1), 1.0)


async def test_node_that_does_not_take_calls_is_overloaded(autojump_clock: object) -> None:
    """Bytes that wait for it are bounded; beyond, posts fail with nothing sent."""
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


async def test_own_node_is_called_without_a_wire(autojump_clock: object) -> None:
    """In order, at once, the request object itself; what is answered at once is told in a turn of its own; errors and timeouts as
    over a wire."""
    shop, outcomes = Shop(), Outcomes()
    async with trio.open_nursery() as nursery:
        client = RpcServices(
            (), lambda _: pytest.fail("resolved"), lambda _: pytest.fail("connected"), TrioClock(), random.Random(1),
            node=NodeId(1), handlers=shop.handlers(),
        )  # fmt: skip
        await nursery.start(client.run)
        requests = [store(position) for position in (20, 21, 22)]
        for request in requests:
            client.post(NodeId(1), request, outcomes.done, 1.0)
        assert outcomes.received == []
        await outcomes.wait(3)
        assert all(served is request for served, request in zip(shop.stored, requests, strict=True))

        for request_, error in ((store(3), OverloadedError), (store(4), UnavailableError), (Wait(1), UnavailableError)):
            with pytest.raises(error):
                await client.call(NodeId(1), request_, 1.0)
        with pytest.raises(UnsupportedError):
            await client.call(NodeId(1), Visit(), 1.0)
        shop.release([1])
        nursery.cancel_scope.cancel()


async def test_shut_down_wakes_callers_and_forgets_posts(autojump_clock: object) -> None:
    """Nobody waits for ever on a client that is gone; and nothing of a component that ends with it is called."""
    outcomes = Outcomes()
    async with trio.open_nursery() as outer, shop_world() as world:
        client = await world.client()
        client.post(SHOP, Wait(1), outcomes.done, 60.0)

        async def wait() -> None:
            with pytest.raises(UnavailableError, match="shut down"):
                await client.call(SHOP, Wait(2), 60.0)
            outcomes.received.append("woken")

        outer.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
    assert outcomes.received == ["woken"]
    client.post(SHOP, Wait(1), outcomes.done, 60.0)
    with pytest.raises(UnavailableError):
        await client.call(SHOP, Wait(2), 1.0)
    assert outcomes.received == ["woken"]


async def test_slow_reader_keeps_the_servers_memory_bounded(autojump_clock: object) -> None:
    """A client that asks for megabytes and takes none of them is read no further."""
    async with shop_world() as world:
        ours, theirs = trio.testing.lockstep_stream_pair()
        world.nursery.start_soon(world.server.serve_stream, theirs)
        greedy = Connection.new(bind(interfaces()))
        greedy.questions.open(Open())
        await ours.send_all(b"".join(greedy.outbox.take()))
        echoed, sent = Everything(raw_bytes=b"m" * (4 << 20)), 0
        while sent < 40:
            greedy.questions.call(echoed)
            with trio.move_on_after(1) as waiting:  # noqa: TID251 -- the test's own clock
                await ours.send_all(b"".join(greedy.outbox.take()))
            if waiting.cancelled_caught:
                break
            sent += 1

        assert 4 <= sent <= (SERVER_UNSENT_BYTES_MAX + 2 * FRAME_BYTES_MAX) // len(echoed.raw_bytes)
        assert await (await world.client()).call(SHOP, store(40), 1.0) == Stored(41)


async def test_what_a_slow_reader_leaves_is_weighed_as_it_is_held(autojump_clock: object) -> None:
    """Megabytes pile up, and the other side takes them by the kilobyte. What has been joined for sending is held until its
    last byte is taken; so it must be little, or count."""
    ours, theirs = trio.testing.memory_stream_pair()
    channel = Channel(Connection.new(bind(interfaces())), TrioClock())
    held: list[int] = []

    async def hold(data: bytes | bytearray | memoryview) -> None:
        held[:] = [
            memoryview(data.obj).nbytes if isinstance(data, memoryview) else len(data)
        ]  # what a view keeps alive
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
    """A hundred reads in one packet, 800 MB in all: most are told that their reply was dropped."""
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
    """One keeps thousands of calls unanswered; the other is served between."""
    async with shop_world() as world:
        flooder, polite, outcomes = await world.client(), await world.client(), Outcomes()
        for token in range(4000):
            flooder.post(SHOP, Wait(token), outcomes.done, 60.0)
        for position in range(40, 50):
            assert await polite.call(SHOP, store(position), 1.0) == Stored(position + 1)
        await trio.testing.wait_all_tasks_blocked()
        held = len(world.shop.waiting)
        assert held < 4000  # the server reads no more of the flooder than its share

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
    """The stranger is told and cut off; the neighbour does not notice."""
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
    """Half a frame, then the end of the stream: no call, no harm."""
    async with shop_world() as world:
        stranger = await world.connect_to_server("shop:1")
        await stranger.send_all(b"\0\0\0\0\x10\0\0\0" + b"\0" * 20)
        await trio.testing.wait_all_tasks_blocked()
        await stranger.aclose()
        await trio.testing.wait_all_tasks_blocked()

        assert await (await world.client()).call(SHOP, store(40), 1.0) == Stored(41)


async def test_a_call_to_the_own_node_is_refused_unless_that_is_the_one_meant(autojump_clock: object) -> None:
    """As if it came from outside: another directory may have the place of this one by now, or none has it. Whoever is meant again is
    asked again."""
    async with shop_world() as world:
        meant: list[Peer | UnavailableError] = [Peer((), Open(store_id=IDENTITY.store_id))]

        def resolve(node: NodeId) -> Peer:
            if isinstance(found := meant[-1], UnavailableError):
                raise found
            return found

        own = RpcServices(
            interfaces(), resolve, world.connect, TrioClock(), random.Random(1),
            node=SHOP, handlers=world.shop.handlers(), identity=lambda: IDENTITY,
        )  # fmt: skip
        await world.nursery.start(own.run)
        assert await own.call(SHOP, store(40), 5.0) == Stored(41)
        meant.append(Peer((), Open(store_id=b"another one")))
        with pytest.raises(WrongRecipientError, match="data directory"):
            await own.call(SHOP, store(41), 5.0)
        meant.append(UnavailableError("no data directory has taken its place yet"))
        with pytest.raises(UnavailableError, match="no data directory"):
            await own.call(SHOP, store(41), 5.0)
        meant.append(meant[0])
        assert await own.call(SHOP, store(42), 5.0) == Stored(43)
        assert [stored.position for stored in world.shop.stored] == [40, 42]


async def test_who_is_at_an_address_is_asked_there_and_not_at_home(autojump_clock: object) -> None:
    """Also by the node that may be there itself. The connection is closed again."""
    async with shop_world() as world:

        async def connect(address: str) -> Stream:
            if address != world.address:
                raise OSError("connection refused")
            return await world.connect(address)

        own = RpcServices(
            interfaces(), lambda node: Peer(()), connect, TrioClock(), random.Random(1), node=SHOP, handlers={}
        )
        await world.nursery.start(own.run)
        assert await own.who_is_at((world.address,), 1.0) == IDENTITY
        assert len(world.server_ends) == 1
        with pytest.raises(UnavailableError):
            await own.who_is_at(("elsewhere:1",), 1.0)
