"""State and registrar for threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

from virtuallog.contract.errors import InvalidSettingError
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
