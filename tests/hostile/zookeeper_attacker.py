"""A process of hostile clients of ZooKeeper's protocol: `python -m tests.hostile.zookeeper_attacker KIND SECONDS SEED CLIENTPORT:TLSPORT...`.

requests  drawn requests of every opcode, sound or mutated, on paths with and without a megabyte of data, pipelined
parent    multis of creates and deletes below a parent with a megabyte of data, and quotas that change
multis    the same as `parent` with as many operations in a multi as one may have, one connection to each server
watches   recursive watches of many lengths, and many watchers of what others change
reads     multiReads of the children of the large znode, as many as one may have, answers thrown away
silent    256 connections at the TLS port that say nothing, and as many at the other one
claims    handshakes for sessions that never were

One JSON object of counts at the end.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import attrs
import click
import trio

from virtuallog.rpc.tls_acceptor import HANDSHAKES_MAX
from virtuallog_database.tree.commands import OPEN_ACL
from virtuallog_server.zookeeper.wire.opcodes import OpCode
from virtuallog_server.zookeeper.wire.requests import MULTI_OPERATIONS_MAX
from virtuallog_simulation.workload.database.jute import Writer

HOST: Final = "127.0.0.1"
LARGE: Final = "/siege/large"
LARGE_BYTES: Final = 900_000
PARALLEL: Final = {"requests": 8, "parent": 2, "multis": 1, "watches": 4, "reads": 4, "silent": 1, "claims": 4}
"""Connections, or herds of them, to each server."""
_PATHS: Final = (
    "/",
    "/siege",
    LARGE,
    "/siege/small",
    "/siege/small/a",
    "/zookeeper/quota/siege/zookeeper_limits",
    "/zookeeper/config",
    "",
)
_WINDOW: Final = 50
"""Requests that are sent at once."""
_MUTATED: Final = 0.1


@attrs.frozen
class Target:
    """One server."""

    client: int
    tls: int


@attrs.define(eq=False)
class Attacker:
    """The state that all connections share."""

    chooser: random.Random
    count: Counter[str] = attrs.field(factory=Counter)

    async def connect(self, target: Target, session: int = 0) -> trio.SocketStream:
        """A connection, after its handshake."""
        stream = await trio.open_tcp_stream(HOST, target.client)
        try:
            password = self.chooser.randbytes(16) if session else bytes(16)
            await stream.send_all(
                Writer().int32(0).int64(0).int32(10_000).int64(session).buffer(password).flag(True).frame()
            )
            await stream.receive_some()
        except BaseException:
            stream.socket.close()
            raise
        self.count["connections"] += 1
        return stream

    async def send(self, stream: trio.SocketStream, requests: Sequence[tuple[int, Writer]]) -> None:
        frames = b"".join(_framed(number, opcode, body) for number, (opcode, body) in enumerate(requests, 1))
        self.count["requests"] += len(requests)
        await stream.send_all(frames)

    def draw(self) -> tuple[int, Writer]:
        """A request of any opcode."""
        opcode = self.chooser.choice(list(OpCode))
        body = request_body(opcode, self.chooser)
        if self.chooser.random() < _MUTATED and body.content:
            body.content[self.chooser.randrange(len(body.content))] ^= 1 << self.chooser.randrange(8)
        self.count[opcode.name] += 1
        return opcode, body


def _framed(xid: int, opcode: int, body: Writer) -> bytes:
    writer = Writer().int32(xid).int32(opcode)
    writer.content += body.content
    return bytes(writer.frame())


def request_body(opcode: OpCode, chooser: random.Random) -> Writer:
    """A sound body of any kind of request."""
    path, writer, flag = chooser.choice(_PATHS), Writer(), chooser.random() < 0.5
    below = f"{chooser.choice(('/siege/small', LARGE))}/{chooser.randint(0, 500)}"
    match opcode:
        case OpCode.CREATE | OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
            kind = {OpCode.CREATE_CONTAINER: 4, OpCode.CREATE_TTL: 5}.get(opcode, chooser.choice((0, 1, 2, 3)))
            writer.string(below).buffer(chooser.randbytes(chooser.choice((0, 10, 1000)))).acl(OPEN_ACL).int32(kind)
            return writer.int64(60_000) if opcode is OpCode.CREATE_TTL else writer
        case OpCode.DELETE | OpCode.CHECK:
            return writer.string(below).int32(-1)
        case OpCode.SET_DATA:
            return (
                writer.string(chooser.choice((below, "/siege/small"))).buffer(b"x" * chooser.choice((0, 100))).int32(-1)
            )
        case OpCode.SET_ACL:
            return writer.string(below).acl(OPEN_ACL).int32(-1)
        case OpCode.EXISTS | OpCode.GET_DATA | OpCode.GET_CHILDREN | OpCode.GET_CHILDREN2:
            return writer.string(chooser.choice((path, below))).flag(flag)
        case OpCode.MULTI:
            return multi(
                [
                    (OpCode.CREATE, request_body(OpCode.CREATE, chooser)),
                    (OpCode.DELETE, request_body(OpCode.DELETE, chooser)),
                ]
            )
        case OpCode.MULTI_READ:
            return multi([(OpCode.GET_DATA, Writer().string(path).flag(False))] * chooser.randint(1, 20))
        case OpCode.RECONFIG:
            return writer.string("server.9=x:1:2").string("").string("").int64(-1)
        case OpCode.CHECK_WATCHES | OpCode.REMOVE_WATCHES:
            return writer.string(path).int32(chooser.choice((1, 2, 3)))
        case OpCode.ADD_WATCH:
            return writer.string(chooser.choice((path, below))).int32(int(flag))
        case OpCode.SET_WATCHES | OpCode.SET_WATCHES2:
            writer.int64(0)
            for _ in range(3 if opcode is OpCode.SET_WATCHES else 5):
                writer.strings([chooser.choice(_PATHS) for _ in range(3)])
            return writer
        case OpCode.AUTH:
            return writer.int32(0).string("digest").buffer(b"stranger:%d" % chooser.randint(0, 9))
        case OpCode.SASL:
            return writer.buffer(chooser.randbytes(20))
        case OpCode.PING | OpCode.WHO_AM_I | OpCode.CLOSE_SESSION:
            return writer
        case _:
            return writer.string(path)


def multi(operations: Sequence[tuple[int, Writer]]) -> Writer:
    writer = Writer()
    for opcode, body in operations:
        writer.int32(opcode).flag(False).int32(-1).content += body.content
    return writer.int32(-1).flag(True).int32(-1)


async def requests(attacker: Attacker, target: Target) -> None:
    async with await attacker.connect(target) as stream:
        for _ in range(20):
            await attacker.send(stream, [attacker.draw() for _ in range(_WINDOW)])
            with trio.move_on_after(0.2):  # noqa: TID251 -- against real processes
                while await stream.receive_some(1 << 20):
                    pass
                return


async def parent(attacker: Attacker, target: Target) -> None:
    await _fill_and_empty(attacker, target, 1000)


async def multis(attacker: Attacker, target: Target) -> None:
    await _fill_and_empty(attacker, target, MULTI_OPERATIONS_MAX)


async def _fill_and_empty(attacker: Attacker, target: Target, count: int) -> None:
    async with await attacker.connect(target) as stream:
        names = [f"{LARGE}/m{attacker.chooser.getrandbits(40)}-{number}" for number in range(count)]
        creates = [(OpCode.CREATE, Writer().string(each).buffer(b"").acl(OPEN_ACL).int32(0)) for each in names]
        deletes = [(OpCode.DELETE, Writer().string(each).int32(-1)) for each in names]
        limits = Writer().string("/zookeeper/quota/siege/zookeeper_limits").buffer(b"count=1000000,bytes=-1").int32(-1)
        await attacker.send(
            stream, [(OpCode.MULTI, multi(creates)), (OpCode.SET_DATA, limits), (OpCode.MULTI, multi(deletes))]
        )
        await _read_for(stream, 2.0)


async def watches(attacker: Attacker, target: Target) -> None:
    async with await attacker.connect(target) as stream:
        long = [
            (OpCode.ADD_WATCH, Writer().string("/siege/small" + "/x" * number).int32(1)) for number in range(1, 1000, 2)
        ]
        herd = [(OpCode.EXISTS, Writer().string(f"/siege/small/{number}").flag(True)) for number in range(500)]
        await attacker.send(stream, [*long, *herd])
        await _read_for(stream, 0.5)
        changes = [
            (opcode, request_body(opcode, attacker.chooser))
            for opcode in (OpCode.CREATE, OpCode.SET_DATA, OpCode.DELETE)
        ]
        await attacker.send(stream, changes * 30)
        await _read_for(stream, 1.0)


async def reads(attacker: Attacker, target: Target) -> None:
    async with await attacker.connect(target) as stream:
        one = (OpCode.GET_CHILDREN, Writer().string(LARGE).flag(False))
        await attacker.send(stream, [(OpCode.MULTI_READ, multi([one] * MULTI_OPERATIONS_MAX))])
        await _read_for(stream, 1.0)


async def silent(attacker: Attacker, target: Target) -> None:
    async with trio.open_nursery() as nursery:
        for port in (target.tls, target.client):
            for _ in range(HANDSHAKES_MAX):
                nursery.start_soon(_say_nothing, attacker, port)


async def _say_nothing(attacker: Attacker, port: int) -> None:
    with suppress(OSError, trio.BrokenResourceError):
        async with await trio.open_tcp_stream(HOST, port) as stream:
            attacker.count["silent"] += 1
            await stream.receive_some()


async def claims(attacker: Attacker, target: Target) -> None:
    stream = await attacker.connect(target, 1 << 56 | attacker.chooser.getrandbits(56))
    await trio.aclose_forcefully(stream)


async def _read_for(stream: trio.SocketStream, seconds: float) -> None:
    with trio.move_on_after(seconds):  # noqa: TID251 -- against real processes
        while await stream.receive_some(1 << 20):
            pass


KINDS: Final[dict[str, Callable[[Attacker, Target], Awaitable[None]]]] = {
    each.__name__: each for each in (requests, parent, multis, watches, reads, silent, claims)
}


async def attack(kind: str, seconds: float, seed: int, targets: Sequence[Target]) -> Counter[str]:
    """Attack in one way for this time."""
    attacker = Attacker(random.Random(seed))

    async def again_and_again(target: Target) -> None:
        while True:
            try:
                await KINDS[kind](attacker, target)
            except (OSError, trio.BrokenResourceError) as error:
                attacker.count[f"connection: {type(error.__cause__ or error).__name__}"] += 1
            await trio.sleep(0.01)  # noqa: TID251 -- against real processes

    with trio.move_on_after(seconds):  # noqa: TID251 -- the same
        async with trio.open_nursery() as nursery:
            for target in targets:
                for _ in range(PARALLEL[kind]):
                    nursery.start_soon(again_and_again, target)
    return attacker.count


@click.command()
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("seconds", type=float)
@click.argument("seed", type=int)
@click.argument("ports", nargs=-1, required=True)
def main(*, kind: str, seconds: float, seed: int, ports: tuple[str, ...]) -> None:
    targets = [Target(*map(int, each.split(":"))) for each in ports]
    sys.stdout.write(json.dumps(trio.run(attack, kind, seconds, seed, targets)) + "\n")


if __name__ == "__main__":
    main()
