"""Removal of more records than one command names, and of what writers that ended halfway have left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
from trio.testing import MockClock

from tests.database.state.replica_world import World, worlds
from virtuallog.contract.errors import UnavailableError
from virtuallog_database.state.core.record_changes import RecordChanges, pack
from virtuallog_database.state.core.variable_commands import Stage, Update
from virtuallog_database.state.core.variables import UpdateResult
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.virtual_log import CHANGES_BYTES_MAX, CHUNK_BYTES, VirtualLogStorage
from virtuallog_database.state.variable import StateEntry

A, B, C, D = (bytes([number]) * 16 for number in (1, 2, 3, 4))
MANY = 5000
KEY_BYTES = 1000
"""The keys of MANY records are more than two commands take."""
VALUES = {"small": b"a value", "large": bytes(CHUNK_BYTES + 1), "records": pack([(b"1", b"a"), (b"2", b"b")])}


@attrs.define(eq=False)
class Interrupted(VirtualLogStorage):
    """The storage of a program that ends before one of its commands."""

    left: int = -1
    """Commands before the end; negative: it does not end."""
    behind: Callable[[], Awaitable[object]] | None = None
    """Other clients act so before its next update, behind what it has staged."""

    async def _change(self, command: Update | Stage) -> UpdateResult:
        if self.left == 0:
            raise UnavailableError("the program has ended")
        self.left -= 1
        behind = self.behind
        if behind is not None and isinstance(command, Update):
            self.behind = None
            await behind()
        return await super()._change(command)


def key_of(number: int) -> bytes:
    return b"%d" % number + bytes(KEY_BYTES)


async def fill(storage: VirtualLogStorage, name: str, version: bytes) -> dict[bytes, bytes]:
    """Store MANY records, the last of them with this version; returns all of them."""
    present, step = b"", CHANGES_BYTES_MAX // (2 * KEY_BYTES)
    for start in range(0, MANY, step):
        stop = min(MANY, start + step)
        after = version if stop == MANY else b"f" * 12 + start.to_bytes(4, "big")
        puts = {key_of(number): b"old" for number in range(start, stop)}
        assert await storage.update(name, present, RecordChanges(after, puts), may_create=True)
        present = after
    return {key_of(number): b"old" for number in range(MANY)}


async def interrupted(world: World, left: int) -> Interrupted:
    """A program beside replica 1, which ends after so many commands."""
    return Interrupted(world.handles[1], left=left)


async def test_a_name_of_any_size_is_expunged(autojump_clock: MockClock) -> None:
    """Nothing is left of it, and it can be made again."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)
        await fill(storage, "r", A)
        assert not await storage.expunge("r", B)
        assert await storage.expunge("r", A)
        assert await other.names() == frozenset()
        assert world.records(1, b"r") == []
        assert await other.update("r", A, RecordChanges(B, {b"1": b"new"}), may_create=True)
        assert world.records(2, b"r") == [b"r1"]


@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
async def test_a_value_replaces_records_of_any_size(value: bytes, autojump_clock: MockClock) -> None:
    """`state restore --replace` does so. The version is the one that was asked for, and the records are gone."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)
        await fill(storage, "r", A)
        assert await storage.set("r", StateEntry(value, B), A, may_create=False)
        assert await other.get("r") == StateEntry(value, B)
        assert not [key for key in world.records(1, b"r") if key[:1] == b"r"]


@pytest.mark.parametrize("left", range(8))
async def test_an_expunge_that_ends_halfway_shows_all_or_nothing(left: int, autojump_clock: MockClock) -> None:
    """Readers see all records or no name. A client that makes the name again has its own records only."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)
        records = await fill(storage, "r", A)
        ending = await interrupted(world, left)
        has_ended = False
        try:
            await ending.expunge("r", A)
        except UnavailableError:
            has_ended = True
        found = await other.load("r")
        assert found is None or (has_ended and (found.records, found.version) == (records, A))
        if found is None:
            assert await other.get("r") is None
            assert await other.update("r", B, RecordChanges(C, {b"1": b"new"}), may_create=True)
            assert world.records(2, b"r") == [b"r1"]


@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
@pytest.mark.parametrize("left", range(8))
async def test_a_value_that_ends_halfway_shows_old_or_new(left: int, value: bytes, autojump_clock: MockClock) -> None:
    """Under any version there is a whole value. The repeated call ends as the first one would have."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)
        records = await fill(storage, "r", A)
        ending = await interrupted(world, left)
        try:
            await ending.set("r", StateEntry(value, B), A, may_create=False)
        except UnavailableError:
            found = await other.get("r")
            assert found is not None
            assert found.value in (value, pack(sorted(records.items())))
            assert await storage.set("r", StateEntry(value, B), A, may_create=False)
        assert await other.get("r") == StateEntry(value, B)
        assert not [key for key in world.records(1, b"r") if key[:1] == b"r"]


@pytest.mark.parametrize("left", [1, 2, 3, 5])
async def test_records_behind_a_replacement_that_ended_halfway(left: int, autojump_clock: MockClock) -> None:
    """The value holds records; the next update turns it into records, without those that it replaced. That update may end halfway, too."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)
        await fill(storage, "r", A)
        with pytest.raises(UnavailableError):
            await (await interrupted(world, 1)).set("r", StateEntry(VALUES["records"], B), A, may_create=False)
        found = await other.load("r")
        assert found is not None
        assert dict(found.records) == {b"1": b"a", b"2": b"b"}
        changes = RecordChanges(C, {b"3": b"c"})
        try:
            await (await interrupted(world, left)).update("r", found.version, changes, may_create=False)
        except UnavailableError:
            assert await storage.update("r", found.version, changes, may_create=False)
        after = await other.load("r")
        assert after is not None
        assert (dict(after.records), after.version) == ({b"1": b"a", b"2": b"b", b"3": b"c"}, C)
        assert world.records(1, b"r") == [b"r1", b"r2", b"r3"]


async def test_a_name_that_comes_and_goes_before_its_creation_leaves_nothing(autojump_clock: MockClock) -> None:
    """Another client makes and expunges it between the look at what was left and the creation, and ends halfway."""
    async with worlds() as world:
        storage, other = await world.storage(1), await world.storage(2)

        async def come_and_go() -> None:
            await fill(other, "r", A)
            with pytest.raises(UnavailableError):
                await (await interrupted(world, 1)).expunge("r", A)

        late = await interrupted(world, -1)
        late.behind = come_and_go
        assert await late.update("r", B, RecordChanges(C, {b"1": b"new"}), may_create=True)
        assert world.records(1, b"r") == [b"r1"]
        found = await storage.load("r")
        assert found is not None
        assert (dict(found.records), found.version) == ({b"1": b"new"}, C)


async def test_a_creation_whose_pieces_are_swept_stages_them_again(autojump_clock: MockClock) -> None:
    """A client that expunges a name without a value deletes what is staged for it; nothing has another version then."""
    async with worlds() as world:
        storage = await world.storage(1)
        late = await interrupted(world, -1)
        late.behind = lambda: storage.expunge("v", A)
        assert await late.set("v", StateEntry(VALUES["large"], B), A, may_create=True)
        assert await storage.get("v") == StateEntry(VALUES["large"], B)


async def test_pieces_of_a_value_that_was_never_stored_go_with_the_next_write(autojump_clock: MockClock) -> None:
    """A cancelled store leaves them, under a name without a version, or beside records. An expunge that finds nothing deletes them too."""
    piece = Stage(name=b"v", puts=[(b"p" + D + bytes(4), b"a piece")])
    async with worlds() as world:
        storage = await world.storage()
        state = State(storage)
        await storage._change(piece)
        assert not await state.expunge(await state.fetch("v"))
        assert world.records(1, b"v") == []
        await storage._change(piece)
        await storage.update("v", B, RecordChanges(A, {b"1": b"a"}), may_create=True)
        assert world.records(1, b"v") == [b"r1"]
        await storage._change(piece)
        await storage.update("v", A, RecordChanges(B, {b"1": b"b"}), may_create=False)
        assert world.records(1, b"v") == [b"r1"]
