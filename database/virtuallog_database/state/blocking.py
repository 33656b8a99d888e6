"""State and registrar for threads, scripts and notebooks.

    with open_blocking_state("rocks:data") as state:
        variable = state.fetch("config")
        variable = state.store(variable.mutate(b"hello"))

One background thread runs the async objects. All methods may be called from any number of threads; each does and raises the same as the
method of that name in `State` and `Registrar`, and ClientClosedError behind the block. A call that the end of the block interrupts raises
UnavailableError: unknown outcome.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import attrs

from virtuallog.runtime.loop_thread import LoopThread, open_in_thread
from virtuallog_database.registrar.core.batch import OperationResult
from virtuallog_database.registrar.core.edit import Operation
from virtuallog_database.registrar.core.tables import RecordTable, Registry
from virtuallog_database.registrar.registrar import Registrar, RegistrarSettings, open_registrar
from virtuallog_database.state.errors import OutcomeUnknownError
from virtuallog_database.state.location import open_storage, records_of
from virtuallog_database.state.state import State
from virtuallog_database.state.variable import Variable


@attrs.frozen(eq=False)
class BlockingState:
    """A `State` for threads."""

    _loop: LoopThread[State]

    def fetch(self, name: str) -> Variable:
        """See `State.fetch`."""
        return self._loop.run(self._loop.opened.fetch, name)

    def store(self, variable: Variable, *, recreate: bool = True) -> Variable:
        """See `State.store`."""
        return self._loop.run(partial(self._loop.opened.store, recreate=recreate), variable)

    def settle(self, error: OutcomeUnknownError) -> Variable | None:
        """See `State.settle`."""
        return self._loop.run(self._loop.opened.settle, error)

    def expunge(self, variable: Variable) -> bool:
        """See `State.expunge`."""
        return self._loop.run(self._loop.opened.expunge, variable)

    def names(self) -> frozenset[str]:
        """See `State.names`."""
        return self._loop.run(self._loop.opened.names)


@attrs.frozen(eq=False)
class BlockingRegistrar:
    """A `Registrar` for threads. Operations run on the thread of the event loop."""

    _loop: LoopThread[Registrar]

    def recover(self) -> Registry:
        """See `Registrar.recover`. The registry changes with each stored batch: read it by `read`."""
        return self._loop.run(self._loop.opened.recover)

    def apply(self, operation: Operation) -> OperationResult:
        """See `Registrar.apply`."""
        return self._loop.run(self._loop.opened.apply, operation)

    def read(self, table: RecordTable[Any]) -> dict[str, Any]:
        """All records of a table by key, in their order, as last stored."""

        async def copied() -> dict[str, Any]:
            return dict(self._loop.opened.registry.items(table))

        return self._loop.run(copied)

    @property
    def version(self) -> bytes:
        """See `Registrar.version`."""
        return self._loop.opened.version


@contextmanager
def open_blocking_state(location: str, *, create: bool = True) -> Iterator[BlockingState]:
    """Open the state of a location while the block runs; arguments and errors as `open_storage`."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[State]:
        async with open_storage(location, create=create) as storage:
            yield State(storage)

    with open_in_thread(opened, "virtuallog state") as loop:
        yield BlockingState(loop)


@contextmanager
def open_blocking_registrar(
    location: str,
    name: str,
    *,
    tables: Sequence[RecordTable[Any]],
    owner: str,
    settings: RegistrarSettings | None = None,
) -> Iterator[BlockingRegistrar]:
    """Open a registrar on the storage of a location while the block runs; arguments and errors as `open_storage` and `open_registrar`."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Registrar]:
        async with (
            open_storage(location) as storage,
            open_registrar(records_of(storage), name, tables=tables, owner=owner, settings=settings) as registrar,
        ):
            yield registrar

    with open_in_thread(opened, "virtuallog registrar") as loop:
        yield BlockingRegistrar(loop)
