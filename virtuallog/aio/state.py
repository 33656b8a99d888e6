"""Named values with versions, and durable tables with one fenced owner, for asyncio.

    async with open_storage("rocks:data") as storage:
        state = AsyncioState(storage)
        variable = await state.fetch("config")
        variable = await state.store(variable.mutate(b"hello"))

A facade: re-exports only. Tables, operations, settings and errors are those of `virtuallog.state`.
"""

from virtuallog_database.aio.registrar import (
    AsyncioChanges,
    AsyncioFollower,
    AsyncioRegistrar,
    AsyncioRegistry,
    open_follower,
    open_registrar,
)
from virtuallog_database.aio.state import (
    AsyncioRecordStorage,
    AsyncioState,
    AsyncioStateStorage,
    open_storage,
    records_of,
)

__all__ = [
    "AsyncioChanges",
    "AsyncioFollower",
    "AsyncioRecordStorage",
    "AsyncioRegistrar",
    "AsyncioRegistry",
    "AsyncioState",
    "AsyncioStateStorage",
    "open_follower",
    "open_registrar",
    "open_storage",
    "records_of",
]
