"""The database inside a program, without a network: `open_embedded`.

    async with open_embedded("data") as client:
        await client.create("/greeting", b"hello")

A facade: re-exports only. No other module of the project imports it, as it imports the server and RocksDB.
"""

from virtuallog_server.embedded import open_embedded

__all__ = ["open_embedded"]
