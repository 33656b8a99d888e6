"""State and registrar for threads."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.runtime.bridge_errors import ClientClosedError
from virtuallog.runtime.loop_thread import open_in_thread
from virtuallog_database.registrar.core.edit import Edit
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.state.blocking import open_blocking_registrar, open_blocking_state
from virtuallog_database.state.errors import StaleVersionError

NAMES = RecordTable[str]("names", str.encode, bytes.decode)


@attrs.frozen
class Put:
    key: str

    def perform(self, edit: Edit) -> None:
        edit.put(NAMES, self.key, "a name")


def test_values_for_threads(tmp_path: Path) -> None:
    """The same answers and errors as the async ones; what is stored is there the next time."""
    location = f"rocks:{tmp_path}"
    with open_blocking_state(location) as state:
        first = state.store(state.fetch("a").mutate(b"1"))
        state.store(first.mutate(b"2"))
        with pytest.raises(StaleVersionError):
            state.store(first.mutate(b"3"))
    with open_blocking_state(location) as state:
        found = state.fetch("a")
        assert (found.value, state.names()) == (b"2", frozenset({"a"}))
        assert state.expunge(found)
        assert not state.expunge(found)


def test_operations_of_many_threads(tmp_path: Path) -> None:
    """All of them are stored, each once."""
    with open_blocking_registrar(f"rocks:{tmp_path}", "r", tables=[NAMES], owner="me") as registrar:
        registrar.recover()
        with ThreadPoolExecutor(8) as pool:
            results = [*pool.map(registrar.apply, [Put(f"{number}") for number in range(40)])]
        assert all(result.is_changed for result in results)
        assert sorted(registrar.read(NAMES), key=int) == [f"{number}" for number in range(40)]
        assert registrar.version


def test_a_wrong_location_is_told_to_the_caller() -> None:
    """The error of opening is raised in the calling thread."""
    with pytest.raises(InvalidSettingError), open_blocking_state("nowhere"):
        pass


def test_a_call_behind_the_block_is_refused(tmp_path: Path) -> None:
    """By an error of this library, as every other one."""
    with open_blocking_state(f"rocks:{tmp_path}") as state:
        pass
    with open_blocking_registrar(f"rocks:{tmp_path}", "r", tables=[NAMES], owner="me") as registrar:
        pass
    for call in (state.names, registrar.recover, lambda: registrar.apply(Put("a")), lambda: registrar.read(NAMES)):
        with pytest.raises(ClientClosedError):
            call()


def test_a_call_that_the_end_of_the_block_interrupts_has_an_unknown_outcome() -> None:
    """It raises an error of this library in the calling thread, not one of the event loop."""
    began = threading.Event()

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        yield

    async def wait() -> None:
        began.set()
        await trio.sleep_forever()

    with ThreadPoolExecutor(1) as pool:
        with open_in_thread(opened, "test") as loop:
            waiting = pool.submit(loop.run, wait)
            began.wait()
        with pytest.raises(UnavailableError):
            waiting.result()
