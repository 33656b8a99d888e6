"""What tests of a state in a replicated log do again and again."""

from __future__ import annotations

from typing import Final

from tests.database.state.clients import Clients
from virtuallog_database.state.core.log_records import LogRecord, parse_untrusted
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.replicated_log import ReplicatedLogStorage
from virtuallog_database.state.variable import StateEntry, Variable
from virtuallog_loglets.paxos.standalone.log import Log
from virtuallog_loglets.paxos.standalone.reader import LogReader
from virtuallog_loglets.paxos.standalone.writer import LogWriter

ONE: Final = StateEntry(bytes(1000) + b"1", b"1" * 16)
TWO: Final = StateEntry(bytes(1000) + b"2", b"2" * 16)
"""The difference of the two is small."""


def state(storage: ReplicatedLogStorage, settle_seconds: float = 20.0) -> State:
    return Clients(storage, storage).state(settle_seconds=settle_seconds)


async def stored(storage: ReplicatedLogStorage, name: str, value: bytes) -> Variable:
    """The variable after one more store."""
    made = state(storage)
    return await made.store((await made.fetch(name)).mutate(value))


async def value(storage: ReplicatedLogStorage, name: str) -> bytes:
    return (await state(storage).fetch(name)).value


async def held(storage: ReplicatedLogStorage) -> list[LogRecord]:
    """Records that the log holds."""
    reader = LogReader(storage._log)
    return [parse_untrusted(each.data) for each in await reader.read(await reader.beginning(), await reader.ending())]


async def append(log: Log, data: bytes) -> None:
    """What another program does."""
    writer = LogWriter(log)
    assert await writer.start() is not None
    assert await writer.append(data) is not None
