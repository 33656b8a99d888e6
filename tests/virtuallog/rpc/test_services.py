"""Clients and servers on streams in memory: links, timeouts, bounds, and failures of calls."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.abc import Stream

from tests.virtuallog.rpc.shop import (
    IDENTITY,
    NotServed,
    Store,
    Stored,
    Visit,
    Wait,
    interfaces,
)
from tests.virtuallog.rpc.world import SHOP, shop_world
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    OverloadedError,
    SealedError,
    TrimmedError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.rpc.protocol.node import Hello, OpenNode
from virtuallog.rpc.services import SWEEP_SECONDS


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
    """A call is answered."""
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
    """After any error in one call, the next is served."""
    async with shop_world() as world:
        client = await world.client()
        with pytest.raises(type(error)) as caught:
            await client.call(SHOP, request_, 1.0)

        assert repr(caught.value) == repr(error)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert len(world.server_ends) == 1


async def test_unknown_interface_is_unsupported(autojump_clock: object) -> None:
    """A call of a newer client to an older node is unsupported."""
    async with shop_world() as world:
        client = await world.client()
        with pytest.raises(UnsupportedError):
            await client.call(SHOP, Visit(), 1.0)


async def test_interfaces_may_be_learned_while_a_connection_is_open(autojump_clock: object) -> None:
    """A client that loads a kind of loglets later calls it over the connection that it has."""
    async with shop_world() as world:
        client = await world.client(known=())
        assert await client.call(SHOP, Hello(), 1.0) == IDENTITY
        with pytest.raises(UnsupportedError, match="no interface that this client knows"):
            await client.call(SHOP, store(40), 1.0)
        client.learn(interfaces())

        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert len(world.server_ends) == 1


async def test_requests_arrive_in_the_order_they_were_posted(autojump_clock: object) -> None:
    """Requests over one link, opened by the first of them, arrive in order; `done` is never called
    from within post."""
    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        for position in range(100, 200):
            client.post(SHOP, store(position), outcomes.done, 1.0)
        assert outcomes.received == []

        assert await outcomes.wait(100) == [Stored(position + 1) for position in range(100, 200)]
        assert world.shop.stored == [store(position) for position in range(100, 200)]


@attrs.define
class CountingStream(trio.abc.HalfCloseableStream):
    """Counts separate sends."""

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
    """At the deadline (and a sweep) the caller gets UnavailableError; a late reply is dropped."""
    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        start = trio.current_time()
        client.post(SHOP, Wait(5), outcomes.done, 0.5)
        (outcome,) = await outcomes.wait(1)
        waited = trio.current_time() - start
        assert isinstance(outcome, UnavailableError)
        assert 0.5 <= waited <= 0.5 + 2 * SWEEP_SECONDS

        world.shop.release([5])
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert len(outcomes.received) == 1
        assert len(world.server_ends) == 1


async def test_a_wait_for_an_answer_wakes_nobody_before_the_first_deadline(autojump_clock: object) -> None:
    """Timeouts cost nothing until they are due; a call that is due earlier than all others is
    noticed all the same."""

    @attrs.define(eq=False)
    class Steps(trio.abc.Instrument):
        count: int = 0

        def before_task_step(self, task: object) -> None:
            self.count += 1

    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        await client.call(SHOP, Hello(), 1.0)
        steps, start = Steps(), trio.current_time()
        trio.lowlevel.add_instrument(steps)
        client.post(SHOP, Wait(1), outcomes.done, 4.0)
        client.post(SHOP, Wait(2), outcomes.done, 3.0)

        assert isinstance((await outcomes.wait(1))[0], UnavailableError)
        waited = trio.current_time() - start
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


async def test_wrong_node_fails_typed_and_unexecuted(autojump_clock: object) -> None:
    """Calls to a wrong node fail typed and unexecuted; a new table heals this at once."""
    async with shop_world() as world:
        world.expected = OpenNode(boot=9)
        client, outcomes = await world.client(), Outcomes()
        for position in range(10, 13):
            client.post(SHOP, store(position), outcomes.done, 1.0)
        assert [type(outcome) for outcome in await outcomes.wait(3)] == [WrongRecipientError] * 3
        assert world.shop.stored == []

        world.expected = OpenNode(boot=IDENTITY.boot)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)


async def test_shut_down_wakes_callers_and_forgets_posts(autojump_clock: object) -> None:
    """No caller waits for ever on a client that has ended; `done` of a component that ends with it
    is not called."""
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
