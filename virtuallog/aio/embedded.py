"""The database inside an asyncio program, without a network: `open_embedded`.

    async with open_embedded("data") as client:
        await client.create("/greeting", b"hello")

A facade: re-exports only, as `virtuallog.embedded`.
"""

from virtuallog_server.embedded_asyncio import open_embedded

__all__ = ["open_embedded"]
