"""The database role of a node: it opens, serves, restores, fails, and what operators and nodes may ask of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from tests.server.node.world import World, make_world, until
from tests.virtuallog.client.world import world as log_world
from virtuallog.admin.control import PrefixTrim
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    StorageError,
    TrimmedError,
    UnavailableError,
    UnsupportedError,
)
from virtuallog.contract.metrics import Distribution
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog_database.client import DatabaseClient, DatabaseHandle, NoNodeError
from virtuallog_database.control.messages import (
    CompareChecksums,
    DatabaseStatus,
    FindAllowedTrim,
    GetDatabaseStatus,
    PlaceHold,
    RawWrite,
    ReleaseHold,
    SetEngine,
    WriteRaw,
)
from virtuallog_database.engines.core.backup_state import Begin
from virtuallog_database.engines.log_backup import LogBackupEngine
from virtuallog_database.replica.host import ReplicaIncarnation
from virtuallog_database.snapshots.messages import GetSnapshot, SnapshotOffer
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.database.role import cluster_of
from virtuallog_server.node.node import Node

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
SETTINGS = {"zookeeper": ZooKeeperSettings(snapshot_seconds=5)}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


def life_of(node: Node) -> ReplicaIncarnation:
    assert node.database is not None
    assert node.database.life is not None
    return node.database.life


def client_of(node: Node) -> DatabaseClient:
    """The client service of its present life."""
    life = life_of(node)
    access = DatabaseHandle(clock=life.environment.clock, random=life.environment.random, node=node.config.id)
    access.begin(life.database)
    return DatabaseClient(access)


async def start(world: World, *numbers: int) -> list[Node]:
    """Servers of a database, once they serve."""
    nodes = [await world.start(number, config=SETTINGS) for number in numbers]
    await until(lambda: all(not node.not_ready() for node in nodes))
    return nodes


async def test_servers_share_one_tree(world: World, autojump_clock: MockClock) -> None:
    """A write at one replica is visible at another one after a sync. Each is in the view."""
    one, two, _ = await start(world, 1, 2, 3)
    await client_of(one).create("/a", b"1")
    assert (await client_of(two).get("/a", linearizable=True)).data == b"1"
    await until(lambda: len(one.database.status().members) == 3 if one.database else False)


async def test_a_node_without_the_section_has_no_part_in_it(world: World, autojump_clock: MockClock) -> None:
    """It is ready without, and says to others that it does not know what they want."""
    nodes = [await world.start(number) for number in (1, 2, 3)]
    await until(lambda: all(not node.not_ready() for node in nodes))
    assert nodes[0].database is None
    assert nodes[0].plain_status()["database"] is None
    with pytest.raises(UnsupportedError):
        await world.client().call(ONE, GetDatabaseStatus(), 5)


async def test_status_and_metrics_say_how_far_a_replica_is(world: World, autojump_clock: MockClock) -> None:
    """Also what has no answer yet: an unready node says what it waits for."""
    first = await world.start(1, config=SETTINGS)
    assert "database is not open" in first.not_ready()
    with pytest.raises(UnavailableError):
        await world.client().call(ONE, GetDatabaseStatus(), 5)
    node, _, _ = first, await world.start(2, config=SETTINGS), await world.start(3, config=SETTINGS)
    await until(lambda: not node.not_ready())
    await client_of(node).create("/a")
    status: DatabaseStatus = await world.client().call(ONE, GetDatabaseStatus(), 5)
    assert (status.state, status.cursor) == ("serving", life_of(node).replica.cursor)
    assert status.zxid == life_of(node).database.tree.last_zxid
    assert node.plain_status()["database"]["state"] == "serving"
    names = {family.name for family in node.metrics()}
    assert {"virtuallog_database_state", "virtuallog_database_znodes", "virtuallog_database_cursor"} <= names


async def test_a_server_comes_back_with_its_state(world: World, autojump_clock: MockClock) -> None:
    """Writes that a crash took from its store, which has no log of its own, are played again."""
    one, _, _ = await start(world, 1, 2, 3)
    await client_of(one).create("/a", b"1")
    world.stop(1)
    (again,) = await start(world, 1)
    assert (await client_of(again).get("/a")).data == b"1"


async def test_a_node_that_has_lost_the_section_says_so(world: World, autojump_clock: MockClock) -> None:
    """`node.toml` of an earlier `up` had none. To be no server any more takes a deleted store, so that no role is lost silently."""
    one, _, _ = await start(world, 1, 2, 3)
    await client_of(one).create("/a")
    await trio.sleep(20)  # noqa: TID251 -- simulated time: until a snapshot is durable
    world.stop(3)
    again = await world.start(3)
    await until(lambda: bool(again.refusals))
    (failure,) = again.status().failures
    assert failure.startswith(
        "database: this node was a server of the database, and its config has no [zookeeper] any more"
    )
    assert "replica" in again.status().roles  # its part in the log goes on
    with pytest.raises(StorageError, match="put that section back"):
        await world.client().call(THREE, GetDatabaseStatus(), 5)
    world.stop(3)
    world.replicas[3].wipe()
    fresh = await world.start(3)
    await until(lambda: not fresh.not_ready())
    assert fresh.status().failures == ()


async def test_a_role_that_the_config_has_no_more_is_said(world: World, autojump_clock: MockClock) -> None:
    """Loglets count on the roles of the register. A node that is drained has none there, and nothing to say."""
    nodes = [await world.start(number) for number in (1, 2, 3)]
    await until(lambda: all(not node.not_ready() for node in nodes))
    world.stop(3)
    again = await world.start(3, config={"roles": ("log-server",)})
    await until(lambda: bool(again.status().failures))
    assert again.status().failures == (
        "roles: the register lists this node as replica, sequencer, and its config has that no more",
    )


async def test_a_replica_that_waits_for_a_snapshot_says_for_what(world: World, autojump_clock: MockClock) -> None:
    """It has no life yet, and is asked how it is all the same."""
    one, two, _ = await start(world, 1, 2, 3)
    for number in range(20):
        await client_of(one).create(f"/{number}")
    log = one.virtual_log
    assert log is not None
    await trio.sleep(20)  # noqa: TID251 -- simulated time
    await log.prefix_trim(LogPosition(life_of(two).snapshots.newest))
    for number in (1, 2, 3):
        world.stop(number)
    world.replicas[3].wipe()
    alone = await world.start(3, config=SETTINGS)
    await world.start(2)
    await until(lambda: alone.database is not None and bool(alone.database.status().waiting_for))
    status = await world.client().call(THREE, GetDatabaseStatus(), 5)
    assert (status.state, bool(status.waiting_for)) == ("restoring", True)


async def test_a_database_waits_for_a_register_that_nobody_can_read(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Seed 833 of `zelos`, at 12b3b5d: a server that started while no majority of the MetaStore answered had no database for good."""
    async with log_world() as w:
        log, get, attempts = w.client(), w.metastore.get, 0

        async def silent(*_: object) -> tuple[int, bytes]:
            nonlocal attempts
            attempts += 1
            if attempts <= 20:
                raise UnavailableError("MetaStore: no majority answered")
            return await get()

        monkeypatch.setattr(MemoryMetaStore, "get", silent)
        assert await cluster_of(log) == w.register.cluster
        assert attempts == 21


async def test_a_node_that_is_told_to_end_flushes_its_store(world: World, autojump_clock: MockClock) -> None:
    """So the next start has nothing to play again."""
    one, _, _ = await start(world, 1, 2, 3)
    await client_of(one).create("/a", b"1")
    assert world.replicas[1].unflushed
    _, scope = world.processes.pop(1)
    scope.cancel()
    await until(lambda: not world.replicas[1].unflushed)


async def test_a_wiped_server_restores_a_snapshot_once_the_log_is_trimmed(
    world: World, autojump_clock: MockClock
) -> None:
    """The view takes the new store for the old one, the log goes on being trimmed, and the others have served all the time. What was
    fetched is among its figures."""
    one, two, three = await start(world, 1, 2, 3)
    for number in range(20):
        await client_of(one).create(f"/{number}")
    log = one.virtual_log
    assert log is not None

    async def trimmed() -> bool:
        return await log.find_trim_point() > 5

    with trio.fail_after(120):  # noqa: TID251 -- simulated time
        while not await trimmed():
            await trio.sleep(1)  # noqa: TID251 -- simulated time
    del two, three
    world.stop(3)
    world.replicas[3].wipe()
    (again,) = await start(world, 3)
    assert len(await client_of(again).children("/")) == 21
    await client_of(again).create("/after")
    figures = {family.name: family.samples[0].value for family in again.metrics() if family.samples}
    restored = figures["virtuallog_database_restore_seconds"]
    assert isinstance(restored, Distribution) and restored.count == 1
    assert figures["virtuallog_database_restore_bytes_total"]


async def test_a_hold_that_is_refused_leaves_the_one_that_is_there(world: World, autojump_clock: MockClock) -> None:
    """A wrong position must not trim entries that were promised before under this name."""
    one, _, _ = await start(world, 1, 2, 3)
    services = world.client()
    for number in range(20):
        await client_of(one).create(f"/{number}")
        await trio.sleep(2)  # noqa: TID251 -- simulated time
    held = life_of(one).replica.cursor
    await services.call(TWO, PlaceHold(name="backup", position=held, milliseconds=0), 5)
    with pytest.raises(TrimmedError):
        await services.call(TWO, PlaceHold(name="backup", position=0, milliseconds=0), 5)
    (hold,) = (await services.call(TWO, GetDatabaseStatus(), 5)).holds
    assert (hold.name, hold.position) == ("backup", held)


async def test_a_trim_by_hand_leaves_what_the_database_needs(world: World, autojump_clock: MockClock) -> None:
    """Unless it is forced. The register says that there is a database, so a node that serves none knows it as well."""
    one, _, _ = await world.start(1, config=SETTINGS), await world.start(2), await world.start(3)
    await until(lambda: not one.not_ready())
    await client_of(one).create("/a")
    await until(lambda: bool(one.virtual_log and one.virtual_log.view.cached and one.virtual_log.view.cached.database))
    services = world.client()
    allowed = await services.call(ONE, FindAllowedTrim(), 5)
    tail = life_of(one).replica.cursor
    assert allowed.position < tail
    with pytest.raises(InvalidSettingError, match="the database needs the log from"):
        await services.call(TWO, PrefixTrim(position=tail), 30)
    assert (await services.call(TWO, PrefixTrim(position=1, force=True), 30)).position == 1
    world.stop(1)
    with pytest.raises(UnavailableError, match="none of its servers answers"):
        await services.call(TWO, PrefixTrim(position=2), 30)


async def test_a_hold_keeps_the_log_until_it_is_released(world: World, autojump_clock: MockClock) -> None:
    """Flushes and snapshots meanwhile do not matter. Trimmed entries cannot be held any more."""
    one, _, _ = await start(world, 1, 2, 3)
    services = world.client()
    held = life_of(one).replica.cursor
    await services.call(TWO, PlaceHold(name="backup", position=held, milliseconds=0), 5)
    for number in range(20):
        await client_of(one).create(f"/{number}")
        await trio.sleep(2)  # noqa: TID251 -- simulated time
    allowed = await services.call(ONE, FindAllowedTrim(), 5)
    assert (allowed.position, allowed.reasons) == (held, ("hold backup",))
    await services.call(TWO, ReleaseHold("backup"), 5)
    await trio.sleep(10)  # noqa: TID251 -- simulated time
    assert (await services.call(ONE, FindAllowedTrim(), 5)).position > held
    with pytest.raises(TrimmedError):
        await services.call(TWO, PlaceHold(name="late", position=held, milliseconds=0), 5)
    assert not (await services.call(TWO, GetDatabaseStatus(), 5)).holds


async def test_a_trim_by_hand_leaves_what_is_not_backed_up(world: World, autojump_clock: MockClock) -> None:
    """The replicas' own needs do not matter. Nor does the lack of a destination: entries must not be lost for that."""
    one, _, _ = await start(world, 1, 2, 3)
    services = world.client()
    await services.call(ONE, SetEngine(name="log_backup", enabled=True), 10)
    found = life_of(one).replica.stack.find(LogBackupEngine)
    assert found is not None
    await found.command(Begin(LogPosition(0)))
    begin = life_of(one).replica.cursor
    for number in range(20):
        await client_of(one).create(f"/{number}")
        await trio.sleep(2)  # noqa: TID251 -- simulated time
    allowed = await services.call(ONE, FindAllowedTrim(), 5)
    assert allowed.position <= begin and allowed.reasons == ("log_backup",)
    assert (await services.call(ONE, GetDatabaseStatus(), 5)).allowed == allowed.position


async def test_a_replica_that_fails_closes_its_role_and_nothing_else(world: World, autojump_clock: MockClock) -> None:
    """The node goes on as a part of the log, and says why; the other servers serve."""
    one, two, _ = await start(world, 1, 2, 3)
    world.replicas[1].failure = lambda: CorruptionError("a bad block")
    with pytest.raises(UnavailableError):
        await client_of(one).create("/a")
    assert isinstance(await one.wait_refused("database"), CorruptionError)
    assert "database: a bad block" in (await world.status(1)).failures
    assert one.refusals.keys() == {"database"}
    assert set((await world.status(1)).roles) == {"sequencer", "log-server", "replica", "metastore"}
    assert one.database is not None
    assert (one.database.service, one.database.life) == (None, None)
    await client_of(two).create("/b")


async def test_who_asks_a_replica_that_ends_is_answered(world: World, autojump_clock: MockClock) -> None:
    """An operator hears at once that no server of a database answers here."""
    one, _, _ = await start(world, 1, 2, 3)
    life, answers = life_of(one), list[object]()
    assert one.database is not None
    one.database._in_life(CompareChecksums(), answers.append)
    life.environment.nursery.cancel_scope.cancel()
    await until(lambda: one.database is not None and one.database.life not in {None, life})
    assert [type(answer) for answer in answers] == [UnavailableError]


async def test_a_snapshot_is_given_to_who_belongs_to_the_cluster(world: World, autojump_clock: MockClock) -> None:
    """Then the log is held for it."""
    one, _, _ = await start(world, 1, 2, 3)
    await client_of(one).create("/a")
    await trio.sleep(20)  # noqa: TID251 -- simulated time
    cluster = one.identity.cluster
    assert cluster is not None
    offer: SnapshotOffer = await world.client().call(ONE, GetSnapshot(cluster=cluster, replica="4-new"), 10)
    assert offer.position > 0
    assert [hold.name for hold in one.database.status().holds] == ["restore 4-new"] if one.database else False


async def test_operators_may_compare_repair_and_switch(world: World, autojump_clock: MockClock) -> None:
    """Checksums are compared at one position; raw writes reach all replicas; an unknown engine is not enabled."""
    one, two, _ = await start(world, 1, 2, 3)
    services = world.client()
    compared = await services.call(ONE, CompareChecksums(), 10)
    await services.call(TWO, WriteRaw(writes=(RawWrite(key=b"zz", value=b"1"),)), 10)
    await life_of(one).replica.sync()
    assert life_of(one).store.get(b"zz") == life_of(two).store.get(b"zz") == b"1"
    assert life_of(one).replica.cursor > compared.position
    await services.call(ONE, SetEngine(name="lease", enabled=True), 10)
    assert (await services.call(ONE, GetDatabaseStatus(), 5)).enabled == ("lease",)
    await services.call(ONE, SetEngine(name="lease", enabled=False), 10)
    assert (await services.call(ONE, GetDatabaseStatus(), 5)).disabled == ("lease",)
    with pytest.raises(UnsupportedError, match="is not known"):
        await services.call(ONE, SetEngine(name="perpetuum", enabled=True), 10)


async def test_a_server_that_the_log_has_left_behind_restores_while_it_runs(
    world: World, autojump_clock: MockClock
) -> None:
    """After a forced trim past its cursor it closes its clients' connections, restores a snapshot and serves on."""
    one, two, three = await start(world, 1, 2, 3)
    for number in range(20):
        await client_of(one).create(f"/{number}")
    await trio.sleep(20)  # noqa: TID251 -- simulated time
    former = life_of(three)
    process, _ = world.processes[3]
    process.pause()
    for number in range(20, 40):
        await client_of(one).create(f"/{number}")
    await trio.sleep(20)  # noqa: TID251 -- simulated time
    position = min(life_of(node).snapshots.newest for node in (one, two))
    assert position > former.replica.cursor
    log = one.virtual_log
    assert log is not None
    await log.prefix_trim(LogPosition(position))
    process.resume()
    await until(lambda: three.database is not None and three.database.life not in {None, former})
    await until(lambda: not three.not_ready())
    assert len(await client_of(three).children("/")) == 41
    with pytest.raises(NoNodeError):
        await client_of(three).get("/40")
