"""How a registrar recovers: empty, foreign and later registries, and those that do not answer."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.database.registrar.lossy_records import NAME, NAMES, Admit, Storage, opened
from virtuallog.contract.errors import (
    CorruptionError,
)
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.registrar.core.edit import Edit
from virtuallog_database.registrar.core.machine import EmptyPolicy
from virtuallog_database.registrar.core.ownership import KEY
from virtuallog_database.registrar.core.tables import encode_key
from virtuallog_database.registrar.errors import (
    EmptyRegistryError,
    MissingCapabilitiesError,
    RegistrarAbortedError,
)
from virtuallog_database.state.core.record_changes import RecordChanges


async def test_a_recovery_times_out(autojump_clock: MockClock) -> None:
    """RegistrarTest.FetchTimeout: the recovery fails, also for those who ask later, and so does every operation."""
    storage = Storage(is_silent=True)
    async with opened(storage, fetch_seconds=60.0) as registrar:
        for _ in range(2):
            with pytest.raises(RegistrarAbortedError):
                await registrar.recover()
        assert trio.current_time() >= 60.0
        with pytest.raises(RegistrarAbortedError):
            await registrar.apply(Admit("a"))


@pytest.mark.parametrize(
    ("empty", "is_refused"), [(EmptyPolicy.FAIL, True), (EmptyPolicy.INITIALIZE, False), (EmptyPolicy.UPGRADE, False)]
)
async def test_an_empty_store(empty: EmptyPolicy, is_refused: bool, autojump_clock: MockClock) -> None:
    """The table of the seed document: strict refuses an empty store, and nothing is written; an initialised one is no empty one."""
    storage = Storage()
    async with opened(storage, empty=empty) as registrar:
        if is_refused:
            with pytest.raises(EmptyRegistryError):
                await registrar.recover()
            assert storage.updates == []
        else:
            await registrar.recover()
            assert registrar.was_empty
    if not is_refused:
        async with opened(storage, "two", empty=EmptyPolicy.FAIL) as registrar:
            await registrar.recover()
            assert not registrar.was_empty


@attrs.frozen
class Require:
    """Uses what former programs do not know."""

    capability: str
    is_needed: bool = True

    def perform(self, edit: Edit) -> None:
        (edit.require if self.is_needed else edit.release)(self.capability)


async def test_a_program_without_a_capability_is_refused(autojump_clock: MockClock) -> None:
    """The guard is in the registry, so a downgrade is noticed before it writes; it goes with the last use of the capability."""
    storage = Storage()
    async with opened(storage, "new", capabilities=["AGENT_DRAINING"]) as registrar:
        await registrar.recover()
        assert (await registrar.apply(Require("AGENT_DRAINING"))).is_changed
        assert not (await registrar.apply(Require("AGENT_DRAINING"))).is_changed
    before = len(storage.updates)
    async with opened(storage, "old") as registrar:
        with pytest.raises(MissingCapabilitiesError):
            await registrar.recover()
        assert len(storage.updates) == before
    async with opened(storage, "new", capabilities=["AGENT_DRAINING"]) as registrar:
        await registrar.recover()
        await registrar.apply(Require("AGENT_DRAINING", is_needed=False))
    async with opened(storage, "old") as registrar:
        await registrar.recover()


async def test_a_registry_that_cannot_be_read(autojump_clock: MockClock) -> None:
    """Records of another table, damaged ones, and those of a later format: typed, and nothing is written."""
    for key, value, error in [
        (b"others\0a", bytes(8), CorruptionError),
        (b"names\0a", b"short", CorruptionError),
        (b"names\0a", bytes(8) + b"\xff", CorruptionError),
        (encode_key("registrar", KEY), bytes(8) + b'[2,"x"]', BinaryTooOldError),
        (encode_key("registrar", KEY), bytes(8) + b"nothing", CorruptionError),
    ]:
        storage = Storage()
        await storage.inner.update(NAME, b"", RecordChanges(bytes(16), {key: value}), may_create=True)
        async with opened(storage) as registrar:
            with pytest.raises(error):
                await registrar.recover()
        assert storage.updates == []


async def test_an_upgrade_of_a_registry_that_is_there(autojump_clock: MockClock) -> None:
    """It goes on as it is, and says that all are to be admitted."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        await registrar.apply(Admit("a"))
    async with opened(storage, "two", empty=EmptyPolicy.UPGRADE) as registrar:
        await registrar.recover()
        assert registrar.is_upgrading
        assert not registrar.was_empty
        assert registrar.registry.get(NAMES, "a") == "a name"
