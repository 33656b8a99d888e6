"""Real loopback sockets: our own client, and a stock Cap'n Proto client in another process."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import virtuallog.rpc.protocol
from tests.virtuallog.rpc.shop import IDENTITY, SCHEMA_PATH, Shop, Store, Stored, Visit, annex, interfaces
from tests.virtuallog.rpc.world import SHOP, TrioClock
from virtuallog.contract import errors
from virtuallog.contract.address import split_address
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    InvalidSettingError,
    OverloadedError,
    TrimmedError,
    UnavailableError,
    UnsupportedError,
)
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import Hello, OpenNode
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import bound_address, tcp_connect, tcp_listen


@asynccontextmanager
async def serving(shop: Shop) -> AsyncIterator[tuple[str, trio.Nursery]]:
    """Run a server on a free port; yield its address, and a nursery that ends with it."""
    server = RpcServer(shop.handlers(), interfaces(), lambda: IDENTITY, TrioClock())
    async with trio.open_nursery() as nursery:
        listeners = await tcp_listen("127.0.0.1:0")
        await nursery.start(server.serve, listeners)
        yield bound_address(listeners[0]), nursery
        nursery.cancel_scope.cancel()


async def client_of(nursery: trio.Nursery, addresses: tuple[str, ...]) -> RpcServices:
    peer = Peer(addresses, OpenNode(node=IDENTITY.node, boot=IDENTITY.boot))
    client = RpcServices(interfaces(), lambda _: peer, tcp_connect(), TrioClock(), random.Random(1))
    await nursery.start(client.run)
    return client


def store(position: int, batch: bytes = b"") -> Store:
    return Store(segment=SegmentId(1, 2), batch=batch, position=position)


async def test_calls_over_tcp() -> None:
    """Small calls and one of megabytes are answered, many at once."""
    async with serving(Shop()) as (address, nursery):
        client = await client_of(nursery, (address,))
        replies: list[Any] = []

        async def call(position: int) -> None:
            replies.append(await client.call(SHOP, store(position, b"x" * (1000 * position)), 5.0))

        async with trio.open_nursery() as callers:
            for position in range(10, 60):
                callers.start_soon(call, position)
        assert await client.call(SHOP, store(60, b"y" * (8 << 20)), 5.0) == Stored(61)

    assert sorted(reply.tail for reply in replies) == list(range(11, 61))


async def test_second_address_is_tried_when_the_first_refuses() -> None:
    """A closed port costs nothing if the node has another address."""
    closed = await tcp_listen("127.0.0.1:0")
    unused = bound_address(closed[0])
    await closed[0].aclose()
    async with serving(Shop()) as (address, nursery):
        client = await client_of(nursery, ("not an address", unused, address))

        assert await client.call(SHOP, store(40), 5.0) == Stored(41)


async def test_server_that_dies_fails_calls_in_flight() -> None:
    """Calls in flight fail when the server dies, as its kernel closes the connection."""
    async with trio.open_nursery() as outer:
        async with serving(Shop()) as (address, nursery):
            client = await client_of(outer, (address,))
            assert await client.call(SHOP, store(40), 5.0) == Stored(41)
            nursery.cancel_scope.cancel()
        with pytest.raises(UnavailableError):
            await client.call(SHOP, store(41), 5.0)
        outer.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("address", "parts"), [("host:1", ("host", 1)), ("[::1]:70", ("::1", 70)), ("10.0.0.1:65535", ("10.0.0.1", 65535))]
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    """An address is host:port, with brackets around a host with colons."""
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "host", ":1", "host:", "host:x", "host:65536", "host:-1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """A malformed address gives a typed error."""
    with pytest.raises(InvalidSettingError):
        split_address(address)


@pytest.mark.parametrize("host", ["node..example", "n" * 64, "no\0de", "n\u00f6..de"])
async def test_an_address_that_names_no_host_is_unreachable(host: str) -> None:
    """An address that names no host fails the call only; the next address is tried, and the client
    lives."""
    async with serving(Shop()) as (address, nursery):
        client = await client_of(nursery, (f"{host}:7001",))
        for _ in range(2):
            with pytest.raises(UnavailableError, match="node 1 is unreachable"):
                await client.call(SHOP, store(40), 5.0)
        client = await client_of(nursery, (f"{host}:7001", address))

        assert await client.call(SHOP, store(40), 5.0) == Stored(41)


@pytest.mark.processes
async def test_stock_client_is_served() -> None:
    """Cap'n Proto's own RPC, which shares no code with ours, is served: casts, pipelining, errors,
    cancellation."""
    shop = Shop()
    node_schema = Path(virtuallog.rpc.protocol.__file__).with_name("node.capnp")
    async with serving(shop) as (address, _):
        command = [sys.executable, str(Path(__file__).with_name("stock_client.py")), str(SCHEMA_PATH), str(node_schema)]
        with trio.fail_after(30):
            done = await trio.run_process(
                [*command, *split_parts(address)], capture_stdout=True, stderr=subprocess.STDOUT, check=False
            )
    assert done.returncode == 0, done.stdout.decode()
    seen = json.loads(done.stdout)

    assert seen["hello"] == [IDENTITY.node, IDENTITY.software]
    assert seen["direct"] == 41
    assert seen["pipelined"] == list(range(51, 71))
    assert seen["settled"] == 61
    assert seen["echo"] == ["näme", 3, "bag", "notForSale"]
    assert seen["after cancel"] == 81
    assert 70 not in [stored.position for stored in shop.stored]
    for what, kind, error in (
        ("wrong open", "FAILED", errors.WrongRecipientError),
        ("behind wrong open", "FAILED", errors.WrongRecipientError),
        ("typed", "FAILED", TrimmedError),
        ("overloaded", "OVERLOADED", OverloadedError),
        ("not served", "UNIMPLEMENTED", UnsupportedError),
        ("unknown interface", "UNIMPLEMENTED", UnsupportedError),
    ):
        found_kind, reason = seen[what]
        assert found_kind == kind
        assert isinstance(errors.decode_untrusted(reason.removeprefix("remote exception: ")), error)


@pytest.mark.processes
@pytest.mark.parametrize("expected", [OpenNode(), OpenNode(node=NodeId(7))], ids=["meant", "not meant"])
async def test_stock_server_is_called(expected: OpenNode) -> None:
    """Our client calls a stock server, with calls pipelined on a capability of that server."""
    command = [sys.executable, str(Path(__file__).with_name("stock_server.py")), str(Path(__file__).parents[3])]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stdout=subprocess.PIPE, check=False))
        port = (await process.stdout.receive_some()).decode().strip()
        peer = Peer((f"127.0.0.1:{port}",), expected)
        known = (*interfaces(), *annex())
        client = RpcServices(known, lambda _: peer, tcp_connect(), TrioClock(), random.Random(1))
        await nursery.start(client.run)
        replies: list[Any] = []
        for position in range(10, 20):
            client.post(SHOP, store(position, b"abc"), replies.append, 5.0)
        if expected.node:
            with pytest.raises(UnavailableError, match="not me"):
                await client.call(SHOP, store(30), 5.0)
            assert {type(reply) for reply in replies} == {UnavailableError}
        else:
            assert await client.call(SHOP, store(30, b"z" * 50_000), 5.0) == Stored(50_030)
            assert replies == [Stored(position + 3) for position in range(10, 20)]
            assert (await client.call(SHOP, Hello(), 5.0)).software == "stock"
            with pytest.raises(UnavailableError, match="a foreign bug"):
                await client.call(SHOP, store(1), 5.0)
            with pytest.raises(UnsupportedError):
                await client.call(SHOP, Visit(), 5.0)
        nursery.cancel_scope.cancel()


def split_parts(address: str) -> list[str]:
    host, port = split_address(address)
    return [host, str(port)]
