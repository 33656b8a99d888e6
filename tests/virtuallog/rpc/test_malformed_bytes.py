"""Malformed bytes: the machine answers, or aborts with a typed error, and nothing else happens."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.virtuallog.rpc.connection_pair import Pair
from tests.virtuallog.rpc.shop import Bag, Box, Everything, Store, Stored, Wait
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Request
from virtuallog.rpc.protocol import message_writer
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.events import CallArrived, ConnectionFailed, OpenRefused, ReturnArrived
from virtuallog.rpc.protocol.node import OpenNode

REQUESTS: list[Request[object]] = [
    Store(segment=SegmentId(1, 2), batch=b"b" * 40, position=3),
    Everything(
        name="n", names=("a", "b"), blobs=(b"x", b"y" * 9), items=(Box(1, "l"), Bag()), item=Box(2, "m"),
        maybe_box=Box(3, "o"), numbers=(1, 2, 3), roles=frozenset({"r", "s"}),
    ),
    Wait(1),
]  # fmt: skip


def mutated(chooser: random.Random, frame: bytes) -> bytes:
    """Change a few bytes or words of a frame, mostly behind an intact frame header."""
    damaged = bytearray(frame)
    start = 0 if chooser.random() < 0.1 else 8
    for _ in range(chooser.choice((1, 1, 2, 4, 16))):
        at = chooser.randrange(start, len(damaged))
        match chooser.randrange(4):
            case 0:
                damaged[at] = chooser.randrange(256)
            case 1:
                damaged[at] ^= 1 << chooser.randrange(8)
            case 2:
                word = at & ~7
                damaged[word : word + 8] = chooser.randbytes(8)
            case _:  # another pointer of the same message: plausible nonsense
                source, target = chooser.randrange(8, len(damaged)) & ~7, at & ~7
                damaged[target : target + 8] = damaged[source : source + 8]
    return bytes(damaged)


def frames_to_server() -> list[bytes]:
    """Return the frames of a client, one message each, on a connection that knows all of them."""
    pair = Pair()
    frames = []
    pair.client.questions.open(OpenNode())
    for request in REQUESTS:
        pair.client.questions.call(request)
    frames.append(b"".join(pair.client.outbox.take()))
    pair.client.questions._node = 0
    for request in REQUESTS:
        pair.client.questions.call(request)
        frames.append(b"".join(pair.client.outbox.take()))
    pair.client.questions.abandon(2)
    frames.append(b"".join(pair.client.outbox.take()))
    pair.client.outbox.put(message_writer.abort("x"))
    frames.append(b"".join(pair.client.outbox.take()))
    return frames


def events_of(connection: RpcConnection, chunk: bytes) -> Iterator[object]:
    for event in connection.receive_untrusted(chunk):
        assert isinstance(event, CallArrived | ReturnArrived | OpenRefused | ConnectionFailed)
        if isinstance(event, ConnectionFailed):
            assert isinstance(event.error, VirtualLogError)
        yield event


@pytest.mark.parametrize("seed", range(6))
def test_mutated_calls_are_answered_or_end_their_connection(seed: int) -> None:
    """Thousands of damaged frames, parameters included, give calls with sound messages, errors, or
    an abort."""
    chooser = random.Random(seed)
    frames = frames_to_server()
    outcomes: Counter[type] = Counter()
    for _ in range(500):
        server = Pair().server
        for event in events_of(server, mutated(chooser, chooser.choice(frames))):
            outcomes[type(event)] += 1
            if isinstance(event, CallArrived):
                reply = event.request if isinstance(event.request, Everything) else Stored(1)
                if not isinstance(event.request, Wait):
                    server.answers.respond(event.answer, reply)
        assert all(isinstance(chunk, bytes) for chunk in server.outbox.take())

    assert outcomes[CallArrived] > 50
    assert outcomes[ConnectionFailed] > 50


@pytest.mark.parametrize("seed", range(3))
def test_mutated_returns_settle_or_end_the_connection(seed: int) -> None:
    """Damaged returns settle their call or end the connection of the client."""
    chooser = random.Random(seed)
    outcomes: Counter[type] = Counter()
    for _ in range(500):
        pair = Pair()
        pair.client.questions.open(OpenNode())
        for request in REQUESTS:
            pair.client.questions.call(request)
        for answer, request in pair.arrived():
            if isinstance(request, Everything):
                pair.server.answers.respond(answer, request)
            elif isinstance(request, Store):
                pair.server.answers.respond(answer, Stored(7))
        for event in events_of(pair.client, mutated(chooser, b"".join(pair.server.outbox.take()))):
            outcomes[type(event)] += 1

    assert outcomes[ReturnArrived] > 50
    assert outcomes[ConnectionFailed] > 50


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_end_the_connection_or_wait_for_more(seed: int) -> None:
    """Random bytes end the connection or wait for more."""
    chooser = random.Random(seed)
    for _ in range(300):
        server = Pair().server
        list(events_of(server, chooser.randbytes(chooser.randrange(1, 400)).replace(b"\xff", b"\0")))
        assert server.outbox.waiting_bytes < 4096


def test_deeply_nested_error_is_a_typed_error() -> None:
    """A foreign reason of any structure becomes text in an error of ours."""
    pair = Pair()
    opening = pair.client.questions.open(OpenNode())
    pair.client.outbox.take()
    reason = "SealedError " + "[" * 100_000
    pair.server.outbox.put(message_writer.exception(opening, reason, "failed", finish_needed=False))

    ((_, outcome),) = pair.returned().items()
    assert isinstance(outcome, VirtualLogError)
