#!/usr/bin/env python3
"""Cost of a call: pipelined calls a second between two processes over loopback, one JSON line per
measurement.

lab/virtuallog_lab/experiments/rpc.py [--outstanding 1,16,64] [--size 100,25000] [--seconds 2]
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import click
import trio

from virtuallog.admin.control import CONTROL, ChainChanged, ReconfigModify
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Handlers
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import Identity
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import bound_address, tcp_connect, tcp_listen
from virtuallog.runtime.clock import SystemClock

IDENTITY = Identity(cluster=b"", node=NodeId(1), store_id=b"", boot=1, software="bench")
CLOCK = SystemClock()


async def serve() -> None:
    """Answer every call at once."""
    handlers: Handlers = {ReconfigModify: lambda _, done: done(ChainChanged(register=b""))}
    listeners = await tcp_listen("127.0.0.1:0")
    sys.stdout.write(bound_address(listeners[0]) + "\n")
    sys.stdout.flush()
    await RpcServer(handlers, [CONTROL], lambda: IDENTITY, CLOCK).serve(listeners)


async def measure(client: RpcServices, outstanding: int, size: int, seconds: float) -> float:
    """Calls a second with so many in flight, each with so many bytes."""
    request = ReconfigModify(segment=SegmentId(1, 2), kind="bench", config=b"x" * size, base=0)
    stop, calls, flying, idle = CLOCK.monotonic() + seconds, 0, outstanding, trio.Event()

    def done(outcome: object) -> None:
        nonlocal calls, flying
        assert isinstance(outcome, ChainChanged), outcome
        calls += 1
        if CLOCK.monotonic() < stop:
            client.post(NodeId(1), request, done, 10.0)
        else:
            flying -= 1
            if not flying:
                idle.set()

    for _ in range(outstanding):
        client.post(NodeId(1), request, done, 10.0)
    await idle.wait()
    return calls / (CLOCK.monotonic() - stop + seconds)


async def run(address: str, outstanding: list[int], sizes: list[int], seconds: float) -> None:
    client = RpcServices([CONTROL], lambda _: Peer((address,)), tcp_connect(), CLOCK, random.Random())
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        for size in sizes:
            for count in outstanding:
                calls = await measure(client, count, size, seconds)
                line = {"outstanding": count, "bytes": size, "calls_per_s": round(calls), "us": round(1e6 / calls, 1)}
                sys.stdout.write(json.dumps(line) + "\n")
        nursery.cancel_scope.cancel()


@click.command()
@click.option("--outstanding", default="1,16,64")
@click.option("--size", default="100,25000")
@click.option("--seconds", default=2.0)
@click.option("--server", is_flag=True, hidden=True)
def main(*, outstanding: str, size: str, seconds: float, server: bool) -> None:
    if server:
        trio.run(serve)
        return
    command = [sys.executable, str(Path(__file__)), "--server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            trio.run(
                run,
                child.stdout.readline().strip(),
                [*map(int, outstanding.split(","))],
                [*map(int, size.split(","))],
                seconds,
            )
        finally:
            child.kill()


if __name__ == "__main__":
    main()
