"""The database inside an asyncio program: `open_embedded` on a thread of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from virtuallog_database.aio.client import AsyncioDatabaseClient, open_client
from virtuallog_server.embedded import open_embedded as open_trio_embedded


@asynccontextmanager
async def open_embedded(path: str | Path) -> AsyncIterator[AsyncioDatabaseClient]:
    """Open the tree in a directory on a thread of its own while the block runs; arguments and errors as `virtuallog.embedded.open_embedded`."""
    async with open_client(partial(open_trio_embedded, path), "virtuallog database") as client:
        yield client
