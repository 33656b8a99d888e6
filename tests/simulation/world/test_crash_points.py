"""Crash points: a process dies exactly at the drawn point, and the others notice nothing but its death."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import attrs
import pytest
import trio

from tests.source_tree import ROOT
from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint, hooked
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Done, Request
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.process import CrashedError, Process, executing
from virtuallog_loglets.wal import WalRecord, WalSettings, WriteAheadLog
from virtuallog_simulation.faults import crash_points
from virtuallog_simulation.faults.crash_points import CrashPointPlan, CrashPoints
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.scenarios import registry
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.machine import Machine, MachinePorts, Program
from virtuallog_simulation.world.options import Options
from virtuallog_simulation.world.world import World, open_world

NODE, CLIENT = NodeId(1), NodeId(1001)
SYNCED = "wal: a group is durable, nobody has been told"
ENCODED = "wal: a group is encoded, nothing is written"


@attrs.frozen
class Ping(Request[str]):
    """A request that every live node answers."""


@pytest.fixture
def point() -> Iterator[CrashPoint]:
    """A point of this test's own; unknown again after it."""
    made = CrashPoint("test: the first half is done, the second is not")
    yield made
    del CRASH_POINTS[made.name]


def in_world(story: Callable[[World], Awaitable[None]], options: Options | None = None) -> None:
    async def main() -> None:
        async with open_world(1, options) as world:
            await story(world)

    scheduler.run(1, main)


def faults(world: World, *machines: Machine, **armed: tuple[CrashPoint | str, int]) -> CrashPoints:
    """Crash points in force: at which pass of which point the `nodes` and the `clients` die."""
    plan: dict[str, dict[str, int]] = {"nodes": {}, "clients": {}}
    for kind, (point, at) in armed.items():
        plan[kind][point if isinstance(point, str) else point.name] = at
    made = CrashPoints(world, {machine.node: machine for machine in machines}, clients_die=True)
    made.start(CrashPointPlan(**plan))
    return made


# -- the points themselves ------------------------------------------------------------------------------------------


def whole_product() -> None:
    """Import every module that makes crash points; those that need Arrow are imported late otherwise."""
    registry.find(registry.DEFAULT)
    import_module("virtuallog_loglets.archive.creation.archiver")


def test_a_hook_hears_of_a_point_only_while_it_is_installed(point: CrashPoint) -> None:
    """A hook hears of a point only while installed, and its exception comes out of the point."""
    heard: list[CrashPoint] = []
    with hooked(heard.append):
        point.reached()
    point.reached()
    assert heard == [point]

    def die(_: CrashPoint) -> None:
        raise CrashedError(Process(NodeId(1)))

    with hooked(die), pytest.raises(CrashedError):
        point.reached()


def test_two_points_cannot_have_one_name(point: CrashPoint) -> None:
    """A death could not be told from the other."""
    with pytest.raises(ValueError, match="two crash points"):
        CrashPoint(point.name)


def test_names_tell_what_is_so_and_where() -> None:
    """`area: a phrase`. The areas of the product are known; others may have points, too."""
    whole_product()
    assert {point.area for point in CRASH_POINTS.values()} >= set(crash_points.AREAS)
    assert all(name.startswith(f"{point.area}: ") and name[-1] != "." for name, point in CRASH_POINTS.items())


# -- whose code runs ------------------------------------------------------------------------------------------------


def test_the_world_knows_whose_code_runs() -> None:
    """In callbacks, in what they call into others, and in tasks that they start."""
    one, other = Process(NodeId(1)), Process(NodeId(2))
    seen: list[Process | None] = []

    async def task() -> None:
        seen.append(executing())

    async def main() -> None:
        async with trio.open_nursery() as nursery:

            def callback() -> None:
                other.run(lambda: seen.append(executing()))
                seen.append(executing())
                nursery.start_soon(task)

            one.run(callback)
            seen.append(executing())

    scheduler.run(1, main)
    assert seen == [other, one, None, one]


def test_a_process_that_dies_in_a_callback_does_not_bother_its_caller(point: CrashPoint) -> None:
    """The timeline that delivers messages goes on. A port of another life is another matter."""
    process = Process(NODE)
    passed: list[str] = []

    def callback() -> None:
        point.reached()
        passed.append("behind the point")

    with hooked(lambda _: process.die(power=True)):
        process.run(callback)
    assert not process.alive
    assert passed == []

    def misuse() -> None:
        process.check()

    with pytest.raises(CrashedError):
        Process(NODE, 2).run(misuse)


# -- nodes ----------------------------------------------------------------------------------------------------------


def test_a_node_dies_exactly_there_and_comes_back(point: CrashPoint) -> None:
    """State that was durable before the point survives, nothing behind it happens, not even in a
    `finally`."""
    found: list[tuple[int, bytes | None, bytes | None]] = []

    async def program(ports: MachinePorts) -> None:
        store = await ports.key_values("role")
        found.append((ports.process.boot, await store.get(b"first"), await store.get(b"second")))
        if ports.process.boot == 1:
            await store.write({b"first": b"durable"})
            try:
                point.reached()
            finally:
                await store.write({b"second": b"never"})
        await trio.sleep_forever()

    async def story(world: World) -> None:
        machine = Machine(world, NODE, program)
        faults(world, machine, nodes=(point, 1))
        machine.start()
        await trio.sleep(10)
        assert world.counts == {f"crash at {point.name}": 1, "restart": 1}
        assert world.passes[point.name] == 1

    in_world(story)
    assert found == [(1, None, None), (2, b"durable", None)]


def test_a_node_that_dies_in_a_handler_answers_nobody(point: CrashPoint) -> None:
    """Its caller runs into the timeout; the next pass is survived, as the point has struck."""

    async def program(ports: MachinePorts) -> None:
        def handle(_: Ping, done: Done) -> None:
            point.reached()
            done("pong")

        ports.listen({Ping: handle})
        await trio.sleep_forever()

    async def story(world: World) -> None:
        machine = Machine(world, NODE, program)
        faults(world, machine, nodes=(point, 1))
        machine.start()
        async with world.client(CLIENT) as environment:
            await trio.sleep(0.1)
            with pytest.raises(UnavailableError):
                await environment.services.call(NODE, Ping(), 4.0)
            assert await environment.services.call(NODE, Ping(), 1.0) == "pong"

    in_world(story)


def test_it_strikes_at_the_pass_that_was_drawn(point: CrashPoint) -> None:
    """It strikes at the drawn pass, at any node."""
    passed: list[int] = []

    async def program(ports: MachinePorts) -> None:
        await trio.sleep(ports.process.node)
        point.reached()
        passed.append(ports.process.node)
        await trio.sleep_forever()

    async def story(world: World) -> None:
        machines = [Machine(world, NodeId(number), program) for number in (1, 2, 3)]
        made = faults(world, *machines, nodes=(point, 2))
        for machine in machines:
            machine.start()
        await trio.sleep(3.5)
        made.stop()
        await trio.sleep(5)

    in_world(story)
    assert passed[:2] == [1, 3]


def test_after_the_end_nobody_dies_and_nobody_is_started_again(point: CrashPoint) -> None:
    """The code that stops the faults decides which nodes live on."""

    async def program(ports: MachinePorts) -> None:
        point.reached()
        await trio.sleep_forever()

    async def story(world: World) -> None:
        dead, alive = (Machine(world, NodeId(number), program) for number in (1, 2))
        made = faults(world, dead, alive, nodes=(point, 1))
        dead.start()
        await trio.testing.wait_all_tasks_blocked()
        made.stop()
        alive.start()
        await trio.sleep(10)
        assert (dead.running, alive.running) == (False, True)

    in_world(story)


@pytest.mark.parametrize(("name", "survives"), [(SYNCED, [b"record"]), (ENCODED, [])])
def test_the_log_keeps_what_was_durable_though_nobody_was_told(name: str, survives: list[bytes]) -> None:
    """A group that is synced is found again by the next life; one that was not written is not."""
    replayed: list[bytes] = []
    told: list[Any] = []

    async def story(world: World) -> None:
        machine = Machine(world, NODE, log_user(replayed, told))
        faults(world, machine, nodes=(name, 1))
        machine.start()
        await trio.sleep(10)
        assert machine.running

    in_world(story)
    assert replayed == survives
    assert told == []


def log_user(replayed: list[bytes], told: list[Any]) -> Program:
    """Its first life appends one record; each later one only reads."""
    settings = WalSettings(
        segment_bytes=8192, record_bytes_max=1024, group_bytes_max=2048, queue_bytes_max=4096, headroom_bytes=1024
    )

    async def program(ports: MachinePorts) -> None:
        storage = await ports.storage("log")
        wal = await WriteAheadLog.open(storage, settings, lambda _, record: replayed.append(record.payload))
        async with trio.open_nursery() as nursery:
            await nursery.start(wal.run, list)
            if ports.process.boot == 1:
                wal.append([WalRecord(1, b"record")], told.append)

    return program


# -- clients --------------------------------------------------------------------------------------------------------


def test_a_client_dies_exactly_there_and_the_world_goes_on(point: CrashPoint) -> None:
    """Its context ends without an error, as after any death of a client; points of nodes are counted by themselves."""
    passed: list[str] = []

    async def story(world: World) -> None:
        faults(world, nodes=(point, 1), clients=(point, 2))
        for name in ("one", "two", "three"):
            async with world.client(CLIENT):
                point.reached()
                passed.append(name)
        assert world.counts == {f"crash at {point.name}": 1}

    in_world(story)
    assert passed == ["one", "three"]


def test_a_client_dies_with_all_its_tasks(point: CrashPoint) -> None:
    """All tasks of a client die, also if a task of its service nursery reaches the point."""
    passed: list[str] = []

    async def service() -> None:
        await trio.sleep(1)
        point.reached()
        passed.append("the service")

    async def story(world: World) -> None:
        faults(world, clients=(point, 1))
        async with world.client(CLIENT) as environment:
            environment.nursery.start_soon(service)
            await trio.sleep(2)
            passed.append("the client")

    in_world(story)
    assert passed == []


def test_clients_live_until_the_nemesis_works(point: CrashPoint) -> None:
    """A client that waits for the cluster to be founded must not die of it."""
    passed: list[str] = []

    async def story(world: World) -> None:
        made = faults(world, clients=(point, 1))
        made.clients_die = False
        async with world.client(CLIENT):
            point.reached()
            passed.append("bootstrap")

    in_world(story)
    assert passed == ["bootstrap"]


# -- what is drawn --------------------------------------------------------------------------------------------------


def test_a_new_point_leaves_all_others_as_they_were(point: CrashPoint) -> None:
    """The draw for a point depends on the seed and its name: old seeds stay as they were, as far as
    possible."""

    async def draw(seed: int, names: list[str]) -> CrashPointPlan:
        async with open_world(seed) as world:
            return CrashPointPlan.draw(world, [CRASH_POINTS[name] for name in names])

    known = [name for name in CRASH_POINTS if name != point.name]
    for seed in range(20):
        before = scheduler.run(seed, partial(draw, seed, known))
        after = scheduler.run(seed, partial(draw, seed, [point.name, *reversed(known)]))
        assert {name: at for name, at in after.nodes.items() if name != point.name} == before.nodes


def test_a_run_may_be_narrowed_to_other_faults(point: CrashPoint) -> None:
    """Then nothing is armed; passes are still counted."""

    async def story(world: World) -> None:
        faults(world, clients=(point, 1))
        async with world.client(CLIENT):
            point.reached()
        assert world.counts == {}
        assert world.passes == {point.name: 1}

    in_world(story, Options(faults=("crash", "kill")))


def test_processes_die_at_crash_points_in_most_runs() -> None:
    """The deaths themselves are no error, even if a run breaks a promise."""
    deaths = 0
    for seed in range(1, 7):
        report = run_seed(seed)
        assert "no unexpected error" not in {violation.check for violation in report.violations}
        deaths += any(name.startswith(crash_points.COUNTED) for name in report.counts)
    assert deaths >= 3


def test_the_document_lists_every_point() -> None:
    """docs/internals/faults.md, section "Crash points", is made of the registry (`crash_points.table`)."""
    whole_product()
    assert crash_points.table() in (ROOT / "docs/internals/faults.md").read_text()
