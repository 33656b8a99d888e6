"""Operations that are wrong: what they would break for the next owner is refused, and they break nothing for others."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.registrar.lossy_records import NAME, NAMES, Admit, Remove, Storage, opened
from tests.database.registrar.test_registrar import at_once
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, TooLargeError
from virtuallog_database.registrar.core.edit import Edit, Operation
from virtuallog_database.registrar.core.machine import RegistrarMachine, Resolve, Store
from virtuallog_database.registrar.core.ownership import OWNER_BYTES_MAX
from virtuallog_database.registrar.core.tables import RecordTable, Registry
from virtuallog_database.registrar.errors import DeposedError, RegistrarAbortedError
from virtuallog_database.registrar.follower import open_follower
from virtuallog_database.registrar.json_codec import json_table
from virtuallog_database.registrar.registrar import RegistrarSettings, open_registrar
from virtuallog_database.state.core.record_changes import RecordChanges


@attrs.frozen
class Job:
    command: str
    priority: int = 0
    note: Any = None


JOBS = json_table("jobs", Job, lambda job: ["noted"] if job.note else [])


@attrs.frozen
class Submit:
    key: str
    job: Job

    def perform(self, edit: Edit) -> None:
        edit.put(JOBS, self.key, self.job)


@attrs.frozen
class Require:
    capability: Any

    def perform(self, edit: Edit) -> None:
        edit.require(self.capability)


@attrs.frozen
class PutElsewhere:
    def perform(self, edit: Edit) -> None:
        edit.put(RecordTable("elsewhere", str.encode, bytes.decode), "a", "b")


@attrs.frozen
class Async:
    async def perform(self, edit: Edit) -> None:
        edit.put(NAMES, "never", "done")


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Submit("j", Job("make", priority="high")), InvalidSettingError),  # type: ignore[arg-type]
        (Submit("j", Job("make", note=object())), InvalidSettingError),
        (Submit("j" * 600, Job("make")), InvalidSettingError),
        (Require(5), InvalidSettingError),
        (PutElsewhere(), InvalidSettingError),
        (Async(), TypeError),
    ],
    ids=["wrong type", "no JSON", "long key", "no text", "unknown table", "async"],
)
async def test_what_the_next_owner_could_not_read_is_refused(
    operation: Operation, error: type[Exception], autojump_clock: MockClock
) -> None:
    """The operation fails by itself, and nothing of it is stored."""
    storage = Storage()
    tables: Any = [NAMES, JOBS]
    async with open_registrar(storage, NAME, tables=tables, owner="one") as registrar:
        await registrar.recover()
        with pytest.raises(error):
            await registrar.apply(operation)
        assert (await registrar.apply(Admit("a"))).is_changed
    async with open_registrar(storage, NAME, tables=tables, owner="two") as registrar:
        assert [*(await registrar.recover()).items(JOBS)] == []


async def test_an_owner_without_a_name_is_refused() -> None:
    """Before anything is written: the next owner could not read it."""
    for owner in (5, None, b"me", "x" * OWNER_BYTES_MAX):
        with pytest.raises(InvalidSettingError):
            async with opened(Storage(), owner):  # type: ignore[arg-type]
                pass
    for capabilities in ("AB", [5]):
        with pytest.raises(InvalidSettingError):
            RegistrarSettings(capabilities=capabilities)  # type: ignore[arg-type]
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidSettingError):
            RegistrarSettings(store_seconds=seconds)


async def test_what_is_in_memory_is_what_is_stored(autojump_clock: MockClock) -> None:
    """A registry holds what the next owner will read, and no object of a caller."""
    storage, note = Storage(), {"n": 1}
    async with open_registrar(storage, NAME, tables=[JOBS], owner="one") as registrar:
        await registrar.recover()
        await registrar.apply(Submit("j", Job("make", note=note)))
        note["n"] = 99
        assert registrar.registry.get(JOBS, "j") == Job("make", note={"n": 1})


async def test_equal_records_that_are_stored_differently(autojump_clock: MockClock) -> None:
    """1 and True are equal to Python, and not to a reader of the store."""
    storage = Storage()
    async with open_registrar(storage, NAME, tables=[JOBS], owner="one") as registrar:
        await registrar.recover()
        await registrar.apply(Submit("j", Job("make", note=1)))
        assert (await registrar.apply(Submit("j", Job("make", note=True)))).is_changed
        assert not (await registrar.apply(Submit("j", Job("make", note=True)))).is_changed
        job = registrar.registry.get(JOBS, "j")
        assert job is not None
        assert job.note is True


def test_a_decoder_that_fails_in_its_own_way_is_corruption() -> None:
    """A KeyError of a decoder is no KeyError of the registrar."""
    table = RecordTable[str]("odd", str.encode, lambda blob: {b"known": "known"}[blob])

    with pytest.raises(CorruptionError):
        Registry.decode_untrusted({b"odd\0a": bytes(8) + b"else"}, [table])


def test_slow_operations_end_a_turn() -> None:
    """The driver says when a turn has been long enough; the others come in the next batch."""
    machine = running()
    for key in "abc":
        machine.offer(key, Admit(key))

    (store,) = machine.begin(lambda: True)
    assert isinstance(store, Store)
    assert len(store.changes.puts) == 1
    assert machine.queued == 3


def running() -> RegistrarMachine:
    """A machine that has recovered."""
    versions = iter(range(1, 100))
    machine = RegistrarMachine(NAME, [NAMES], "one", lambda: next(versions).to_bytes(16))
    machine.recover()
    machine.copied(Registry(), b"")
    machine.stored(is_done=True)
    return machine


async def test_an_operation_that_the_value_has_no_room_for(autojump_clock: MockClock) -> None:
    """The storage keeps all records in one value of limited size. Those that fit are stored, one after the other if need be."""
    storage = Small()
    async with opened(storage) as registrar:
        await registrar.recover()
        results = await at_once(registrar, storage, [Admit("a"), Admit("b"), Remove("a"), Admit("c")])
        assert all(result.is_changed for result in results)
        with pytest.raises(TooLargeError):
            await registrar.apply(Admit("d"))
        assert (await registrar.apply(Remove("b"))).is_changed
        assert (await registrar.apply(Admit("d"))).is_changed
        assert set(await storage.stored()) == {"first", "c", "d"}


class Small(Storage):
    """Records whose value has room for the owner and three names."""

    async def update(self, name: str, expected: bytes, changes: RecordChanges, *, may_create: bool) -> bool:
        found = await self.inner.load(name)
        keys = (set() if found is None else set(found.records)) - changes.deletes | set(changes.puts)
        if len(keys) > 4:
            raise TooLargeError("records of a value", len(keys), 4)
        return await super().update(name, expected, changes, may_create=may_create)


async def test_each_caller_has_an_error_of_its_own(autojump_clock: MockClock) -> None:
    """One object for all would collect the tracebacks of all."""
    storage = Storage()
    async with opened(storage) as first, opened(Storage(storage.inner), "two") as second:
        await first.recover()
        await second.recover()
        errors: list[DeposedError] = []

        async def admit(key: str) -> None:
            try:
                await first.apply(Admit(key))
            except DeposedError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for key in "abc":
                nursery.start_soon(admit, key)
        assert len({id(error) for error in errors}) == 3


async def test_a_follower_of_another_registry_is_refused(autojump_clock: MockClock) -> None:
    """Its copy would pass for this one."""
    storage = Storage()
    async with open_follower(storage, "other", tables=[NAMES]) as follower:
        with pytest.raises(InvalidSettingError):
            async with open_registrar(storage, NAME, tables=[NAMES], owner="one", follower=follower):
                pass


def test_a_fence_that_cannot_be_written_ends_the_recovery() -> None:
    """It does not pass for an owner."""
    machine = RegistrarMachine(NAME, [NAMES], "x" * 4096, lambda: bytes(16), changes_bytes_max=1024)
    machine.recover()

    assert machine.copied(Registry(), b"") == []
    assert isinstance(machine.error, TooLargeError)


def test_tags_are_counted_without_a_search() -> None:
    """As stored, and with what a batch has changed so far."""
    registry = Registry()
    for batch, expected in [("a1 b0 c1", 2), ("a0 b1", 2), ("-c", 1), ("-b a1", 1)]:
        edit = Edit(registry)
        for step in batch.split():
            if step[0] == "-":
                edit.delete(JOBS, step[1])
            else:
                edit.put(JOBS, step[0], Job("x", note=step[1] == "1"))
        assert edit.tagged(JOBS, "noted") == expected
        assert edit.count(JOBS) == len([*edit.items(JOBS)])
        registry.commit(edit.changes)
        assert registry.tagged(JOBS, "noted") == registry.copy().tagged(JOBS, "noted") == expected
        assert edit.tagged(JOBS, "unknown") == 0


@pytest.mark.parametrize("answer", ["done", "refused", "too large"])
def test_an_answer_behind_the_end_of_a_registrar(answer: str) -> None:
    """It was on its way when the registrar was closed: nothing follows from it."""
    machine = running()
    machine.offer("caller", Admit("a"))
    machine.begin()
    (told,) = machine.failed(RegistrarAbortedError(NAME, "it was closed"))
    assert isinstance(told, Resolve)

    behind = (
        machine.too_large(TooLargeError("x", 2, 1))
        if answer == "too large"
        else machine.stored(is_done=answer == "done")
    )
    assert behind == []
    assert machine.queued == 0


def test_a_copy_behind_the_end_of_a_registrar() -> None:
    """The same for a load."""
    machine = RegistrarMachine(NAME, [NAMES], "one", lambda: bytes(16))
    machine.recover()
    machine.failed(RegistrarAbortedError(NAME, "it was closed"))

    assert machine.copied(Registry(), b"") == []
