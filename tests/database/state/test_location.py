"""Locations: what is made, what is refused, and how long opening takes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.runtime.rocks_map import RocksMap, open_rocks_map
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.state.location import open_storage, open_within
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.rocks import open_rocks_storage


async def keep(location: str) -> None:
    """Store a variable in a storage."""
    async with open_storage(location) as storage:
        await State(storage).store((await State(storage).fetch("config")).mutate(b"1"))


def entries(folder: Path) -> list[str]:
    """Names of the files of a directory."""
    return sorted(path.name for path in folder.iterdir())


async def test_a_reading_program_makes_no_store(tmp_path: Path) -> None:
    """A directory of a wrong name is refused, and not made. One that a writer has made is opened."""
    for location, made in (("rocks:{}", ""), ("paxos-log:{}?quorum=1", "&auto_initialize=yes")):
        folder, before = tmp_path / location[:5], entries(tmp_path)
        with pytest.raises(InvalidSettingError, match=r"there is no state|no replica"):
            async with open_storage(location.format(folder), create=False):
                pass
        assert entries(tmp_path) == before
        await keep(location.format(folder) + made)
        async with open_storage(location.format(folder), create=False) as storage:
            assert await State(storage).names() == {"config"}


async def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    """Files of a person, and the store of another program: nothing is written there."""
    files, store = tmp_path / "files", tmp_path / "store"
    files.mkdir()
    (files / "letter").write_text("dear")
    async with open_rocks_map(store) as values:
        await values.write({b"vote": b"1"})
    for folder in (files, store):
        with pytest.raises(InvalidSettingError, match="something else"):
            await keep(f"rocks:{folder}")
    assert entries(files) == ["letter"]
    async with open_rocks_map(store) as values:
        assert await values.scan(b"") == [(b"vote", b"1")]


async def test_the_store_of_a_later_program_is_refused(tmp_path: Path) -> None:
    """Its marker tells the format."""
    await keep(f"rocks:{tmp_path}")
    async with open_rocks_map(tmp_path) as values:
        assert await values.get(b"format") == b"state 1"
        await values.write({b"format": b"state 2"})
    with pytest.raises(BinaryTooOldError, match="newer"):
        await keep(f"rocks:{tmp_path}")


async def test_a_store_without_its_marker_yet_is_a_new_one(tmp_path: Path) -> None:
    """The program that made it ended before the marker was written."""
    async with open_rocks_map(tmp_path):
        pass
    async with open_rocks_storage(tmp_path) as storage:
        assert await storage.names() == frozenset()


@pytest.mark.parametrize("text", ["maybe", "YES", ""])
async def test_a_setting_that_is_neither_yes_nor_no_is_refused(text: str, tmp_path: Path) -> None:
    """It is not taken for no: the caller would wait for a log that nothing founds."""
    with pytest.raises(InvalidSettingError):
        async with open_storage(f"paxos-log:{tmp_path}?quorum=1&auto_initialize={text}"):
            pass


async def test_a_log_on_a_full_disk_tells_so_when_it_is_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be stored in it, and the reason is known at once."""
    monkeypatch.setattr(RocksMap, "_is_there_room", lambda self: False)
    with caplog.at_level(logging.WARNING, logger="virtuallog"):
        async with open_storage(f"paxos-log:{tmp_path}?quorum=1&auto_initialize=yes"):
            pass
    assert "nearly full" in caplog.text


@asynccontextmanager
async def opening(seconds: float) -> AsyncIterator[str]:
    """Takes this long to be opened, with a task of its own beside the block."""
    async with trio.open_nursery() as nursery:
        await trio.sleep(seconds)
        nursery.start_soon(trio.sleep_forever)
        yield "open"
        nursery.cancel_scope.cancel()


async def why() -> str:
    return "node 2 is silent"


async def test_what_does_not_open_in_time_is_unavailable(autojump_clock: MockClock) -> None:
    """The error says what is missing: a cluster without a majority is not waited for without end."""
    with pytest.raises(UnavailableError, match="60 s: node 2 is silent"):
        async with open_within(opening(float("inf")), 60.0, why):
            pass
    assert trio.current_time() == pytest.approx(60.0)


async def test_the_deadline_of_opening_does_not_end_the_block(autojump_clock: MockClock) -> None:
    """What was opened in time may be used for any time; a cancellation from outside stays one."""
    async with open_within(opening(59.0), 60.0, why) as found:
        await trio.sleep(1000.0)
        assert found == "open"
    with trio.move_on_after(10.0) as scope:
        async with open_within(opening(59.0), 60.0, why):
            pass
    assert scope.cancelled_caught
