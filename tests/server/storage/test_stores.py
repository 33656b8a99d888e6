"""Stores of a data directory: founded once, and lost for good when they are gone."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path

import attrs
import pytest

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import DurableMap, Storage
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.disk import Disk
from virtuallog.testing.sim.key_values import SimulatedKeyValuesDisk
from virtuallog.testing.sim.process import Process
from virtuallog_server.storage.data_directory import open_data_directory
from virtuallog_server.storage.identity import Identity
from virtuallog_server.storage.stores import FILES, VALUES, Opening, Stores

NODE = NodeId(3)
NATIVE, METASTORE, PAXOS = (FILES, "native"), (VALUES, "metastore"), (VALUES, "paxos")


@attrs.define
class Machine:
    """Disks that outlive processes."""

    root: Disk = attrs.field(factory=lambda: Disk(random.Random(1)))
    files: dict[str, Disk] = attrs.field(factory=dict)
    values: dict[str, SimulatedKeyValuesDisk] = attrs.field(factory=dict)

    @property
    def present(self) -> Collection[tuple[str, str]]:
        files = {(FILES, name) for name, disk in self.files.items() if disk.files}
        return files | {(VALUES, name) for name, disk in self.values.items() if disk.is_made}

    async def start(self, *, is_new: bool = False) -> Stores:
        """Begin another process."""
        self.root.crash()
        return await Stores.open(NODE, self.root.mount(), Path("/data"), self.present, is_new=is_new)

    def opening(self, stores: Stores) -> Opening:
        process = Process(NODE)

        async def storage(role: str) -> Storage:
            return self.files.setdefault(role, Disk(random.Random(2))).mount()

        async def key_values(role: str) -> DurableMap:
            disk = self.values.setdefault(role, SimulatedKeyValuesDisk(random.Random(3)))
            return disk.open(process, SimulatedClock(process))

        return stores.opening(storage, key_values)

    async def founded(self) -> None:
        """A first process founds all of its stores."""
        opening = self.opening(await self.start(is_new=True))
        await opening.storage("native")
        await opening.key_values("metastore")
        await opening.key_values("paxos")
        await opening.founded()
        for disk in self.files.values():
            disk.kill()


async def test_a_store_that_is_gone_is_refused_with_its_path_and_the_remedy() -> None:
    """Whichever role's it is, and at each start again: opening it would have made an empty one."""
    machine = Machine()
    await machine.founded()
    machine.files["native"].clear()
    machine.values["metastore"].wipe()
    for _ in range(2):
        opening = machine.opening(await machine.start())
        with pytest.raises(CorruptionError, match=r"/data/storage/native is lost: .*virtuallog node replace 3"):
            await opening.storage("native")
        with pytest.raises(CorruptionError, match="/data/values/metastore is lost"):
            await opening.key_values("metastore")
        assert machine.present == {PAXOS}


async def test_a_role_that_recovers_is_told_that_its_store_is_lost() -> None:
    """It is so for one process only: then it has another one."""
    machine = Machine()
    await machine.founded()
    machine.values["paxos"].wipe()
    opening = machine.opening(await machine.start())
    await opening.key_values("paxos")
    assert opening.is_lost("paxos")
    await opening.founded()
    assert not machine.opening(await machine.start()).is_lost("paxos")


async def test_a_lost_store_stays_lost_until_its_role_has_founded_it() -> None:
    """A process made it anew, and died before its role could write down that it has forgotten what it said."""
    machine = Machine()
    await machine.founded()
    machine.values["paxos"].wipe()
    await machine.opening(await machine.start()).key_values("paxos")
    for _ in range(2):
        assert PAXOS in machine.present
        opening = machine.opening(await machine.start())
        await opening.key_values("paxos")
        assert opening.is_lost("paxos")
    await opening.founded()
    assert not opening.is_lost("paxos")
    assert not machine.opening(await machine.start()).is_lost("paxos")


async def test_a_store_that_was_not_founded_to_its_end_is_founded_again() -> None:
    """The process died after it was made, or before: no request was answered from it, so nothing is lost."""
    machine = Machine()
    opening = machine.opening(await machine.start(is_new=True))
    await opening.key_values("metastore")
    stores = await machine.start()
    assert not stores.is_lost(*METASTORE)
    assert not stores.is_lost(*NATIVE)
    machine.values["metastore"].wipe()
    await machine.opening(await machine.start()).key_values("metastore")


async def test_a_role_that_is_new_to_an_old_directory_founds_its_store() -> None:
    """A config gained a section, or a program a kind of loglets."""
    machine = Machine()
    await machine.founded()
    opening = machine.opening(await machine.start())
    await opening.key_values("state")
    assert not opening.is_lost("state")
    await opening.founded()
    machine.values["state"].wipe()
    assert (await machine.start()).is_lost(VALUES, "state")


async def test_a_directory_of_a_former_version_has_what_is_there_and_has_lost_the_rest() -> None:
    """It has no marks. Its first start makes them, also for what is gone; what is new to it later was never there."""
    machine = Machine()
    await machine.founded()
    for name in list(machine.root.files):
        del machine.root.files[name]
    machine.files["native"].clear()
    stores = await machine.start()
    opening = machine.opening(stores)
    await opening.key_values("metastore")
    await opening.founded()
    with pytest.raises(CorruptionError, match="native is lost"):
        await opening.storage("native")
    await stores.complete()

    again = await machine.start()
    assert [again.is_lost(*store) for store in (METASTORE, NATIVE, (VALUES, "state"))] == [False, True, False]


async def test_a_store_of_a_former_version_that_cannot_be_opened_is_had_all_the_same() -> None:
    """Its role is refused before it has founded anything. An operator who moves the damaged files away makes no empty store of it."""
    machine = Machine()
    await machine.founded()
    for name in list(machine.root.files):
        del machine.root.files[name]
    stores = await machine.start()
    await machine.opening(stores).storage("native")  # and what reads it raises CorruptionError
    await stores.complete()

    machine.files["native"].kill()
    machine.files["native"].clear()
    assert (await machine.start()).is_lost(*NATIVE)


async def test_an_empty_folder_is_no_store(tmp_path: Path) -> None:
    """The place of a mount that did not come up, say. What looks at the directory makes none."""
    async with open_data_directory(tmp_path) as data:
        identity = await Identity.open(data.root, NODE)
        await identity.start_formatting(random.Random(1))
        assert data.present == set()
        await data.storage("native")
        await (await data.key_values("metastore")).write({b"a": b"b"})
    async with open_data_directory(tmp_path) as data:
        assert data.present == {METASTORE}


async def test_a_new_file_system_in_the_place_of_a_store_is_no_store(tmp_path: Path) -> None:
    """It has a folder of its own."""
    for kind, role in (NATIVE, METASTORE):
        (tmp_path / kind / role / "lost+found").mkdir(parents=True)
    (tmp_path / "identity").touch()
    async with open_data_directory(tmp_path) as data:
        assert data.present == set()
