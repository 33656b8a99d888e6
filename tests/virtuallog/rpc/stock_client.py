"""A stock pycapnp client on asyncio, in a process of its own, as any Cap'n Proto program that uses
our server.

    stock_client.py shop.capnp node.capnp HOST PORT

prints one JSON object. It shares no code with ours.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import capnp


async def failure_of(promise: Any) -> list[str]:
    try:
        await promise
    except capnp.KjException as error:
        return [error.type, error.description]
    raise AssertionError("expected a failure")


async def main() -> None:
    imports = [str(Path(capnp.__file__).parent.parent)]
    shop, node = capnp.load(sys.argv[1]), capnp.load(sys.argv[2], imports=imports)
    stream = await capnp.AsyncIoStream.create_connection(host=sys.argv[3], port=int(sys.argv[4]))
    client = capnp.TwoPartyClient(stream)
    seen: dict[str, Any] = {}

    # On the bootstrap's promise, before it is answered: two interfaces of the one object.
    bootstrap = client.bootstrap()
    hello = bootstrap.cast_as(node.Node).hello()
    direct = bootstrap.cast_as(shop.Shop).store(segment={"version": 1, "attempt": 2}, batch=b"direct", position=40)
    answer = await hello
    seen["hello"] = [answer.node, answer.software]
    seen["direct"] = (await direct).tail

    # On the promise of open, in one flight with it.
    opened = bootstrap.cast_as(node.Node).open(cluster=b"c" * 16, node=1, storeId=b"s" * 16, boot=4)
    pipelined = [
        opened.node.cast_as(shop.Shop).store(segment={"version": 1, "attempt": 2}, batch=b"piped", position=50 + n)
        for n in range(20)
    ]
    seen["pipelined"] = [reply.tail for reply in await asyncio.gather(*pipelined)]
    settled = (await opened).node.cast_as(shop.Shop)
    seen["settled"] = (await settled.store(batch=b"x" * 30_000, position=60)).tail
    echo = await settled.echo(
        names=["näme"], items=[{"box": {"length": 3, "label": "l"}}, {"bag": None}], kind="notForSale"
    )
    seen["echo"] = [echo.names[0], echo.items[0].box.length, str(echo.items[1].which()), str(echo.kind)]

    # Refusals.
    wrong = bootstrap.cast_as(node.Node).open(node=2)
    behind = wrong.node.cast_as(shop.Shop).store(batch=b"never", position=70)
    seen["wrong open"] = await failure_of(wrong)
    seen["behind wrong open"] = await failure_of(behind)
    seen["typed"] = await failure_of(settled.store(batch=b"", position=2))
    seen["overloaded"] = await failure_of(settled.store(batch=b"", position=3))
    seen["not served"] = await failure_of(settled.notServed())
    seen["unknown interface"] = await failure_of(bootstrap.cast_as(shop.Annex).visit())

    # Cancelled: an early finish. And the connection still works.
    waiting = settled.wait(token=1)
    waiting.cancel()
    seen["after cancel"] = (await settled.store(batch=b"", position=80)).tail
    sys.stdout.write(json.dumps(seen))


asyncio.run(capnp.run(main()))
