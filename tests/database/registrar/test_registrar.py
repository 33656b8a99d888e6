"""The registrar over storages in memory: Mesos' own tests of it, and what they do not ask."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.database.registrar.lossy_records import NAMES, Admit, Remove, Storage, opened
from virtuallog.contract.errors import (
    DiskFullError,
    StorageError,
    TooLargeError,
)
from virtuallog_database.registrar.core import ownership
from virtuallog_database.registrar.core.batch import OperationResult
from virtuallog_database.registrar.core.edit import Edit, Operation
from virtuallog_database.registrar.core.machine import BATCH_BYTES
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP, Ownership
from virtuallog_database.registrar.errors import (
    DeposedError,
    NotRecoveredError,
    RegistrarAbortedError,
)
from virtuallog_database.registrar.registrar import Registrar, RegistryChange


@attrs.frozen
class Buggy:
    """Changes the registry, then raises what no operation should."""

    def perform(self, edit: Edit) -> None:
        edit.put(NAMES, "half", "done")
        raise ZeroDivisionError


async def test_operations_wait_for_the_recovery(autojump_clock: MockClock) -> None:
    """RegistrarTest.Recover: before `recover` operations fail; those of the recovery wait, and succeed in order."""
    storage = Storage()
    async with opened(storage) as registrar, trio.open_nursery() as nursery:
        with pytest.raises(NotRecoveredError):
            await registrar.apply(Admit("a"))
        storage.is_open = trio.Event()
        answers: list[str] = []

        async def admit(key: str) -> None:
            assert (await registrar.apply(Admit(key))).is_permitted
            answers.append(key)

        nursery.start_soon(registrar.recover)
        for key in "abc":
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(admit, key)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        storage.is_open.set()
        registry = await registrar.recover()
        await trio.testing.wait_all_tasks_blocked()

        assert sorted(answers) == ["a", "b", "c"]
        assert [key for key, _ in registry.items(NAMES)] == ["a", "b", "c"]
        assert registry.get(OWNERSHIP, KEY) == Ownership("one", 1)
        assert len(storage.updates) == 2, "the fence, and one batch"


async def test_a_refused_operation_changes_nothing(autojump_clock: MockClock) -> None:
    """RegistrarTest.Admit: true, then false; the others of its batch go on."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        results = await at_once(registrar, storage, [Admit("a"), Admit("a", "again"), Admit("b")])

        assert [(each.is_permitted, each.is_changed) for each in results] == [
            (True, True),
            (False, False),
            (True, True),
        ]
        assert results[1].reason == "a is admitted"
        assert await storage.stored() == {"first": "a name", "a": "a name", "b": "a name"}
        assert len({each.version for each in results}) == 1, "one batch"


async def test_a_bug_fails_alone(autojump_clock: MockClock) -> None:
    """An operation that raises leaves no trace, and its batch goes on."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        with pytest.raises(ZeroDivisionError):
            await registrar.apply(Buggy())
        assert (await registrar.apply(Admit("a"))).is_changed
        assert await storage.stored() == {"a": "a name"}


async def test_nothing_is_stored_for_nothing(autojump_clock: MockClock) -> None:
    """A batch that changes nothing is answered without a store."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        before = len(storage.updates)
        result = await registrar.apply(Remove("unknown"))
        assert result == OperationResult(True, False, registrar.version)
        assert len(storage.updates) == before


async def test_the_next_owner_fences_the_former_one(autojump_clock: MockClock) -> None:
    """A recovery changes the version, so the former owner's store is refused: it is used up, a new one works."""
    storage = Storage()
    async with opened(storage) as first, opened(Storage(storage.inner), "two") as second:
        await first.recover()
        await first.apply(Admit("a"))
        registry = await second.recover()
        assert registry.get(OWNERSHIP, KEY) == Ownership("two", 2)
        with pytest.raises(DeposedError):
            await first.apply(Admit("b"))
        with pytest.raises(DeposedError):
            await first.apply(Admit("c"))
        assert (await second.apply(Admit("b"))).is_changed
        assert await storage.stored() == {"a": "a name", "b": "a name"}
    async with opened(storage, "three") as third:
        assert dict((await third.recover()).items(NAMES)) == {"a": "a name", "b": "a name"}


async def test_a_lost_answer_is_settled(autojump_clock: MockClock) -> None:
    """The store is repeated, and finds what it has done: defect 14 of Mesos, where the master aborts."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        storage.lost_answers, storage.lost_calls = 1, 1
        assert (await registrar.apply(Admit("a"))).is_changed
        assert await storage.stored() == {"a": "a name"}


async def test_abort(autojump_clock: MockClock) -> None:
    """RegistrarTest.Abort: one failure of the storage is for good, also for those that wait; another registrar goes on from there."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        storage.broken = StorageError("the disk is read-only")
        with pytest.RaisesGroup(*[RegistrarAbortedError] * 3, flatten_subgroups=True):
            await at_once(registrar, storage, [Admit("a"), Admit("b")])
        with pytest.raises(RegistrarAbortedError, match="the disk is read-only"):
            await registrar.apply(Admit("c"))
        assert registrar.queued == 0
    async with opened(storage, "two") as second:
        await second.recover()
        assert (await second.apply(Admit("c"))).is_changed
        assert await storage.stored() == {"c": "a name"}


async def test_a_full_disk_is_waited_for(autojump_clock: MockClock) -> None:
    """Nothing has been done, so the same store is tried again until there is room."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        storage.broken = DiskFullError("no room")
        assert (await registrar.apply(Admit("a"))).is_changed
        assert await storage.stored() == {"a": "a name"}


async def test_an_abort_is_for_good(autojump_clock: MockClock) -> None:
    """RegistrarTest.StoreTimeout: the outcome is unknown, and later operations fail though the storage answers again."""
    storage = Storage()
    async with opened(storage, aborts=True, store_seconds=20.0) as registrar:
        await registrar.recover()
        storage.is_silent = True
        began = trio.current_time()
        with pytest.raises(RegistrarAbortedError):
            await registrar.apply(Admit("a"))
        assert trio.current_time() - began == 20.0
        storage.is_silent = False
        with pytest.raises(RegistrarAbortedError):
            await registrar.apply(Admit("b"))
        assert registrar.queued == 0


async def test_batches_are_bounded(autojump_clock: MockClock) -> None:
    """A batch takes what a store may hold; an operation that alone is larger is refused, and changes nothing."""
    storage = Storage(changes_bytes_max=1000)
    async with opened(storage) as registrar:
        await registrar.recover()
        with pytest.raises(TooLargeError):
            await registrar.apply(Admit("large", "x" * 1000))
        await at_once(registrar, storage, [Admit(f"{number}", "x" * 90) for number in range(50)])

        assert len(await storage.stored()) == 51
        assert all(sum(len(key) + len(value) for key, value in each.puts.items()) <= 1000 for each in storage.updates)


async def test_the_stream_of_changes_has_every_stored_batch(autojump_clock: MockClock) -> None:
    """In order, and nothing before it is stored; it ends with the registrar."""
    storage = Storage()
    seen: list[tuple[str, str | None]] = []
    async with trio.open_nursery() as nursery:
        async with opened(storage) as registrar:
            await registrar.recover()
            with registrar.changes() as stream:
                await registrar.apply(Admit("a"))
                await registrar.apply(Remove("a"))
                for _ in range(2):
                    change = await stream.receive()
                    seen += [(key, None if slot is None else slot.record) for (_, key), slot in change.changes.items()]
                assert change.version == registrar.version
        nursery.cancel_scope.cancel()
    assert seen == [("a", "a name"), ("a", None)]


async def test_the_stream_ends_with_the_registrar(autojump_clock: MockClock) -> None:
    """A reader that waits in another task gets the end, also when the registrar is closed."""
    storage = Storage()
    async with trio.open_nursery() as nursery, opened(storage) as registrar:
        await registrar.recover()
        with registrar.changes() as stream:
            nursery.start_soon(_drain, stream)
            await trio.testing.wait_all_tasks_blocked()
            registrar.end()
            await trio.testing.wait_all_tasks_blocked()
            assert isinstance(await registrar.ended(), RegistrarAbortedError)


async def _drain(stream: trio.MemoryReceiveChannel[RegistryChange]) -> None:
    async for _ in stream:
        pass


async def test_one_operation_may_be_larger_than_a_usual_batch(autojump_clock: MockClock) -> None:
    """Up to what a store takes; those behind it come in the next batch."""
    storage = Storage(changes_bytes_max=2 << 20)
    async with opened(storage) as registrar:
        await registrar.recover()
        large = Admit("large", "x" * (2 * BATCH_BYTES))
        results = await at_once(registrar, storage, [large, Admit("b")])
        assert all(result.is_changed for result in results)
        assert results[0].version != results[1].version


async def test_the_operation_of_a_cancelled_caller_may_happen(autojump_clock: MockClock) -> None:
    """Cancelling stops the wait, and nothing else; the registrar goes on."""
    storage = Storage()
    async with opened(storage) as registrar:
        await registrar.recover()
        storage.is_open = trio.Event()
        with trio.move_on_after(1):
            await registrar.apply(Admit("a"))
        storage.is_open.set()
        await registrar.apply(Admit("b"))
        assert await storage.stored() == {"a": "a name", "b": "a name"}


async def test_the_end_of_the_block_meets_the_answer_of_a_store(autojump_clock: MockClock) -> None:
    """The store is answered in the turn in which the block ends. Its caller gets an unknown outcome."""
    storage = Storage()
    async with trio.open_nursery() as nursery, opened(storage) as registrar:
        await registrar.recover()
        storage.is_open = trio.Event()
        nursery.start_soon(_aborted, registrar)
        await trio.testing.wait_all_tasks_blocked()
        storage.is_open.set()
    assert await storage.stored() in ({}, {"a": "a name"})


async def test_the_end_of_the_block_meets_the_answer_of_a_load(autojump_clock: MockClock) -> None:
    """The same during the recovery."""
    storage = Storage()
    storage.is_open = trio.Event()
    async with trio.open_nursery() as nursery, opened(storage) as registrar:
        nursery.start_soon(_recovery_aborted, registrar)
        await trio.testing.wait_all_tasks_blocked()
        storage.is_open.set()


async def _aborted(registrar: Registrar) -> None:
    with pytest.raises(RegistrarAbortedError):
        await registrar.apply(Admit("a"))


async def _recovery_aborted(registrar: Registrar) -> None:
    with pytest.raises(RegistrarAbortedError):
        await registrar.recover()


async def at_once(registrar: Registrar, storage: Storage, operations: Sequence[Operation]) -> list[OperationResult]:
    """Results of operations that wait, in this order, while an earlier one is being stored."""
    results: dict[int, OperationResult] = {}

    async def one(number: int, operation: Operation) -> None:
        results[number] = await registrar.apply(operation)

    storage.is_open = trio.Event()
    async with trio.open_nursery() as nursery:
        for number, operation in enumerate([Admit("first"), *operations]):
            nursery.start_soon(one, number, operation)
            await trio.testing.wait_all_tasks_blocked()
        storage.is_open.set()
    return [results[number] for number in range(1, len(operations) + 1)]


def test_a_record_of_an_owner_is_read_as_it_was_written() -> None:
    """And nothing else is."""
    record = Ownership("master", 7, ("A", "B"))
    assert ownership.decode_untrusted(ownership.encode(record)) == record
