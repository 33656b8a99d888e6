"""Records over each storage, and streams of their updates."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.database.state.clients import STORAGES, Opened
from tests.metastore.world import simulated
from virtuallog.contract.errors import TooLargeError
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.state.core.record_changes import RecordChanges, StoredUpdate
from virtuallog_database.state.records import STREAM_BYTES_MAX, PackedRecords, UpdateStream
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.memory import MemoryStorage

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


@pytest.fixture(params=list(STORAGES.values()), ids=list(STORAGES))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens two clients of a new storage, of each kind."""
    return partial(request.param, tmp_path)


@simulated
async def test_records_that_make_a_value_too_large_are_refused(opened: Opened) -> None:
    """Each update is small, and all records together are one value. The refused update has done nothing, and the next one goes on from the
    same version."""
    async with opened() as clients:
        records = PackedRecords(clients.first)
        half = bytes(clients.first.value_bytes_max // 2)
        assert await records.update("r", A, RecordChanges(A, {b"1": half}), may_create=True)
        with pytest.raises(TooLargeError, match="'r'"):
            await records.update("r", A, RecordChanges(B, {b"2": half}), may_create=False)
        assert await records.update("r", A, RecordChanges(C, {b"2": b"small"}), may_create=False)
        found = await PackedRecords(clients.second).load("r")
        assert found is not None
        assert (dict(found.records), found.version) == ({b"1": half, b"2": b"small"}, C)


async def test_a_storage_refuses_a_value_that_is_too_large() -> None:
    """The error names the variable: `state copy` stores many."""
    storage = MemoryStorage(value_bytes_max=3)
    with pytest.raises(TooLargeError, match="5 bytes in the value of 'config', where 3 is the limit"):
        await State(storage).store((await State(storage).fetch("config")).mutate(b"large"))


async def test_a_later_form_of_records_needs_a_newer_program() -> None:
    """It is no damage: the error names the variable, and says what to do."""
    state = State(storage := MemoryStorage())
    await state.store((await state.fetch("jobs")).mutate(b"VR\2\0\0"))
    with pytest.raises(BinaryTooOldError, match=r"'jobs'.*newer"):
        await PackedRecords(storage).load("jobs")


async def test_a_reader_that_is_behind_by_too_many_bytes_gets_a_hole() -> None:
    """Few updates of megabytes take as much memory as many small ones. What was read counts no more."""
    stream = UpdateStream()
    large = StoredUpdate(A, B, {b"1": bytes(STREAM_BYTES_MAX // 4)}, [])
    for _ in range(6):
        stream.put(large)
        assert await stream.next() is large
    for _ in range(3):
        stream.put(large)
    assert await stream.next() is large
    stream.put(large)
    assert await stream.next() is large
    for _ in range(4):
        stream.put(large)
    assert await stream.next() is None
