"""State, registrar and follower for asyncio, on real stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from tests.virtuallog.aio.asyncio_world import in_asyncio
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.runtime.bridge.asyncio_bridge import open_bridge
from virtuallog_database.aio.registrar import open_follower, open_registrar
from virtuallog_database.aio.state import AsyncioState, AsyncioStateStorage, open_storage, records_of
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.registrar.errors import DeposedError, NotRecoveredError, RegistrarAbortedError
from virtuallog_database.state.core.record_changes import RecordChanges
from virtuallog_database.state.errors import StaleVersionError
from virtuallog_database.state.storages.memory import MemoryStorage
from virtuallog_database.state.variable import StateEntry

NAMES = RecordTable[str]("names", str.encode, bytes.decode)


@attrs.frozen
class Put:
    key: str

    def perform(self, edit: Edit) -> None:
        if edit.get(NAMES, self.key):
            raise NotPermittedError("it is there")
        edit.put(NAMES, self.key, "a name")


@asynccontextmanager
async def memory(storage: MemoryStorage | None = None) -> AsyncIterator[AsyncioStateStorage]:
    """A storage in memory."""

    @asynccontextmanager
    async def opens() -> AsyncIterator[MemoryStorage]:
        yield storage or MemoryStorage()

    async with open_bridge(opens, "memory") as found:
        yield AsyncioStateStorage(found.opened, found.bridge)


def test_values_for_asyncio(tmp_path: Path) -> None:
    """The same answers and errors as the trio ones; what is stored is there the next time."""

    @in_asyncio
    async def story() -> None:
        async with open_storage(f"rocks:{tmp_path}") as storage:
            state = AsyncioState(storage)
            first = await state.store((await state.fetch("a")).mutate(b"1"))
            await state.store(first.mutate(b"2"), recreate=False)
            with pytest.raises(StaleVersionError):
                await state.store(first.mutate(b"3"))
        async with open_storage(f"rocks:{tmp_path}") as storage:
            state = AsyncioState(storage)
            found = await state.fetch("a")
            assert (found.value, await state.names()) == (b"2", frozenset({"a"}))
            assert await storage.get("a") is not None
            assert storage.value_bytes_max > 0
            assert await state.expunge(found)
            assert not await state.expunge(found)
            assert await storage.names() == frozenset()

    story()


@in_asyncio
async def test_a_wrong_location_is_refused() -> None:
    """The error of opening is raised where it is opened."""
    with pytest.raises(InvalidSettingError):
        await open_storage("nowhere").__aenter__()


@in_asyncio
async def test_records_of_a_storage() -> None:
    """Those of any storage are in one value of it."""
    async with memory() as storage:
        records = records_of(storage)
        assert await records.load("r") is None
        changes = RecordChanges(version=b"1" * 16, puts={b"k": b"v"}, deletes=frozenset())
        assert await records.update("r", b"", changes, may_create=True)
        loaded = await records.load("r")
        assert loaded is not None
        assert loaded.records == {b"k": b"v"}
        assert records.changes_bytes_max > 0


@in_asyncio
async def test_operations_of_many_tasks() -> None:
    """All of them are stored, each once; the stream of changes has each batch, in order, and ends with the registrar."""
    async with (
        memory() as storage,
        open_registrar(records_of(storage), "r", tables=[NAMES], owner="me") as registrar,
    ):
        with pytest.raises(NotRecoveredError):
            await registrar.apply(Put("early"))
        registry = await registrar.recover()
        assert registrar.was_empty
        async with registrar.changes() as changes:
            results = await asyncio.gather(*(registrar.apply(Put(f"{number}")) for number in range(40)))
            assert all(result.is_changed for result in results)
            assert not (await registrar.apply(Put("7"))).is_permitted
            keys = set[str]()
            while len(keys) < 40:
                keys |= {key for _, key in (await anext(changes)).changes}
        assert not registrar._registrar._readers
        assert sorted([key for key, _ in await registry.items(NAMES)], key=int) == [f"{number}" for number in range(40)]
        assert (await registry.count(NAMES), await registry.get(NAMES, "3")) == (40, "a name")
        assert registrar.version
        assert (registrar.queued, registrar.error, registrar.name) == (0, None, "r")
        assert await registrar.metrics()
        async with registrar.changes() as changes:
            ended = asyncio.create_task(registrar.ended())
            async with open_registrar(records_of(storage), "r", tables=[NAMES], owner="other") as other:
                await other.recover()
                with pytest.raises(DeposedError):
                    await registrar.apply(Put("late"))
                assert [change async for change in changes] == []
            assert isinstance(await ended, DeposedError)


class Gate(MemoryStorage):
    """A storage whose writes never get an answer once it is closed."""

    is_closed = False
    arrived: Callable[[], None]

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        if self.is_closed:
            self.arrived()
            await trio.sleep_forever()
        return await super().set(name, entry, expected, may_create=may_create)


@in_asyncio
async def test_a_registrar_is_closed_while_an_operation_waits() -> None:
    """RegistrarAbortedError: unknown outcome, as on trio."""
    gate, loop, begun = Gate(), asyncio.get_running_loop(), asyncio.Event()
    gate.arrived = lambda: _tell(loop, begun)
    async with memory(gate) as storage:
        async with open_registrar(records_of(storage), "r", tables=[NAMES], owner="me") as registrar:
            await registrar.recover()
            gate.is_closed = True
            task = asyncio.create_task(registrar.apply(Put("a")))
            await begun.wait()
        with pytest.raises(RegistrarAbortedError):
            await task


def _tell(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


@in_asyncio
async def test_a_standby_follows_and_takes_over() -> None:
    """The copy is there when the block begins, and `changed` misses no change between a look and a wait."""
    async with (
        memory() as storage,
        open_registrar(records_of(storage), "r", tables=[NAMES], owner="me") as registrar,
    ):
        await registrar.recover()
        await registrar.apply(Put("a"))
        async with open_follower(records_of(storage), "r", tables=[NAMES], poll_seconds=0.001) as follower:
            assert await follower.registry.get(NAMES, "a") == "a name"
            assert (follower.name, follower.version) == ("r", registrar.version)
            waiting = asyncio.create_task(follower.changed())
            await asyncio.sleep(0)
            await registrar.apply(Put("b"))
            await waiting
            assert await follower.registry.get(NAMES, "b") == "a name"
            assert follower.loads >= 1
            async with open_registrar(
                records_of(storage), "r", tables=[NAMES], owner="standby", follower=follower
            ) as standby:
                assert await (await standby.recover()).count(NAMES) == 2
