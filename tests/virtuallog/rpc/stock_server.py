"""A stock pycapnp server on asyncio, in a process of its own: a node that is not ours.

    stock_server.py CHECKOUT

prints its port, serves one connection and ends with it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import capnp

SCHEMA: Any = capnp.load(str(Path(__file__).with_name("stock.capnp")), imports=[sys.argv[1]])
Base: Any = SCHEMA.ForeignNode.Server


class Server(Base):  # type: ignore[misc]
    async def open(self, node: int, _context: Any, **_: Any) -> Any:
        if node > 1:
            raise capnp.KjException("not me")
        return Server()

    async def hello(self, _context: Any, **_: Any) -> None:
        _context.results.software = "stock"

    async def store(self, position: int, batch: bytes, _context: Any, **_: Any) -> int:
        if position == 1:
            raise ValueError("a foreign bug")
        return position + len(batch)


async def main() -> None:
    over = asyncio.Event()

    async def serve(stream: Any) -> None:
        await capnp.TwoPartyServer(stream, bootstrap=Server()).on_disconnect()
        over.set()

    server = await capnp.AsyncIoStream.create_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await over.wait()


asyncio.run(capnp.run(main()))
