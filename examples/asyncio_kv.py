"""The database in an asyncio program, without a network: python examples/asyncio_kv.py DIRECTORY"""

import asyncio
import sys

from virtuallog.aio.embedded import open_embedded


async def main(path: str) -> None:
    async with open_embedded(path) as client:
        if await client.exists("/starts") is None:
            await client.create("/starts", b"0")
        async with client.watch("/starts") as changes, client.session() as session:
            data, stat = await client.get("/starts")
            await client.set("/starts", b"%d" % (int(data) + 1), version=stat.version)
            change = await anext(changes)
            await session.create_ephemeral("/here")  # gone when the block ends, or soon after the process has died
            print("start", int(data) + 1, change.kind.name, sorted(await client.children("/")))


asyncio.run(main(sys.argv[1]))
