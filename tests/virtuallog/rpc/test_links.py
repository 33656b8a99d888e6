"""Links from one node to another."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio.testing
from trio.abc import Stream

from tests.virtuallog.rpc.shop import IDENTITY, Shop, Stored, Visit, Wait, Waited, interfaces
from tests.virtuallog.rpc.test_services import Outcomes, store
from tests.virtuallog.rpc.world import SHOP, TrioClock, shop_world
from virtuallog.contract.errors import OverloadedError, UnavailableError, UnsupportedError, WrongRecipientError
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import CONNECT_SECONDS, Peer
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.session import SILENCE_SECONDS


async def test_lost_connection_fails_what_was_in_flight_at_once(autojump_clock: object) -> None:
    """Calls in flight fail at once with the connection; the next call opens a new one."""
    async with shop_world() as world:
        client, outcomes = await world.client(), Outcomes()
        for token in range(5):
            client.post(SHOP, Wait(token), outcomes.done, 60.0)
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        await trio.aclose_forcefully(world.server_ends[0])

        assert [type(outcome) for outcome in await outcomes.wait(5)] == [UnavailableError] * 5
        assert trio.current_time() - start < 1.5
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        assert len(world.server_ends) == 2


async def test_the_end_of_an_open_connection_is_told_at_once(autojump_clock: object) -> None:
    """A failure detector looks then. An attempt that finds no server ends nothing."""
    async with shop_world() as world:
        client, broken = await world.client(), list[NodeId]()
        client.watch_connections(broken.append)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        await trio.aclose_forcefully(world.server_ends[0])
        await trio.testing.wait_all_tasks_blocked()
        assert broken == [SHOP]

        async def refuse(address: str) -> Stream:
            raise ConnectionRefusedError("no server there")

        world.connect = refuse
        with pytest.raises(UnavailableError, match="no server there"):
            await client.call(SHOP, store(40), 60.0)
        assert broken == [SHOP]


async def test_unreachable_node_fails_at_once_and_is_tried_again(autojump_clock: object) -> None:
    """Calls to a node that refuses fail at once; there is no attempt during the back-off; then it
    recovers."""
    async with shop_world() as world:
        attempts = []

        async def refuse(address: str) -> Stream:
            attempts.append(address)
            raise ConnectionRefusedError("no server there")

        world.connect = refuse
        client = await world.client()
        for _ in range(20):
            with pytest.raises(UnavailableError, match="no server there"):
                await client.call(SHOP, store(40), 60.0)
        assert len(attempts) == 1

        world.connect = world.connect_to_server
        await trio.sleep(0.1)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)


async def test_address_that_does_not_answer_is_given_up(autojump_clock: object) -> None:
    """With an address that does not answer, calls fail by their own timeout, and the attempt by its
    own."""
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
    """A half-open connection is replaced after some seconds of timeouts without bytes."""
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
        await trio.sleep(0.1)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)


async def test_idle_time_is_no_silence(autojump_clock: object) -> None:
    """Idle time is no silence: a call that times out early does not end the connection of a patient one.

    No call was made for a minute. The node had one second to speak, and it answers the patient call
    when it can.
    """
    async with shop_world() as world:
        client, hasty, patient = await world.client(), Outcomes(), Outcomes()
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        await trio.sleep(60)
        client.post(SHOP, Wait(1), patient.done, 2 * SILENCE_SECONDS)
        client.post(SHOP, Wait(2), hasty.done, 1.0)
        await hasty.wait(1)
        world.shop.release([1])

        assert await patient.wait(1) == [Waited(1)]
        assert len(world.server_ends) == 1


async def test_many_hasty_calls_notice_a_silent_node(autojump_clock: object) -> None:
    """Calls with short timeouts notice a silent node: together they have waited long enough."""
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


async def test_a_connection_to_a_directory_that_was_given_up_is_used_no_more(autojump_clock: object) -> None:
    """A connection to a replaced data directory is dropped, though it works as well as ever."""
    async with shop_world() as world:
        world.expected = OpenNode(store_id=IDENTITY.store_id)
        client, outcomes = await world.client(), Outcomes()
        client.post(SHOP, Wait(token=7), outcomes.done, 60.0)
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)

        world.expected = OpenNode(store_id=b"B" * 16)  # as a newer register says
        client.post(SHOP, store(41), outcomes.done, 1.0)
        assert outcomes.received == [], "nobody is called from within a post"

        waiting, stored = await outcomes.wait(2)
        assert "is not the one meant any more" in str(waiting)
        assert isinstance(stored, WrongRecipientError)
        assert world.shop.stored == [store(40)]
        world.identity = attrs.evolve(IDENTITY, store_id=b"B" * 16)
        await trio.sleep(0.1)
        assert await client.call(SHOP, store(42), 1.0) == Stored(43)


async def test_a_connection_stays_when_only_the_address_is_another(autojump_clock: object) -> None:
    """A connection stays when only the address changes: the node is the one meant."""
    async with shop_world() as world:
        client = await world.client()
        assert await client.call(SHOP, store(40), 1.0) == Stored(41)
        world.address = "elsewhere:1"

        assert await client.call(SHOP, store(41), 1.0) == Stored(42)
        assert len(world.server_ends) == 1


async def test_unknown_node_is_unavailable(autojump_clock: object) -> None:
    """A node that the resolver does not know yet is unavailable."""

    def resolve(node: NodeId) -> Any:
        raise UnavailableError(f"node {node} is in no table")

    async with shop_world() as world:
        client = RpcServices(interfaces(), resolve, world.connect, TrioClock(), random.Random(1))
        await world.nursery.start(client.run)
        with pytest.raises(UnavailableError, match="no table"):
            await client.call(SHOP, store(1), 1.0)


async def test_own_node_is_called_without_a_wire(autojump_clock: object) -> None:
    """Calls to the own node get the request object itself, in order, at once.

    An answer that comes at once is reported in a turn of its own; errors and timeouts are as over a
    wire.
    """
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


async def test_a_call_to_the_own_node_is_refused_unless_that_is_the_one_meant(autojump_clock: object) -> None:
    """A call to the own node is refused while the resolver means another directory, or none.

    It works again once the resolver means this one again.
    """
    async with shop_world() as world:
        meant: list[Peer | UnavailableError] = [Peer((), OpenNode(store_id=IDENTITY.store_id))]

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
        meant.append(Peer((), OpenNode(store_id=b"another one")))
        with pytest.raises(WrongRecipientError, match="data directory"):
            await own.call(SHOP, store(41), 5.0)
        meant.append(UnavailableError("no data directory has taken its place yet"))
        with pytest.raises(UnavailableError, match="no data directory"):
            await own.call(SHOP, store(41), 5.0)
        meant.append(meant[0])
        assert await own.call(SHOP, store(42), 5.0) == Stored(43)
        assert [stored.position for stored in world.shop.stored] == [40, 42]


async def test_who_is_at_an_address_is_asked_there_and_not_at_home(autojump_clock: object) -> None:
    """The identity at an address is asked there, also by the node that may be there itself; the
    connection is closed."""
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
