"""Protocols of other systems, as far as writes need them: against encoders and servers of another origin."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived

from virtuallog_database.tree.commands import SetData
from virtuallog_lab.experiments.churn.client import path_of
from virtuallog_lab.experiments.fixed_rate.etcd_writes import EtcdWrites
from virtuallog_lab.experiments.fixed_rate.open_loop import Answered
from virtuallog_lab.experiments.fixed_rate.pipelined_connection import connected
from virtuallog_lab.experiments.fixed_rate.zookeeper_writes import ZooKeeperWrites
from virtuallog_lab.harness.program import PeerError
from virtuallog_simulation.workload.database import wire

SESSION = struct.pack(">iiiqi", 36, 0, 30_000, 1, 16) + bytes(16)
"""ZooKeeper's answer to the opening of a connection."""


def zookeeper_reply(xid: int, error: int = 0) -> bytes:
    return struct.pack(">iiqi", 16, xid, 7, error)


def test_zookeeper_answers_in_order() -> None:
    """The first answer is the session; each other one belongs to the oldest write, and may be an error. Bytes come in any pieces."""
    writes, outcomes = ZooKeeperWrites(keys=2, size=3), dict[str, object]()
    writes.open()
    sent = [writes.write(partial(outcomes.__setitem__, name)) for name in "abc"]

    for byte in SESSION + zookeeper_reply(1) + zookeeper_reply(2, error=-101):
        assert writes.receive(bytes([byte])) == b""

    assert sent == [wire.encode(SetData(path_of(xid % 2), bytes(3), -1), xid) for xid in (1, 2, 3)], (
        "as the simulator's client"
    )
    assert outcomes.keys() == {"a", "b"}
    assert outcomes["a"] is None and isinstance(outcomes["b"], PeerError)


class ServerOfCalls:
    """A gRPC server on an HTTP/2 of another origin, in one process with its client."""

    def __init__(self, client: EtcdWrites) -> None:
        self.client = client
        self.connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.headers: list[dict[object, object]] = []
        self.messages: dict[int, bytes] = {}
        """Bytes of the calls that have come, by stream."""
        self.uncredited = 0
        self.take(client.open())

    def take(self, data: bytes) -> None:
        """Take what the client has sent, and answer its settings and pings until nothing is left to say."""
        for event in self.connection.receive_data(data):
            match event:
                case RequestReceived():
                    self.headers.append({name: value for name, value, *_ in event.headers})
                case DataReceived():
                    self.messages[event.stream_id] = self.messages.get(event.stream_id, b"") + event.data
                    self.uncredited += event.flow_controlled_length
        if told := self.connection.data_to_send():
            self.take(self.client.receive(told))

    def credit(self) -> None:
        """Take as many bytes again as have come."""
        self.connection.increment_flow_control_window(self.uncredited)
        self.uncredited = 0
        self.take(b"")

    def answer(self, stream: int, *, refused: bool = False) -> None:
        headers = [(":status", "200"), ("content-type", "application/grpc")]
        if refused:
            self.connection.send_headers(stream, [*headers, ("grpc-status", "14")], end_stream=True)
        else:
            self.connection.send_headers(stream, headers)
            self.connection.send_data(stream, b"\0\0\0\0\2\x0a\0")
            self.connection.send_headers(stream, [("grpc-status", "0")], end_stream=True)
        self.take(b"")


def test_etcd_is_called_as_grpc_says() -> None:
    """Each call is a Put of the next key; answers come in any order; a call without a message in its answer has failed."""
    client, outcomes = EtcdWrites("127.0.0.1:2379", keys=2, size=200), dict[int, object]()
    server = ServerOfCalls(client)
    for number in range(3):
        server.take(client.write(partial(outcomes.__setitem__, number)))
    server.answer(5)
    server.answer(1, refused=True)
    server.connection.ping(b"are you?")
    server.take(b"")

    assert [headers[":path"] for headers in server.headers] == ["/etcdserverpb.KV/Put"] * 3
    assert server.headers[0][":authority"] == "127.0.0.1:2379"
    key, value = b"\x0a\x0c/rate/000000", b"\x12\xc8\x01" + bytes(200)
    assert server.messages[1] == server.messages[5] == b"\0\0\0\0\xd9" + key + value
    assert b"/rate/000001" in server.messages[3]
    assert outcomes.keys() == {0, 2}
    assert outcomes[2] is None and isinstance(outcomes[0], PeerError)


def test_calls_wait_for_the_window_of_the_connection() -> None:
    """A server that has not taken what was sent gets no more than it has room for; then the others, in order."""
    client, outcomes = EtcdWrites("host", keys=10, size=1000), dict[int, object]()
    server = ServerOfCalls(client)
    for number in range(80):
        server.take(client.write(partial(outcomes.__setitem__, number)))
    assert len(server.messages) == 0xFFFF // len(server.messages[1])

    while len(server.messages) < 80:
        server.credit()
    for stream in server.messages:
        server.answer(stream)
    assert outcomes == dict.fromkeys(range(80))


def test_a_server_that_goes_away_says_so() -> None:
    """Its words are those of the error."""
    client = EtcdWrites("host", keys=1, size=1)
    server = ServerOfCalls(client)
    server.connection.close_connection(additional_data=b"too_many_pings")

    with pytest.raises(PeerError, match="too_many_pings"):
        server.take(b"")


class BytesForBytes:
    """A protocol whose writes are large, each answered by one byte."""

    def __init__(self) -> None:
        self.calls: list[Answered] = []

    def open(self) -> bytes:
        return b"hello"

    def write(self, done: Answered) -> bytes:
        self.calls.append(done)
        return bytes(1 << 20)

    def receive(self, data: bytes) -> bytes:
        for _ in data:
            self.calls.pop(0)(None)
        return b""


@asynccontextmanager
async def served(may_read: trio.Event, writes: int) -> AsyncIterator[str]:
    """A server that reads the opening and so many writes, answers them all, and ends the connection."""

    async def serve(stream: trio.SocketStream) -> None:
        await may_read.wait()
        left = len(b"hello") + (writes << 20)
        while left:
            left -= len(await stream.receive_some(min(left, 1 << 20)))
        await stream.send_all(bytes(writes))
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_what_the_socket_does_not_take_is_sent_later() -> None:
    """Posting never waits: a server that does not read for a while gets all in the end. That it ends the connection is an error."""
    outcomes: list[object] = []
    all_answered, may_read = trio.Event(), trio.Event()

    def done(outcome: object) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 16:
            all_answered.set()

    async with served(may_read, writes=16) as address:
        with pytest.RaisesGroup(pytest.RaisesExc(PeerError, match="ended the connection"), flatten_subgroups=True):
            async with connected(address, BytesForBytes()) as post:
                post([done] * 8)
                post([done] * 8)
                may_read.set()
                await all_answered.wait()
                await trio.sleep_forever()

    assert outcomes == [None] * 16


async def test_a_server_that_is_not_there() -> None:
    """An error of the peer, with its address."""
    async with served(trio.Event(), writes=0) as address:
        pass
    with pytest.raises(PeerError, match=address):
        async with connected(address, BytesForBytes()):
            pass
