"""Typed tables in the database, for asyncio.

    async with client.tables.transaction() as t:
        account = await t.get(Account, "alice")
        await t.put(attrs.evolve(account, balance=0))

A facade: re-exports only. Rows, schemas and errors are those of `virtuallog.table`.
"""

from virtuallog_database.aio.tables import AsyncioTables, AsyncioTableTransaction

__all__ = ["AsyncioTables", "AsyncioTableTransaction"]
