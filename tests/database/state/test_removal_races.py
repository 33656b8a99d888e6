"""Clients that store, update and expunge one name of the virtual log at the same time, and end halfway; commands are made small.

Each content carries a checksum of all its records. So records that were left under a name, or half of a value, are seen by each reader.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from contextlib import suppress

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.state.replica_world import World, worlds
from virtuallog.contract.errors import UnavailableError
from virtuallog_database.state.core.record_changes import RecordChanges, pack, unpack_untrusted
from virtuallog_database.state.core.variable_commands import Stage, Update
from virtuallog_database.state.core.variables import UpdateResult
from virtuallog_database.state.storages import virtual_log
from virtuallog_database.state.storages.virtual_log import VirtualLogStorage
from virtuallog_database.state.variable import VERSION_BYTES, StateEntry

NAME = "r"
SUM = b"sum"
PAUSE_SECONDS = 0.02
WRITES = 12
"""Writes of each client."""


@attrs.define(eq=False)
class Ending(VirtualLogStorage):
    """The storage of a program that may end before one of its commands."""

    source: random.Random = attrs.field(kw_only=True)
    left: int = attrs.field(kw_only=True)

    async def _change(self, command: Update | Stage) -> UpdateResult:
        if self.left == 0:
            raise UnavailableError("the program has ended")
        self.left -= 1
        await trio.sleep(self.source.random() * PAUSE_SECONDS)
        result = await super()._change(command)
        await trio.sleep(self.source.random() * PAUSE_SECONDS)
        return result


def checksum(records: Mapping[bytes, bytes]) -> bytes:
    rest = sorted((key, value) for key, value in records.items() if key != SUM)
    return hashlib.sha256(repr(rest).encode()).digest()


@attrs.define
class Client:
    world: World
    source: random.Random

    def storage(self, left: int = -1) -> Ending:
        """Storage of a new program, beside one of the replicas."""
        return Ending(self.world.handles[self.source.choice([1, 2])], source=self.source, left=left)

    async def run(self) -> None:
        for _ in range(WRITES):
            storage = self.storage(self.source.choice([-1, -1, 0, 1, 2, 3, 5, 8]))
            found, entry = await storage.load(NAME), await storage.get(NAME)
            for records in (found and found.records, entry and unpack_untrusted(NAME, entry.value)):
                assert not records or records[SUM] == checksum(records)
            write = self.source.choice([self.set, self.update, self.update, self.expunge])
            with suppress(UnavailableError):  # it has ended, or met too many others
                await write(storage, found.version if found else b"", {**found.records} if found else {})

    async def set(self, storage: VirtualLogStorage, expected: bytes, records: Mapping[bytes, bytes]) -> None:
        count = self.source.choice([0, 3, 40])
        made = {b"k%d" % number + bytes(30): b"v" for number in range(count)}
        made[SUM] = checksum(made)
        entry = StateEntry(pack(made.items()), self.source.randbytes(VERSION_BYTES))
        await storage.set(NAME, entry, expected, may_create=not records)

    async def update(self, storage: VirtualLogStorage, expected: bytes, records: dict[bytes, bytes]) -> None:
        for _ in range(self.source.choice([1, 4])):
            puts = {b"z%d" % self.source.randrange(30) + bytes(30): b"q" for _ in range(3)}
            deletes = frozenset(self.source.sample(sorted(records), min(2, len(records)))) - {SUM, *puts}
            after = {key: value for key, value in {**records, **puts}.items() if key not in deletes}
            puts[SUM] = after[SUM] = checksum(after)
            changes = RecordChanges(self.source.randbytes(VERSION_BYTES), puts, deletes)
            if not await storage.update(NAME, expected, changes, may_create=not records):
                return
            records, expected = after, changes.version

    async def expunge(self, storage: VirtualLogStorage, expected: bytes, _: Mapping[bytes, bytes]) -> None:
        await storage.expunge(NAME, expected)


@pytest.mark.parametrize("seed", range(20))
async def test_readers_see_whole_contents(
    seed: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each version, and of records and values alike. At the end an expunge leaves nothing."""
    monkeypatch.setattr(virtual_log, "CHUNK_BYTES", 300)
    monkeypatch.setattr(virtual_log, "CHANGES_BYTES_MAX", 600)
    async with worlds() as world:
        await world.storage(1)
        await world.storage(2)
        client = Client(world, random.Random(seed))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(client.run)
        storage = client.storage()
        await storage.expunge(NAME, await storage.version(NAME) or b"")
        assert await storage.names() == frozenset()
        assert [] in (world.records(1, b"r"), world.records(2, b"r"))
