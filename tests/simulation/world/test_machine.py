"""Machines: what a crash, a kill, a pause and a wipe do to a program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.types import NodeId
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.machine import Machine, MachinePorts, Program
from virtuallog_simulation.world.world import World, open_world

NODE = NodeId(1)


def in_world(program: Program, story: Callable[[World, Machine], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_world(1) as world:
            machine = Machine(world, NODE, program)
            machine.start()
            await story(world, machine)

    scheduler.run(1, main)


def test_what_was_synced_survives_a_crash_and_what_was_not_may_not() -> None:
    """The next life finds the first write whole, and has a higher boot number."""
    found: list[tuple[int, bytes | None]] = []

    async def program(ports: MachinePorts) -> None:
        store = await ports.key_values("role")
        found.append((ports.process.boot, await store.get(b"key")))
        await store.write({b"key": b"%d" % ports.process.boot})
        await trio.sleep_forever()

    async def story(world: World, machine: Machine) -> None:
        for _ in range(2):
            await trio.sleep(1)
            machine.crash()
            machine.start()
        await trio.sleep(1)

    in_world(program, story)
    assert found == [(1, None), (2, b"1"), (3, b"2")]


def test_a_life_that_was_over_at_once_takes_no_disk_from_the_next() -> None:
    """Its first step comes only when the next life has begun."""
    mounted: list[int] = []

    async def program(ports: MachinePorts) -> None:
        await ports.storage("role")
        mounted.append(ports.process.boot)
        await trio.sleep_forever()

    async def story(world: World, machine: Machine) -> None:
        machine.crash()
        machine.start()
        await trio.sleep(1)

    in_world(program, story)
    assert mounted == [2]


def test_no_shield_survives_a_crash() -> None:
    """Ports die first: a shielded section goes on, but the world does not see it."""
    reached: list[str] = []

    async def program(ports: MachinePorts) -> None:
        store = await ports.key_values("role")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                reached.append("the shield")
                await store.write({b"late": b"write"})
                reached.append("the disk")

    async def story(world: World, machine: Machine) -> None:
        await trio.sleep(1)
        machine.crash()
        await trio.sleep(1)
        assert machine._key_values["role"].pairs == {}

    in_world(program, story)
    assert reached == ["the shield"]


def test_a_wiped_machine_starts_from_nothing() -> None:
    """Its disks are empty."""
    found: list[bytes | None] = []

    async def program(ports: MachinePorts) -> None:
        store = await ports.key_values("role")
        found.append(await store.get(b"key"))
        await store.write({b"key": b"value"})
        await trio.sleep_forever()

    async def story(world: World, machine: Machine) -> None:
        await trio.sleep(1)
        machine.crash()
        machine.wipe()
        machine.start()
        await trio.sleep(1)

    in_world(program, story)
    assert found == [None, None]


def test_a_lost_store_is_gone_and_the_others_are_not() -> None:
    """Inspection shows it; a store without anything in it cannot be lost."""
    found: list[tuple[bytes | None, bytes | None]] = []
    told: list[object] = []

    async def program(ports: MachinePorts) -> None:
        lost, kept = await ports.key_values("lost"), await ports.key_values("kept")
        found.append((await lost.get(b"key"), await kept.get(b"key")))
        await lost.write({b"key": b"value"})
        await kept.write({b"key": b"value"})
        await trio.sleep_forever()

    async def story(world: World, machine: Machine) -> None:
        world.on_stored = lambda node, store, changes: told.append((node, store, dict(changes)))
        world.on_lost = lambda node, store: told.append((node, store))
        await trio.sleep(1)
        machine.crash()
        assert machine.lose("lost")
        assert not machine.lose("lost")
        assert not machine.wiped
        machine.start()
        await trio.sleep(1)

    in_world(program, story)
    assert found == [(None, None), (None, b"value")]
    pairs = {b"key": b"value"}
    assert told == [
        (NODE, "lost", pairs),
        (NODE, "kept", pairs),
        (NODE, "lost"),
        (NODE, "lost", pairs),
        (NODE, "kept", pairs),
    ]


def test_a_paused_program_stands_still() -> None:
    """Its sleep ends when it is resumed."""
    woken: list[float] = []

    async def program(ports: MachinePorts) -> None:
        await ports.clock.sleep(1)
        woken.append(trio.current_time())
        await trio.sleep_forever()

    async def story(world: World, machine: Machine) -> None:
        machine.pause()
        await trio.sleep(10)
        machine.resume()
        await trio.sleep(1)

    in_world(program, story)
    assert woken == [pytest.approx(10)]


def test_a_program_may_stop_on_purpose() -> None:
    """It says why; the machine is down, the run goes on."""

    async def program(ports: MachinePorts) -> None:
        raise CorruptionError("bits have rotted")

    async def story(world: World, machine: Machine) -> None:
        await trio.sleep(1)
        assert not machine.running
        assert "bits have rotted" in machine.failure
        assert world.counts["program stopped"] == 1
        assert [violation.check for violation in world.violations] == ["no unexpected error"]  # nothing has rotted here

    in_world(program, story)


def test_a_program_that_stops_because_of_its_disk_has_a_reason() -> None:
    """The faults of a machine are counted for itself, and for the world."""

    async def program(ports: MachinePorts) -> None:
        store = await ports.key_values("role")
        await store.write({b"key": b"value"})
        await store.get(b"key")
        await trio.sleep(2)
        raise CorruptionError("bits have rotted")

    async def story(world: World, machine: Machine) -> None:
        await trio.sleep(1)
        assert machine.rot(world.random("rot"))
        await trio.sleep(2)
        assert not machine.running
        assert machine.counts == {"store bit flipped": 1}
        assert world.counts["store bit flipped"] == world.counts["rot refused"] == 1
        assert not world.violations

    in_world(program, story)


def test_a_bug_in_a_program_ends_the_run() -> None:
    """Anything but an error of ours is a finding."""

    async def program(ports: MachinePorts) -> None:
        raise ZeroDivisionError

    async def story(world: World, machine: Machine) -> None:
        await trio.sleep(1)

    with pytest.raises(ExceptionGroup) as raised:
        in_world(program, story)
    assert raised.group_contains(ZeroDivisionError)
