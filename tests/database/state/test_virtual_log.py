"""Variables in a database over the virtual log: what the suite of all storages (`test_state.py`) does not ask."""

from __future__ import annotations

import random

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.state.replica_world import worlds
from virtuallog.contract.errors import StorageError, TooLargeError, UnavailableError, UnsupportedError
from virtuallog_database.engines.core.enabled_engines import STATE
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.view_tracking import ViewSettings
from virtuallog_database.ports import StoreReader
from virtuallog_database.registrar.core.edit import Edit
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.registrar.errors import DeposedError, MissingCapabilitiesError
from virtuallog_database.registrar.follower import open_follower
from virtuallog_database.registrar.registrar import RegistrarSettings, open_registrar
from virtuallog_database.state.core.record_changes import RecordChanges, pack
from virtuallog_database.state.core.variable_commands import Stage
from virtuallog_database.state.core.variables import Variables
from virtuallog_database.state.errors import StaleVersionError
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.virtual_log import CHUNK_BYTES
from virtuallog_database.testing.memory_store import MemoryDisk, MemoryStore

NAMES = RecordTable[str]("names", str.encode, bytes.decode)
A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


async def test_replicas_see_what_others_have_stored(autojump_clock: MockClock) -> None:
    """A read at any replica is linearizable, and of two writers one is stale."""
    async with worlds() as world:
        one, other = State(await world.storage(1)), State(await world.storage(2))
        mine, theirs = await one.fetch("config"), await other.fetch("config")
        mine = await one.store(mine.mutate(b"1"))
        assert (await other.fetch("config")).value == b"1"
        with pytest.raises(StaleVersionError):
            await other.store(theirs.mutate(b"2"))
        assert await other.names() == {"config"}
        assert await other.expunge(mine)
        assert await one.names() == frozenset()


async def test_the_first_write_of_a_new_database_is_not_late(autojump_clock: MockClock) -> None:
    """The replica announces itself when a write needs it, long before its next announcement is due."""
    async with worlds() as world:
        state = State(await world.storage(1))
        began = trio.current_time()
        await state.store((await state.fetch("config")).mutate(b"1"))
        assert trio.current_time() - began < ViewSettings().announce_seconds / 4


@pytest.mark.parametrize("size", [0, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
async def test_a_large_value_is_stored_in_pieces(size: int, autojump_clock: MockClock) -> None:
    """It is whole at another replica, and the pieces of the former value are gone."""
    async with worlds() as world:
        state, other = State(await world.storage(1)), State(await world.storage(2))
        value = random.Random(size).randbytes(size)
        variable = await state.store((await state.fetch("large")).mutate(b"x" * CHUNK_BYTES * 2))
        variable = await state.store(variable.mutate(value))
        assert (await other.fetch("large")).value == value
        assert len(world.records(1, b"large")) == max(1, -(-size // CHUNK_BYTES))
        await state.expunge(variable)
        assert world.records(1, b"large") == []


async def test_pieces_that_were_left_behind_are_deleted(autojump_clock: MockClock) -> None:
    """A writer that ends between its pieces leaves them; the next write of the name deletes them."""
    async with worlds() as world:
        storage = await world.storage()
        state = State(storage)
        variable = await state.store((await state.fetch("v")).mutate(b"1"))
        await storage._change(Stage(name=b"v", puts=[(b"p" + A + bytes(4), b"a piece")]))
        assert (await state.fetch("v")).value == b"1"
        await state.store(variable.mutate(b"2"))
        assert world.records(1, b"v") == [b"v"]


async def test_a_value_without_its_pieces_is_not_stored(autojump_clock: MockClock) -> None:
    """Another writer created and expunged the variable meanwhile, and deleted what was staged."""
    async with worlds() as world:
        storage = await world.storage()
        needs = [b"p" + A + bytes(4)]
        assert not await storage._update(b"v", b"", A, True, (), (), needs)
        await storage._change(Stage(name=b"v", puts=[(needs[0], b"a piece")]))
        assert await storage._update(b"v", b"", A, True, (), (), needs)


async def test_records_are_stored_by_what_changes(autojump_clock: MockClock) -> None:
    """An update is compared like a value, and leaves other records alone; another replica loads all of them."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)
        assert await storage.update("r", b"", RecordChanges(A, {b"1": b"a", b"2": b"b"}), may_create=True)
        assert not await storage.update("r", B, RecordChanges(C, {b"1": b"c"}), may_create=True)
        assert await storage.update("r", A, RecordChanges(B, {b"2": b"d"}, frozenset([b"1"])), may_create=False)
        assert await storage.update("r", A, RecordChanges(B, {b"2": b"d"}), may_create=False), "it was stored before"
        found = await other.load("r")
        assert found is not None
        assert (dict(found.records), found.version) == ({b"2": b"d"}, B)
        with pytest.raises(TooLargeError):
            await storage.update("r", B, RecordChanges(C, {b"1": bytes(storage.changes_bytes_max)}), may_create=True)


async def test_a_packed_value_becomes_records_at_its_first_update(autojump_clock: MockClock) -> None:
    """`state copy` brings one value. What an attempt before has staged does not show."""
    async with worlds() as world:
        storage = await world.storage()
        state = State(storage)
        packed = pack([(b"1", b"a"), (b"2", bytes(CHUNK_BYTES)), (b"3", b"c")])
        variable = await state.store((await state.fetch("r")).mutate(packed))
        await storage._change(Stage(name=b"r", puts=[(b"r4", b"stale")]))
        assert await storage.update("r", variable.version, RecordChanges(A, {b"1": b"b"}), may_create=False)
        found = await storage.load("r")
        assert found is not None
        assert dict(found.records) == {b"1": b"b", b"2": bytes(CHUNK_BYTES), b"3": b"c"}
        assert world.records(1, b"r") == [b"r1", b"r2", b"r3"]
        assert (await state.fetch("r")).value == pack([(b"1", b"b"), (b"2", bytes(CHUNK_BYTES)), (b"3", b"c")])


async def test_a_late_conversion_changes_no_record(autojump_clock: MockClock) -> None:
    """A client that began to turn a packed value into records stands still, while another one does so and goes on."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)
        state = State(storage)
        packed = await state.store((await state.fetch("r")).mutate(pack([(b"1", b"old")])))
        assert await other.update("r", packed.version, RecordChanges(A, {b"1": b"new"}), may_create=False)
        late = await storage._change(Stage(name=b"r", puts=[(b"r1", b"old")], expected=packed.version))
        assert not late.is_done
        assert not await storage.update("r", packed.version, RecordChanges(B, {b"2": b"x"}), may_create=False)
        found = await other.load("r")
        assert found is not None
        assert (dict(found.records), found.version) == ({b"1": b"new"}, A)


async def test_a_replica_without_a_state_does_not_answer(autojump_clock: MockClock) -> None:
    """While another store is installed under it, each call may be repeated: a registrar must not end by it."""
    async with worlds() as world:
        storage = await world.storage()
        await storage.update("r", b"", RecordChanges(A, {b"1": b"a"}), may_create=True)
        database = world.handles[1].database
        database.variables, database._store = Variables(_Closed()), _Closed()
        with pytest.raises(UnavailableError):
            await storage.load("r")
        with pytest.raises(UnavailableError):
            await storage.get("r")
        with pytest.raises(UnavailableError):
            await storage.update("r", A, RecordChanges(B, {b"1": b"b"}), may_create=False)


class _Closed(MemoryStore):
    """A store that is closed."""

    def __init__(self) -> None:
        super().__init__(MemoryDisk(), None, None)

    def get(self, key: bytes) -> bytes | None:
        raise StorageError("closed")

    def snapshot(self) -> StoreReader:
        raise StorageError("closed")


async def test_a_former_server_refuses_what_it_does_not_know(autojump_clock: MockClock) -> None:
    """Variables are enabled by their first write, and only if all servers know them; until then nothing is written."""
    async with worlds() as world:
        state = State(await world.storage(1))
        rollout = world.running[1].replica.stack.find(RolloutEngine)
        assert rollout is not None
        assert rollout.switches() == {}
        await state.store((await state.fetch("v")).mutate(b"1"))
        assert rollout.switches() == {STATE: True}
        await rollout.disable(STATE)
        world.handles[1].database.rollout = None
        with pytest.raises(UnsupportedError):
            await state.store((await state.fetch("w")).mutate(b"1"))
        assert await state.names() == {"v"}


@attrs.frozen
class Put:
    key: str

    def perform(self, edit: Edit) -> None:
        edit.put(NAMES, self.key, "a name")


async def test_a_standby_takes_over_from_its_copy(autojump_clock: MockClock) -> None:
    """It follows every update without a second load, recovers by one small write, and has all that was acknowledged."""
    async with worlds() as world:
        storage, standby = await world.storage(1), await world.storage(2)
        async with (
            open_registrar(storage, "r", tables=[NAMES], owner="one") as first,
            open_follower(standby, "r", tables=[NAMES]) as follower,
        ):
            await first.recover()
            for number in range(20):
                await first.apply(Put(f"{number}"))
            async with open_registrar(standby, "r", tables=[NAMES], owner="two", follower=follower) as second:
                registry = await second.recover()
                assert [key for key, _ in registry.items(NAMES)] == [f"{number}" for number in range(20)]
                owner = registry.get(OWNERSHIP, KEY)
                assert owner is not None
                assert (owner.owner, owner.epoch) == ("two", 2)
                with pytest.raises(DeposedError):
                    await first.apply(Put("late"))
                await second.apply(Put("20"))
                while follower.version != second.version:
                    await follower.changed()
            assert follower.loads == 1, "it goes on with its copy"


async def test_a_standby_that_may_not_take_over_keeps_its_copy(autojump_clock: MockClock) -> None:
    """The recovery is refused, and the follower follows as before."""
    async with worlds() as world:
        storage, standby = await world.storage(1), await world.storage(2)
        async with (
            open_registrar(
                storage, "r", tables=[NAMES], owner="one", settings=RegistrarSettings(capabilities=["NEW"])
            ) as first,
            open_follower(standby, "r", tables=[NAMES]) as follower,
        ):
            await first.recover()
            await first.apply(Require("NEW"))
            await first.apply(Put("a"))
            async with open_registrar(standby, "r", tables=[NAMES], owner="two", follower=follower) as second:
                with pytest.raises(MissingCapabilitiesError):
                    await second.recover()
            assert follower.registry.get(NAMES, "a") == "a name"
            await first.apply(Put("b"))
            while follower.version != first.version:
                await follower.changed()
            assert follower.loads == 1


@attrs.frozen
class Require:
    capability: str

    def perform(self, edit: Edit) -> None:
        edit.require(self.capability)


@attrs.frozen
class Replace:
    """Deletes a key and adds it again, behind another one."""

    key: str
    other: str

    def perform(self, edit: Edit) -> None:
        edit.put(NAMES, self.key, "first")
        edit.put(NAMES, self.other, "second")
        edit.delete(NAMES, self.key)
        edit.put(NAMES, self.key, "third")


async def test_a_copy_has_the_order_of_the_registry(autojump_clock: MockClock) -> None:
    """A key that is deleted and added again in one batch goes to the end, here and there."""
    async with worlds() as world:
        storage, standby = await world.storage(1), await world.storage(2)
        async with (
            open_registrar(storage, "r", tables=[NAMES], owner="one") as registrar,
            open_follower(standby, "r", tables=[NAMES]) as follower,
        ):
            await registrar.recover()
            await registrar.apply(Replace("a", "b"))
            while follower.version != registrar.version:
                await follower.changed()
            expected = [("b", "second"), ("a", "third")]
            assert [*registrar.registry.items(NAMES)] == [*follower.registry.items(NAMES)] == expected


async def test_a_follower_loads_again_behind_a_hole(autojump_clock: MockClock) -> None:
    """A new incarnation of the replica, or a value in the place of the records, is a hole."""
    async with worlds() as world:
        storage = await world.storage(1)
        async with open_registrar(storage, "r", tables=[NAMES], owner="one") as registrar:
            await registrar.recover()
            async with open_follower(storage, "r", tables=[NAMES]) as follower:
                world.handles[1].begin(world.handles[1].database)
                await registrar.apply(Put("1"))
                while follower.registry.get(NAMES, "1") is None:
                    await follower.changed()
                assert follower.version == registrar.version
                await State(storage).expunge(await State(storage).fetch("r"))
                while follower.version:
                    await follower.changed()
                assert follower.registry.count(NAMES) == 0
                await trio.lowlevel.checkpoint()
