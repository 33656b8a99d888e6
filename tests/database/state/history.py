"""Random writes and reads of several clients, and the rules that every storage keeps, also when the network or a server fails:

* A version that an answer has replaced, removed or refused is not seen by any read that begins behind this answer.
* A version is replaced or removed once.
* The last value of each name is one that was written, and the same for all clients.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog_database.state.storage import StateStorage
from virtuallog_database.state.variable import VERSION_BYTES, StateEntry

RETRY_SECONDS = 0.1
CALL_SECONDS = 30.0
"""Longest time until a call is answered, in all."""


@attrs.define(eq=False)
class History:
    """All that clients were told."""

    clock: Clock
    random: random.Random
    names: Sequence[str] = ("a", "b/c")
    gone: set[bytes] = attrs.field(factory=set)
    """Versions that no later read may see."""
    ended: set[bytes] = attrs.field(factory=set)
    """Versions that an answer says were replaced or removed."""
    written: set[bytes] = attrs.field(factory=set)
    counts: dict[str, int] = attrs.field(factory=dict)

    async def run(self, storages: Sequence[StateStorage], calls: int) -> None:
        """Each client makes so many calls, one after the other."""
        async with trio.open_nursery() as nursery:
            for storage in storages:
                nursery.start_soon(self._client, storage, calls)

    async def check(self, storages: Sequence[StateStorage]) -> None:
        """To be called once nothing fails any more, and nothing is on its way."""
        found = [[await self.get(storage, name) for name in self.names] for storage in storages]
        assert all(each == found[0] for each in found)
        for entry in found[0]:
            assert entry is None or (entry.version in self.written and entry.version not in self.ended)
        for storage in storages:
            assert await storage.names() == {name for name, entry in zip(self.names, found[0], strict=True) if entry}

    async def get(self, storage: StateStorage, name: str) -> StateEntry | None:
        gone = set(self.gone)
        deadline = self.clock.monotonic() + CALL_SECONDS
        while True:
            try:
                entry = await storage.get(name)
            except UnavailableError:
                assert self.clock.monotonic() < deadline
                await self.clock.sleep(RETRY_SECONDS)
            else:
                assert entry is None or entry.version not in gone, "a read sees what was gone"
                return entry

    async def _client(self, storage: StateStorage, calls: int) -> None:
        for _ in range(calls):
            name = self.random.choice(self.names)
            entry = await self.get(storage, name)
            if entry is not None and self.random.random() < 0.5:
                await self._expunge(storage, name, entry.version)
            else:
                await self._set(storage, name, b"" if entry is None else entry.version)
            await self.clock.sleep(self.random.random() * RETRY_SECONDS)

    async def _set(self, storage: StateStorage, name: str, expected: bytes) -> None:
        entry = StateEntry(self.random.randbytes(self.random.randrange(100)), self.random.randbytes(VERSION_BYTES))
        self.written.add(entry.version)
        deadline, may_create, is_sure = self.clock.monotonic() + CALL_SECONDS, not expected, True
        while True:
            try:
                done = await storage.set(name, entry, expected, may_create=may_create)
            except UnavailableError:
                # The name may have had this version meanwhile, and another client have removed it.
                may_create = is_sure = False
                assert self.clock.monotonic() < deadline
                await self.clock.sleep(RETRY_SECONDS)
            else:
                break
        self._count("stored" if done else "refused")
        if done and expected:
            self._end(expected)
        elif not done:
            self.gone.add(entry.version)
            assert not (is_sure and entry.version in self.ended), "a refused version was stored"

    async def _expunge(self, storage: StateStorage, name: str, expected: bytes) -> None:
        deadline, is_sure = self.clock.monotonic() + CALL_SECONDS, True
        while True:
            try:
                done = await storage.expunge(name, expected)
            except UnavailableError:
                is_sure = False
                assert self.clock.monotonic() < deadline
                await self.clock.sleep(RETRY_SECONDS)
            else:
                break
        self._count("expunged" if done else "not expunged")
        if done:
            self._end(expected)
        elif not is_sure:
            self.gone.add(expected)  # by itself, or by another client: it has another version now, or none

    def _end(self, version: bytes) -> None:
        assert version not in self.ended, "a version is replaced twice"
        self.ended.add(version)
        self.gone.add(version)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
