"""A process of hostile clients: `python -m tests.hostile.attacker KIND SECONDS SEED ADDRESS...`, one JSON object at the end.

frames   mutated frames over many connections, each awaited until the node has read them all
silent   more connections than a node takes, none of which says anything
drip     halves of the largest frames, then a byte now and then
greedy   asks for the same MiB again and again, and takes none of it (`--segment VERSION/ATTEMPT`)
calls    small calls as fast as they go, their answers thrown away
unended  calls that wait for what never comes, on connections that are then forgotten
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import Final

import attrs
import click
import trio

from tests.hostile.bursts import Bursts
from tests.hostile.samples import MADE_UP, interfaces
from virtuallog.contract.address import split_address
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import decode_untrusted
from virtuallog.rpc.protocol import message_reader
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX, FrameSplitter
from virtuallog.rpc.protocol.methods import Methods, bind
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog_loglets.native.messages import NativeGetState, NativeReadWaves, NativeWaitTail

PARALLEL: Final = {"frames": 16, "silent": 1500, "drip": 100, "greedy": 40, "calls": 8, "unended": 64}
"""Connections to each node at a time."""
_SAMPLED: Final = 20
"""The answers of every so many connections are read."""
_MOST_OF_A_FRAME: Final = bytes(12 << 20)
_ABORTIVE: Final = struct.pack("ii", 1, 0)


@attrs.define(eq=False)
class Attacker:
    """The state that all connections share."""

    addresses: list[str]
    seed: int
    ends_at: float
    frames_max: int
    segment: SegmentId
    count: Counter[str] = attrs.field(factory=Counter)

    @property
    def is_over(self) -> bool:
        now = trio.current_time()  # noqa: TID251 -- against real processes
        return now >= self.ends_at or self.count["frames"] >= self.frames_max

    async def attack(
        self, connect_and_misbehave: Callable[[Attacker, str, random.Random], Awaitable[None]], parallel: int
    ) -> None:
        async with trio.open_nursery() as nursery:
            for address in self.addresses:
                for number in range(parallel):
                    nursery.start_soon(self._again_and_again, connect_and_misbehave, address, number)
            while not self.is_over:
                await trio.sleep(0.1)  # noqa: TID251 -- against real processes
            nursery.cancel_scope.cancel()

    async def _again_and_again(
        self, misbehave: Callable[[Attacker, str, random.Random], Awaitable[None]], address: str, number: int
    ) -> None:
        chooser = random.Random(f"{self.seed} {address} {number}")
        while not self.is_over:
            self.count["connections"] += 1
            try:
                await misbehave(self, address, chooser)
            except (OSError, trio.BrokenResourceError) as error:
                self.count[f"connection: {type(error.__cause__ or error).__name__}"] += 1
                await trio.sleep(0.05)  # noqa: TID251 -- against real processes


async def stream_to(address: str) -> trio.SocketStream:
    stream = await trio.open_tcp_stream(*split_address(address))
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)  # leaves no port behind in TIME_WAIT
    return stream


@cache
def known_methods() -> Methods:
    return bind(interfaces())


def opening(*requests: object) -> bytes:
    client = RpcConnection.new(known_methods())
    client.questions.open(OpenNode())
    for request in requests:
        client.questions.call(request)  # type: ignore[arg-type]
    return b"".join(client.outbox.take())


_BURSTS: dict[int, Bursts] = {}


async def frames(attacker: Attacker, address: str, chooser: random.Random) -> None:
    """One burst; over when the node has hung up, as it does once it has read all."""
    bursts = _BURSTS.get(attacker.seed) or _BURSTS.setdefault(attacker.seed, Bursts(random.Random(attacker.seed)))
    burst = bursts.next()
    async with await stream_to(address) as stream:
        with suppress(trio.BrokenResourceError):  # the node may hang up before it has received all
            await stream.send_all(burst.data)
            await stream.send_eof()
        answers = await _read_all(stream)
    attacker.count.update(burst.outcomes)
    attacker.count["frames"] += burst.frames
    attacker.count["bytes"] += len(burst.data)
    if attacker.count["connections"] % _SAMPLED == 0:
        attacker.count.update(f"answer: {kind}" for kind in _kinds(answers))


async def _read_all(stream: trio.SocketStream) -> bytes:
    parts = []
    with suppress(trio.BrokenResourceError), trio.fail_after(30):  # noqa: TID251 -- against real processes
        while part := await stream.receive_some():
            parts.append(part)
    return b"".join(parts)


def _kinds(answers: bytes) -> list[str]:
    kinds = []
    for frame in FrameSplitter().feed_untrusted(answers):
        received = message_reader.parse(frame)
        kind = message_reader.kind_of(received)
        if kind == "return":
            returned = message_reader.return_(received)
            kind = returned.kind
            if kind == "exception":
                kind = type(decode_untrusted(message_reader.exception(returned.value)[0])).__name__
        kinds.append(kind)
    return kinds


async def silent(attacker: Attacker, address: str, chooser: random.Random) -> None:
    async with await stream_to(address) as stream:
        await stream.receive_some()


async def drip(attacker: Attacker, address: str, chooser: random.Random) -> None:
    async with await stream_to(address) as stream:
        await stream.send_all(opening() + struct.pack("<II", 0, FRAME_BYTES_MAX // 8 - 1))
        await stream.send_all(_MOST_OF_A_FRAME)
        while True:
            await trio.sleep(0.5)  # noqa: TID251 -- against real processes
            await stream.send_all(b"\0")


async def greedy(attacker: Attacker, address: str, chooser: random.Random) -> None:
    request = NativeReadWaves(segment=attacker.segment, start=0, stop=1 << 40, max_bytes=8 << 20)
    async with await stream_to(address) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await stream.send_all(opening(*[request] * 20))
        await trio.sleep_forever()


async def calls(attacker: Attacker, address: str, chooser: random.Random) -> None:
    request = NativeGetState(segment=MADE_UP[0])
    client = RpcConnection.new(known_methods())
    client.questions.open(OpenNode())
    async with await stream_to(address) as stream, trio.open_nursery() as nursery:
        nursery.start_soon(_throw_away, stream, attacker, client)
        while True:
            for _ in range(500):
                client.questions.call(request)
            attacker.count["calls"] += 500
            await stream.send_all(b"".join(client.outbox.take()))
            while len(client.questions._waiting) > 3000:
                await trio.sleep(0.001)  # noqa: TID251 -- against real processes


async def _throw_away(stream: trio.SocketStream, attacker: Attacker, client: RpcConnection) -> None:
    while part := await stream.receive_some(1 << 20):
        client.receive_untrusted(bytes(part))
    raise trio.BrokenResourceError


async def unended(attacker: Attacker, address: str, chooser: random.Random) -> None:
    requests = [NativeWaitTail(segment=chooser.choice(MADE_UP), past=1 << 40, known_tail=0) for _ in range(1000)]
    async with await stream_to(address) as stream:
        await stream.send_all(opening(*requests))
        await trio.sleep(chooser.uniform(0.5, 3))  # noqa: TID251 -- against real processes


KINDS: Final = {each.__name__: each for each in (frames, silent, drip, greedy, calls, unended)}


@click.command()
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("seconds", type=float)
@click.argument("seed", type=int)
@click.argument("addresses", nargs=-1, required=True)
@click.option("--frames-max", type=int, default=1 << 60)
@click.option("--segment", default="1/0")
def main(*, kind: str, seconds: float, seed: int, addresses: tuple[str, ...], frames_max: int, segment: str) -> None:
    named = SegmentId(*map(int, segment.split("/")))
    trio.run(_attack, kind, seconds, Attacker(list(addresses), seed, seconds, frames_max, named))


async def _attack(kind: str, seconds: float, attacker: Attacker) -> None:
    attacker.ends_at = trio.current_time() + seconds  # noqa: TID251 -- against real processes
    await attacker.attack(KINDS[kind], PARALLEL[kind])
    sys.stdout.write(json.dumps(attacker.count) + "\n")


if __name__ == "__main__":
    main()
