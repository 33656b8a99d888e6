"""State in a ZooKeeper: its znodes, lost connections and late requests; and real servers, Debian's and our own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import attrs
import pytest
import trio

from tests.database.state.clients import ROOT
from tests.database.state.history import History
from tests.interop.cluster import open_cluster
from tests.loglets.zookeeper.world import running_bench
from tests.metastore.world import simulated
from tests.zookeeper_server import open_zookeeper
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, UnavailableError
from virtuallog.contract.znodes import Create, Delete, Operation, RefusedError, Result, Set, Stat, Znode, Znodes
from virtuallog.testing.sim.zookeeper import ZooKeeperFaults
from virtuallog_database.state.errors import StaleVersionError
from virtuallog_database.state.state import State
from virtuallog_database.state.storages.zookeeper import ZooKeeperStorage, open_zookeeper_storage
from virtuallog_database.state.variable import NAME_BYTES_MAX, StateEntry

ONE, TWO, THREE = (StateEntry(digit, digit * 16) for digit in (b"1", b"2", b"3"))
LATE_SECONDS = 10.0


@attrs.define(eq=False)
class Held:
    """A client of which some transactions arrive when the test wants, and are never answered."""

    inner: Znodes
    holds: type[Operation] | None = None
    """Class of the first operation of those: `Set` for a creation, `Delete` for all others. None if all arrive."""
    held: list[Sequence[Operation]] = attrs.field(factory=list)

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self.holds is not None and isinstance(operations[0], self.holds):
            self.held.append(operations)
            raise UnavailableError("the connection is lost")
        return await self.inner.multi(operations)

    async def arrive(self) -> None:
        """What was held arrives; it may be refused."""
        assert self.held
        for operations in self.held:
            with suppress(RefusedError):
                await self.inner.multi(operations)

    async def stats(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Stat | None]:
        return await self.inner.stats(paths, fresh=fresh)

    async def read(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Znode | None]:
        return await self.inner.read(paths, fresh=fresh)

    async def children(self, path: str, *, fresh: bool = False) -> Sequence[str] | None:
        return await self.inner.children(path, fresh=fresh)


# -- the znodes -------------------------------------------------------------------------------------------------------


@simulated
async def test_a_name_is_a_directory_with_its_version() -> None:
    """The layout is for ever: another version of the program finds its values."""
    async with running_bench() as bench:
        storage, znodes = ZooKeeperStorage(bench.znodes(), "/a/b"), bench.znodes()
        assert await storage.set("agents/1.x é", ONE, b"", may_create=True)
        assert await storage.set("two", TWO, b"", may_create=True)

        assert {*(await znodes.children("/a/b", fresh=True) or ())} == {"agents%2F1%2Ex%20%C3%A9", "two"}
        assert await znodes.children("/a/b/two") == [TWO.version.hex()]
        (znode,) = await znodes.read([f"/a/b/two/{TWO.version.hex()}"])
        assert znode is not None
        assert znode.data == TWO.value


@simulated
async def test_what_others_create_is_no_name_and_no_value() -> None:
    """A znode that no name is encoded as is not listed. A directory without one version is corruption."""
    async with running_bench() as bench:
        storage, znodes = ZooKeeperStorage(bench.znodes(), ROOT), bench.znodes()
        assert await storage.set("name", ONE, b"", may_create=True)
        for part in ("a.b", "%zz", "%41", "~"):
            await znodes.multi([Create(f"{ROOT}/{part}")])
        assert await storage.names() == {"name"}

        await znodes.multi([Create(f"{ROOT}/empty"), Create(f"{ROOT}/two"), Create(f"{ROOT}/name/other")])
        await znodes.multi([Create(f"{ROOT}/two/{ONE.version.hex()}"), Create(f"{ROOT}/two/{TWO.version.hex()}")])
        await znodes.multi([Create(f"{ROOT}/short"), Create(f"{ROOT}/short/31")])
        for name in ("empty", "two", "name", "short"):
            with pytest.raises(CorruptionError):
                await storage.get(name)
        with pytest.raises(CorruptionError):
            await storage.expunge("name", ONE.version)


@simulated
async def test_a_wiped_zookeeper_is_an_empty_state() -> None:
    """All znodes are gone, the root among them. It is made again."""
    async with running_bench() as bench:
        storage = ZooKeeperStorage(bench.znodes(), ROOT)
        assert await storage.set("name", ONE, b"", may_create=True)
        bench.zookeeper.wipe()
        fresh = ZooKeeperStorage(bench.znodes(), ROOT)
        assert await fresh.names() == set()
        assert await fresh.get("name") is None
        assert not await fresh.expunge("name", ONE.version)
        assert await fresh.set("name", TWO, b"", may_create=True)
        assert await fresh.get("name") == TWO


async def test_an_impossible_place_is_refused() -> None:
    """Before anything is sent."""
    for hosts, root in (("nowhere", "/state"), ("one:2181", "state"), ("one:2181", "/"), ("one:2181", "/a/../b")):
        with pytest.raises(InvalidSettingError):
            async with open_zookeeper_storage(hosts, root):
                pass


# -- what the network does --------------------------------------------------------------------------------------------


@simulated
async def test_a_late_store_does_not_replace_a_later_one() -> None:
    """Its request arrives long after its repetition was answered. The version that it replaces is gone for good."""
    async with running_bench() as bench:
        held = Held(bench.znodes())
        storage = ZooKeeperStorage(held, ROOT)
        assert await storage.set("name", ONE, b"", may_create=True)
        held.holds = Delete
        with pytest.raises(UnavailableError):
            await storage.set("name", TWO, ONE.version, may_create=False)
        held.holds = None
        assert await storage.set("name", TWO, ONE.version, may_create=False)
        assert await storage.set("name", THREE, TWO.version, may_create=False)

        await held.arrive()

        assert await storage.get("name") == THREE


@simulated
async def test_a_late_creation_does_not_bring_back_what_was_expunged() -> None:
    """Nothing is there to compare with, as before the first attempt. The version of the root tells the two apart."""
    async with running_bench() as bench:
        held, other = Held(bench.znodes()), ZooKeeperStorage(bench.znodes(), ROOT)
        storage = ZooKeeperStorage(held, ROOT)
        assert await other.set("first", THREE, b"", may_create=True)
        held.holds = Set
        with pytest.raises(UnavailableError):
            await storage.set("name", ONE, b"", may_create=True)
        held.holds = None
        assert await storage.set("name", ONE, b"", may_create=True)
        assert await other.expunge("name", ONE.version)

        await held.arrive()

        assert await storage.get("name") is None


@simulated
async def test_a_late_creation_does_not_bring_back_what_was_refused() -> None:
    """The repetition may not create, and finds nothing. It sets the root before it says so."""
    async with running_bench() as bench:
        held = Held(bench.znodes())
        storage = ZooKeeperStorage(held, ROOT)
        held.holds = Set
        with pytest.raises(UnavailableError):
            await storage.set("name", ONE, b"", may_create=True)
        held.holds = None
        assert not await storage.set("name", ONE, b"", may_create=False)

        await held.arrive()

        assert await storage.get("name") is None


@simulated
async def test_a_late_expunge_removes_nothing_else() -> None:
    """Its repetition is answered, and another value stored."""
    async with running_bench() as bench:
        held = Held(bench.znodes())
        storage = ZooKeeperStorage(held, ROOT)
        assert await storage.set("name", ONE, b"", may_create=True)
        held.holds = Delete
        with pytest.raises(UnavailableError):
            await storage.expunge("name", ONE.version)
        held.holds = None
        assert await storage.expunge("name", ONE.version)
        assert await storage.set("name", TWO, b"", may_create=True)

        await held.arrive()

        assert await storage.get("name") == TWO


@simulated
async def test_a_store_while_it_is_read() -> None:
    """The version is replaced between the two looks of a read: the reader looks again, and gets a whole entry."""
    async with running_bench() as bench:
        writer, reader = ZooKeeperStorage(bench.znodes(), ROOT), ZooKeeperStorage(bench.znodes(), ROOT)
        entries = [StateEntry(bytes([number]), bytes([number]) * 16) for number in range(1, 200)]
        assert await writer.set("name", entries[0], b"", may_create=True)
        seen = list[StateEntry]()

        async def read(scope: trio.CancelScope) -> None:
            with scope:
                while True:
                    found = await reader.get("name")
                    assert found is not None
                    seen.append(found)

        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, scope)
            for before, after in pairwise(entries):
                assert await writer.set("name", after, before.version, may_create=False)
            scope.cancel()
        assert seen == sorted(seen, key=lambda entry: entry.value)
        assert len(set(seen)) > 20


@pytest.mark.parametrize("seed", [0, 1, 2, 28, 36])
@simulated
async def test_random_faults(seed: int) -> None:
    """Connections break in the midst of calls, requests arrive seconds later, servers lag. No answer is taken back."""
    faults = ZooKeeperFaults(lag_seconds=0.05, breaks=0.2, late=0.7)
    async with running_bench(faults, seed) as bench:
        storages = [ZooKeeperStorage(bench.znodes(), ROOT) for _ in range(4)]
        history = History(bench.clock, random.Random(seed))
        await history.run(storages, 60)
        faults.breaks = 0.0
        await bench.clock.sleep(LATE_SECONDS)
        await history.check(storages)
        assert bench.zookeeper.counts["zookeeper late request"] > 0
        assert min(history.counts.values()) > 0


# -- real servers -----------------------------------------------------------------------------------------------------


async def exercise(hosts: str, root: str) -> None:
    """The contract in one story, through kazoo."""
    async with open_zookeeper_storage(hosts, root) as storage, open_zookeeper_storage(hosts, root) as second:
        state, other = State(storage), State(second)
        name = "a/ü.\0" + "x" * (NAME_BYTES_MAX - 6)
        fresh = await state.fetch(name)
        assert await state.names() == set()
        largest = bytes(storage.value_bytes_max)
        first = await state.store(fresh.mutate(largest))
        assert await other.fetch(name) == first
        with pytest.raises(StaleVersionError):
            await other.store(fresh.mutate(b"late"))
        last = await other.store(first.mutate(b"\1" * len(largest)))
        assert await state.fetch(name) == last
        assert await state.names() == {name}
        assert not await state.expunge(first)
        assert await state.expunge(last)
        assert not await other.expunge(last)
        assert (await other.store(last.mutate(b"again"))).value == b"again"
        assert await state.names() == await other.names() == {name}


@pytest.mark.processes
async def test_debians_zookeeper(tmp_path: Path) -> None:
    """The largest value fits with the longest name, and all the rest of the contract."""
    async with open_zookeeper(tmp_path) as server:
        await exercise(server.address, "/a/state")


@pytest.mark.processes
@pytest.mark.long
async def test_our_own_zookeeper(tmp_path: Path) -> None:
    """The same against three of our nodes, which speak ZooKeeper's protocol: the state is in the tree of their database."""
    folder = tmp_path / "nodes"
    folder.mkdir()
    with open_cluster(folder) as cluster:
        await exercise(cluster.hosts, "/a/state")
