"""The tree in one process, without a network: python examples/embedded_kv.py DIRECTORY"""

import sys

import trio

from virtuallog.embedded import open_embedded


async def main(path: str) -> None:
    async with open_embedded(path) as client:
        if await client.exists("/starts") is None:
            await client.create("/starts", b"0")
        data, stat = await client.get("/starts")
        await client.set("/starts", b"%d" % (int(data) + 1), version=stat.version)
        async with client.session() as session:
            await session.create_ephemeral("/here")  # gone when the block ends, or soon after the process has died
            print("start", int(data) + 1, "znodes", sorted(await client.children("/")))


trio.run(main, sys.argv[1])
