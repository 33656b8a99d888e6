"""View, holds and allowed trims (case 57 of the specification, invariant I9)."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, Running, caught_up, replicas
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.register import NodeEntry
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import Eject, ViewSettings, ViewTrackingEngine
from virtuallog_database.errors import SnapshotNeededError
from virtuallog_database.testing.memory_store import MemoryDisk

FAST: StackSettings = attrs.evolve(SETTINGS, view=ViewSettings(announce_seconds=1.0, eject_seconds=8.0))
SOON = 3.0
"""Time by which all replicas have announced themselves."""


def view(running: Running) -> ViewTrackingEngine:
    found = running.replica.stack.find(ViewTrackingEngine)
    assert found is not None
    return found


def nodes(running: Running) -> set[str]:
    """Nodes in the view, as this replica sees it."""
    return {name.partition("-")[0] for name in view(running).members()}


async def test_the_log_is_trimmed_to_the_oldest_of_the_newest_snapshots(autojump_clock: MockClock) -> None:
    """A restarted replica begins at its snapshot and reads on: a trim beyond it would leave nothing
    to read."""
    async with replicas() as world:
        all_of_them = [await world.start(node, settings=FAST) for node in (1, 2, 3)]
        for number in range(30):
            await all_of_them[number % 3].propose(b"entry %d" % number)
        await trio.sleep(SOON)
        assert [nodes(each) for each in all_of_them] == [{"1", "2", "3"}] * 3

        all_of_them[0].replica.snapshotted(LogPosition(20))
        all_of_them[1].replica.snapshotted(LogPosition(25))
        await trio.sleep(SOON)
        assert not world.provider.trims, "the third one has no snapshot, so it needs the log from the start"

        all_of_them[2].replica.snapshotted(LogPosition(11))
        await trio.sleep(SOON)
        assert {view(each).floor() for each in all_of_them} == {11}
        assert set(world.provider.trims) == {11}


async def test_one_that_proposes_is_a_member_from_its_first_entry_on(autojump_clock: MockClock) -> None:
    """It needs no entry of its own to say so."""
    async with replicas() as world:
        first = await world.start(1, settings=FAST)
        await first.propose(b"a")
        (member,) = view(first).members().values()
        assert (member.heard, first.replica.cursor) == (0, 1)


async def test_a_silent_replica_is_ejected_and_needs_a_snapshot_when_it_comes_back(autojump_clock: MockClock) -> None:
    """A dead server keeps the log only for a while, or all disks fill up; back again, it says what it lacks."""
    async with replicas() as world:
        first, second = await world.start(1, settings=FAST), await world.start(2, settings=FAST)
        for number in range(20):
            await first.propose(b"entry %d" % number)
        await trio.sleep(SOON)
        await second.crash()
        for number in range(20):
            await first.propose(b"more %d" % number)
        first.replica.snapshotted(first.replica.cursor)
        await trio.sleep(SOON)
        assert nodes(first) == {"1", "2"}
        assert not world.provider.trims, "the second one may be back in a moment"

        await trio.sleep(2 * FAST.view.eject_seconds)
        assert nodes(first) == {"1"}
        assert world.provider.trims and second.replica.cursor < min(world.provider.trims)

        back = await world.start(2, second.disk, settings=FAST)
        await back.ended.wait()
        assert isinstance(back.failure, SnapshotNeededError)
        assert back.failure.first == max(world.provider.trims)


async def test_what_one_disk_holds_alone_is_not_trimmed(autojump_clock: MockClock) -> None:
    """Seed 874 of `zelos`, at 12b3b5d: the first server up had a snapshot, the log was trimmed to it, and its disk was lost: with it went
    what three log servers had kept."""
    two = attrs.evolve(FAST, view=attrs.evolve(FAST.view, copies=2))
    async with replicas() as world:
        first = await world.start(1, settings=two)
        for number in range(20):
            await first.propose(b"entry %d" % number)
        first.replica.snapshotted(first.replica.cursor)
        await trio.sleep(3 * SOON)
        assert view(first).floor() >= 20, "no replica needs it"
        assert not world.provider.trims, "and yet it is in one place only"

        second = await world.start(2, settings=two)
        await trio.sleep(3 * SOON)
        assert not world.provider.trims, "the other one has it in memory"
        second.replica.snapshotted(LogPosition(15))
        await trio.sleep(3 * SOON)
        assert max(world.provider.trims) == 15


@pytest.mark.parametrize(("nodes", "copies"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (7, 4)])
async def test_the_state_survives_as_many_lost_disks_as_the_log(
    nodes: int, copies: int, autojump_clock: MockClock
) -> None:
    """One more copy than the disks that may be lost; a drained node has none."""
    async with replicas() as world:
        first = await world.start(1, settings=FAST)
        register = await first.log.view.current()
        entry = NodeEntry(store_id=b"s" * 16, addresses=(), roles=frozenset({"log-server"}))
        drained = {NodeId(99): attrs.evolve(entry, roles=frozenset())}
        named = {NodeId(number): entry for number in range(1, nodes + 1)}
        first.log.view.cached = attrs.evolve(register, nodes={**named, **drained})
        assert view(first).copies == copies


async def test_an_ejected_replica_that_can_still_read_the_log_joins_again(autojump_clock: MockClock) -> None:
    """Ejection is about trims only: who still finds all it needs goes on without a snapshot or an operator."""
    async with replicas() as world:
        first, second = await world.start(1, settings=FAST), await world.start(2, settings=FAST)
        await first.propose(b"a")
        await trio.sleep(SOON)
        await second.crash()
        await trio.sleep(2 * FAST.view.eject_seconds)
        assert nodes(first) == {"1"}
        back = await world.start(2, second.disk, settings=FAST)
        await trio.sleep(SOON)
        assert nodes(first) == nodes(back) == {"1", "2"}
        assert back.application.items == [b"a"]


async def test_who_was_stopped_for_long_ejects_nobody(autojump_clock: MockClock) -> None:
    """It wakes up and has heard no other for a minute: first it plays the announcements in between."""
    async with replicas() as world:
        first, second = await world.start(1, settings=FAST), await world.start(2, settings=FAST)
        await trio.sleep(SOON)
        first.log.view.environment.clock._process.pause()  # type: ignore[attr-defined]
        await trio.sleep(3 * FAST.view.eject_seconds)
        assert nodes(second) == {"2"}, "the others cannot know that it comes back"
        first.log.view.environment.clock._process.resume()  # type: ignore[attr-defined]
        for _ in range(40):
            await trio.sleep(0.25)
            assert "2" in nodes(first)
        assert nodes(first) == nodes(second) == {"1", "2"}


async def test_who_looks_for_a_silent_one_is_not_silent(autojump_clock: MockClock) -> None:
    """The second look takes as long as three announcements; the others watch this replica in the
    same way, and would find it silent."""
    async with replicas() as world:
        first, second = await world.start(1, settings=FAST), await world.start(2, settings=FAST)
        await trio.sleep(SOON)
        await second.crash()
        await trio.sleep(FAST.view.eject_seconds - 1)
        name, heard = first.replica.identity.name, set()
        while "2" in nodes(first):
            await trio.sleep(0.1)
            heard.add(view(first).members()[name].heard)
        assert len(heard) >= 4


@pytest.mark.parametrize(("announce", "eject"), [(5.0, 10.0), (5.0, 29.0), (0.0, 1.0)])
def test_nobody_is_ejected_between_two_announcements(announce: float, eject: float) -> None:
    """If live replicas count as gone, the log is trimmed past what they have durable."""
    with pytest.raises(InvalidSettingError, match="announcements"):
        ViewSettings(announce_seconds=announce, eject_seconds=eject)


async def test_an_ejection_does_nothing_if_the_replica_was_heard_of_since(autojump_clock: MockClock) -> None:
    """An ejection, concurrent or late, has an effect only if its observation still holds."""
    async with replicas() as world:
        first, second = await world.start(1, settings=FAST), await world.start(2, settings=FAST)
        await trio.sleep(SOON)
        name = second.replica.identity.name
        heard = view(first).members()[name].heard
        await trio.sleep(SOON)
        assert view(first).members()[name].heard > heard
        assert await view(first).command(Eject(name, heard)) is False
        assert nodes(first) == {"1", "2"}
        assert await view(first).eject(name) is True, "an operator knows better"


async def test_a_wiped_node_takes_the_place_of_its_former_store(autojump_clock: MockClock) -> None:
    """No replica waits until the former one, which cannot come back, has been silent for long
    enough."""
    async with replicas() as world:
        first, second = await world.start(1, settings=FAST), await world.start(2, settings=FAST, store="former")
        await first.propose(b"a")
        await trio.sleep(SOON)
        await second.crash()
        await world.start(2, MemoryDisk(), settings=FAST, store="newer")
        await trio.sleep(SOON)
        assert nodes(first) == {"1", "2"}
        assert sum(name.startswith("2-") for name in view(first).members()) == 1


async def test_holds_keep_the_log_until_they_are_released_or_over(autojump_clock: MockClock) -> None:
    """A reader finds what it has a hold for; one that died in the middle keeps the log only for its
    time."""
    async with replicas() as world:
        all_of_them = [await world.start(node, settings=FAST) for node in (1, 2)]
        for number in range(20):
            await all_of_them[0].propose(b"entry %d" % number)
        await trio.sleep(SOON)
        assert await view(all_of_them[0]).hold("reader", LogPosition(5)) == 5
        assert await view(all_of_them[1]).hold("joiner", LogPosition(7), seconds=10) == 7
        for each in all_of_them:
            each.replica.snapshotted(LogPosition(15))
        await trio.sleep(SOON)
        assert set(world.provider.trims) == {5}

        assert await view(all_of_them[0]).release("reader")
        await trio.sleep(SOON)
        assert max(world.provider.trims) == 7
        assert await view(all_of_them[0]).hold("joiner", LogPosition(8), seconds=10) == 8  # renewed, further on
        await trio.sleep(9.0)
        assert max(world.provider.trims) == 8

        await trio.sleep(10.0)
        assert not view(all_of_them[1]).holds()
        assert max(world.provider.trims) == 15


async def test_a_hold_below_the_floor_tells_what_is_certain(autojump_clock: MockClock) -> None:
    """Positions below the floor may be gone: on a replica that has read the log further than
    others, say."""
    async with replicas() as world:
        first = await world.start(1, settings=FAST)
        for number in range(10):
            await first.propose(b"entry %d" % number)
        first.replica.snapshotted(LogPosition(6))
        await trio.sleep(SOON)
        assert await view(first).hold("joiner", LogPosition(2)) == 6
        assert view(first).holds()["joiner"].position == 6


async def test_a_replica_that_lags_does_not_trim_what_is_held(autojump_clock: MockClock) -> None:
    """The floor was 5 when the hold was granted; one that has not read of the hold knows of no higher one."""
    async with replicas() as world:
        first, second = await world.start(1, settings=FAST), await world.start(2, settings=FAST)
        for number in range(10):
            await first.propose(b"entry %d" % number)
        for each in (first, second):
            each.replica.snapshotted(LogPosition(5))
        await trio.sleep(SOON)
        second.log.view.environment.clock._process.pause()  # type: ignore[attr-defined]
        granted = await view(first).hold("joiner", LogPosition(5))
        first.replica.snapshotted(LogPosition(9))
        await trio.sleep(SOON)
        second.log.view.environment.clock._process.resume()  # type: ignore[attr-defined]
        second.replica.snapshotted(LogPosition(9))
        await trio.sleep(SOON)
        await caught_up(first, second)
        assert granted == 5
        assert max(world.provider.trims) == 5


async def test_the_position_of_the_snapshot_survives_a_restart(autojump_clock: MockClock) -> None:
    """A replica keeps its announced position until it has looked for its snapshots."""
    async with replicas() as world:
        first = await world.start(1, settings=FAST)
        for number in range(10):
            await first.propose(b"entry %d" % number)
        first.replica.snapshotted(LogPosition(6))
        await trio.sleep(SOON)
        await first.crash()
        back = await world.start(1, first.disk, settings=FAST)
        await trio.sleep(SOON)
        (member,) = view(back).members().values()
        assert member.durable == 6
