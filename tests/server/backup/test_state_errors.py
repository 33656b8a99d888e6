"""Errors of a state that cannot be fetched: damage, which stays, and a place that does not answer, which passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.backup.places import URL, InterruptedFiles, MemoryPlace
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_loglets.archive.drivers.files import Directory
from virtuallog_server.backup.scratch_store import install_state, scratch_directory
from virtuallog_server.backup.state_files import upload_store


async def saved_state(place: MemoryPlace, path: Path) -> Manifest:
    async with scratch_directory(path) as directory:
        store = await directory.open()
        return await upload_store(CompactionStore(URL, place), directory, store, b"c" * 16, 0)


@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_a_place_that_does_not_answer_is_no_damage(tmp_path: Path, answered: int) -> None:
    """From the first, the second or the third request on: the error is that of the place, and a restore may be tried again."""
    place, left = MemoryPlace(), [answered]
    state = await saved_state(place, tmp_path / "store")

    async def before() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise UnavailableError("the place does not answer")

    async def after() -> None:
        pass

    def opened(url: str) -> Directory:
        return InterruptedFiles(place(url), before, after)

    async with scratch_directory(tmp_path / "restored") as directory:
        with pytest.raises(UnavailableError, match="the place does not answer"):
            await install_state(directory, CompactionStore(URL, opened), state, SystemClock())
        await install_state(directory, CompactionStore(URL, place), state, SystemClock())


async def test_a_file_that_was_changed_is_named(tmp_path: Path) -> None:
    """Cut, changed, or gone: the error says which one."""
    place = MemoryPlace()
    state = await saved_state(place, tmp_path / "store")
    files = place(CompactionStore(URL, place).location(state.cluster, state.position))
    named = [each.stored for each in state.store if each.file.size]
    assert len(named) > 2
    for name in named:
        whole = files.content[name]
        for number, content in enumerate((whole[:-1], bytes([whole[0] ^ 1]) + whole[1:], None)):
            del files.content[name]
            if content is not None:
                files.content[name] = content
            async with scratch_directory(tmp_path / f"{name}-{number}") as directory:
                with pytest.raises(CorruptionError, match=name):
                    await install_state(directory, CompactionStore(URL, place), state, SystemClock())
        files.content[name] = whole
