"""Named values with versions, and durable tables with one fenced owner, on storages that can be exchanged.

    async with open_storage("rocks:data") as storage:
        state = State(storage)
        variable = await state.fetch("config")
        variable = await state.store(variable.mutate(b"hello"))

A facade: re-exports only. No other module of the project imports it, as it imports the database.
"""

from virtuallog.runtime.bridge_errors import ClientClosedError
from virtuallog_database.registrar.core.batch import OperationResult
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError, Operation
from virtuallog_database.registrar.core.machine import EmptyPolicy
from virtuallog_database.registrar.core.tables import RecordTable, Registry
from virtuallog_database.registrar.follower import Follower, open_follower
from virtuallog_database.registrar.json_codec import json_table
from virtuallog_database.registrar.registrar import Registrar, RegistrarSettings, open_registrar
from virtuallog_database.state.blocking import (
    BlockingRegistrar,
    BlockingState,
    open_blocking_registrar,
    open_blocking_state,
)
from virtuallog_database.state.errors import OutcomeUnknownError, StaleVersionError
from virtuallog_database.state.location import open_storage, records_of
from virtuallog_database.state.records import PackedRecords
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.memory import MemoryStorage
from virtuallog_database.state.variable import Variable

__all__ = [
    "BlockingRegistrar",
    "BlockingState",
    "ClientClosedError",
    "Edit",
    "EmptyPolicy",
    "Follower",
    "MemoryStorage",
    "NotPermittedError",
    "Operation",
    "OperationResult",
    "OutcomeUnknownError",
    "PackedRecords",
    "RecordTable",
    "Registrar",
    "RegistrarSettings",
    "Registry",
    "StaleVersionError",
    "State",
    "Variable",
    "json_table",
    "open_blocking_registrar",
    "open_blocking_state",
    "open_follower",
    "open_registrar",
    "open_storage",
    "records_of",
]
