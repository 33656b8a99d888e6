"""The database inside a program, without a network: `open_embedded`.

    async with open_embedded("data") as client:
        await client.create("/greeting", b"hello")

A front door only: nothing else of `virtuallog` imports it, as it brings the server and RocksDB along.
"""

from virtuallog_server.embedded import open_embedded

__all__ = ["open_embedded"]
