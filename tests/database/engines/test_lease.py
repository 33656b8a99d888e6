"""The lease: reads without a tail check that still see every completed write; expiry, takeover, clocks that run wrong, switching it
on and off under load (case 61 of the specification)."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, Replicas, Running, replicas
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.errors import InvalidSettingError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition
from virtuallog.testing.sim.process import CrashedError
from virtuallog_database.engines.base.base_engine import BaseSettings
from virtuallog_database.engines.brain_doctor import BrainDoctorEngine
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import section
from virtuallog_database.engines.core.lease_state import Expire, Renew
from virtuallog_database.engines.layers.replicated_call import propose_and_wait
from virtuallog_database.engines.lease import LeaseEngine, LeaseSettings
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import ViewSettings

DURATION, DRIFT = 2.0, 0.05
FAST: StackSettings = attrs.evolve(
    SETTINGS,
    view=ViewSettings(announce_seconds=1.0),
    lease=LeaseSettings(duration_seconds=DURATION, drift=DRIFT),
)
WANTED: StackSettings = attrs.evolve(FAST, lease=attrs.evolve(FAST.lease, wanted=True))


def lagging(settings: StackSettings, seconds: float) -> StackSettings:
    """A replica that looks only now and then for what others have put into the log."""
    base = BaseSettings(appender=AppenderSettings(give_up=1.0), follow_pause_seconds=seconds, follow_burst=0)
    return attrs.evolve(settings, base=base)


def lease(running: Running) -> LeaseEngine:
    found = running.replica.stack.find(LeaseEngine)
    assert found is not None
    return found


def rollout(running: Running) -> RolloutEngine:
    found = running.replica.stack.find(RolloutEngine)
    assert found is not None
    return found


async def enabled(world: Replicas, holder: StackSettings = WANTED, others: StackSettings = FAST) -> list[Running]:
    """Three replicas, of which the first one has the lease."""
    started = [await world.start(node, settings=holder if node == 1 else others) for node in (1, 2, 3)]
    for each in started:
        await each.propose(b"hello")
    await enabled_over(started)
    return started


async def enabled_over(started: list[Running]) -> None:
    """The first of these, which are in the view, gets the lease."""
    await rollout(started[0]).enable("lease")
    await trio.sleep(DURATION / 2)
    assert lease(started[0]).is_held


async def strong_read(running: Running) -> int:
    """Number of items, read linearizably."""
    await running.replica.stack.top.prepare_read()
    count = len(running.application.items)
    await lease(running).confirm()
    return count


async def test_nobody_has_a_lease_before_it_is_enabled(autojump_clock: MockClock) -> None:
    """Others that do not know it would not let their writes wait, however much a replica wants it."""
    async with replicas() as world:
        first = await world.start(1, settings=WANTED)
        await first.propose(b"a")
        await trio.sleep(10 * DURATION)
        assert lease(first).holder is None
        assert not lease(first).is_held


async def test_the_holder_reads_without_asking_the_log(autojump_clock: MockClock) -> None:
    """The purpose of a lease: reads as new as every completed write, without a round trip. Other
    replicas still ask."""
    async with replicas() as world:
        first, second, _ = await enabled(world)
        before = world.provider.tail_checks
        for number in range(10):
            await second.propose(b"%d" % number)
            assert await strong_read(first) == 4 + number, "each of these writes was completed"
        assert world.provider.tail_checks == before
        await strong_read(second)
        assert world.provider.tail_checks > before


async def test_writes_of_others_complete_once_the_holder_has_applied_them(autojump_clock: MockClock) -> None:
    """Otherwise a write would be answered that a read at the holder does not see yet. Its own need no wait."""
    async with replicas() as world:
        first, second, _ = await enabled(world, holder=lagging(WANTED, 0.5))
        began = trio.current_time()
        await second.propose(b"late")
        assert first.application.items[-1] == b"late"
        assert trio.current_time() > began, "the holder was behind"
        assert await first.propose(b"its own") == 4, "which waits for no other"


async def test_a_strong_read_elsewhere_waits_for_the_holder(autojump_clock: MockClock) -> None:
    """Otherwise a read at the holder that begins later could show less."""
    async with replicas() as world:
        first, second, third = await enabled(world, holder=lagging(WANTED, 0.5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.propose, b"not yet completed")
            await _applied(third, 4)
            assert len(first.application.items) == 3
            assert await strong_read(third) == 4
            assert await strong_read(first) == 4


async def _applied(running: Running, count: int) -> None:
    for _ in range(1000):
        if len(running.application.items) == count:
            return
        await trio.sleep(0.0001)
    raise AssertionError(f"there are {len(running.application.items)} items, not {count}")


async def test_when_the_holder_dies_writes_wait_for_the_end_of_its_lease(autojump_clock: MockClock) -> None:
    """It may be out of reach, and still read; but a dead holder costs one lease at most, and that once."""
    async with replicas() as world:
        first, second, third = await enabled(world)
        await first.crash()
        began = trio.current_time()
        await second.propose(b"a")
        waited = trio.current_time() - began
        assert DURATION * 0.5 < waited < 2 * DURATION
        assert lease(second).holder is None
        began = trio.current_time()
        await third.propose(b"b")
        assert trio.current_time() - began < 0.1


async def test_another_one_takes_over(autojump_clock: MockClock) -> None:
    """Reads are fast again without an operator, and the old holder, back again, does not believe in its old lease."""
    async with replicas() as world:
        first, second, third = await enabled(world)
        lease(second).settings = lease(third).settings = WANTED.lease
        await first.crash()
        await trio.sleep(3 * DURATION)
        holder = lease(second).holder
        assert holder is not None and not holder.startswith("1-")
        back = await world.start(1, first.disk, settings=FAST)
        await second.propose(b"a")
        await strong_read(back)
        assert back.application.items[-1] == b"a"
        assert lease(back).holder == holder


async def test_a_holder_that_restarts_does_not_rely_on_the_lease_of_its_former_life(autojump_clock: MockClock) -> None:
    """Its store may have fallen back behind what it had confirmed."""
    async with replicas() as world:
        first, second, _ = await enabled(world)
        await second.propose(b"a")
        await first.crash(random.Random(1))
        back = await world.start(1, first.disk, settings=WANTED)
        assert not lease(back).is_held
        assert await strong_read(back) == 4
        await trio.sleep(DURATION)
        assert lease(back).is_held, "its renewals name the same lease, or it has acquired another one"


async def test_who_lets_go_waits_for_nobody(autojump_clock: MockClock) -> None:
    """A planned stop must not cost what a crash costs: the next one has the lease before the old one is over."""
    async with replicas() as world:
        first, second, _ = await enabled(world)
        lease(first).settings, lease(second).settings = FAST.lease, WANTED.lease
        await lease(first).release()
        assert not lease(first).is_held
        await trio.sleep(DURATION / 2)
        assert lease(second).holder not in {None, first.replica.identity.name}


@pytest.mark.parametrize(("holder_rate", "other_rate"), [(1.0, 1.0), (1 - DRIFT, 1 + DRIFT), (1 + DRIFT, 1 - DRIFT)])
async def test_nobody_relies_on_a_lease_that_has_ended_in_the_log(
    holder_rate: float, other_rate: float, autojump_clock: MockClock
) -> None:
    """The holder stands still, so it does not even hear that it has lost the lease; it has its clock only. Clocks that run wrong
    as much as may be do not break it."""
    async with replicas() as world:
        first, second, _ = await _with_clocks(world, holder_rate, other_rate)
        assert await _ended(first, second), "it ends while the holder stands still"


async def test_clocks_that_are_worse_than_the_setting_do_break_it(autojump_clock: MockClock) -> None:
    """Reads go wrong with clocks beyond the setting: the margin is needed, and the test above can fail."""
    async with replicas() as world:
        first, second, _ = await _with_clocks(world, 0.7, 1.3)
        with pytest.raises(AssertionError, match="relies"):
            await _ended(first, second)


async def _with_clocks(world: Replicas, holder_rate: float, other_rate: float) -> list[Running]:
    started = [await world.start(1, settings=WANTED, rate=holder_rate)]
    hasty = attrs.evolve(FAST, lease=attrs.evolve(FAST.lease, duration_seconds=0.1))  # how often they look, no more
    started += [await world.start(node, settings=hasty, rate=other_rate) for node in (2, 3)]
    await started[0].propose(b"hello")
    await trio.sleep(3.0)
    await rollout(started[0]).enable("lease")
    await trio.sleep(DURATION / 2)
    assert lease(started[0]).is_held
    return started


async def _ended(first: Running, second: Running) -> bool:
    name = first.replica.identity.name
    first.log.view.environment.clock._process.pause()  # type: ignore[attr-defined]
    for _ in range(int(4 * DURATION * 100)):
        if lease(second).holder != name:
            assert not lease(first).is_held, "the holder relies on a lease that has ended"
            return True
        await trio.sleep(0.01)
    return False


@attrs.define
class LateNews:
    """The engine below, which completes a proposal half a second after all others have applied it."""

    engine: Any
    nursery: trio.Nursery

    def propose(self, entry: Entry, done: Done) -> None:
        self.engine.propose(entry, lambda outcome: self.nursery.start_soon(self._tell, done, outcome))

    async def sync(self) -> None:
        await self.engine.sync()

    async def prepare_read(self) -> None:
        await self.engine.prepare_read()

    async def confirm(self) -> None:
        await self.engine.confirm()

    def set_trim_prefix(self, position: LogPosition) -> None:
        self.engine.set_trim_prefix(position)

    async def _tell(self, done: Done, outcome: Any) -> None:
        await trio.sleep(DURATION / 4)
        done(outcome)


async def test_the_time_counts_from_where_a_renewal_was_proposed(autojump_clock: MockClock) -> None:
    """Others may have applied it long before the holder hears of it."""
    async with replicas() as world, trio.open_nursery() as nursery:
        first, second, _ = await _with_clocks(world, 1.0, 1.0)
        lease(first).below = LateNews(lease(first).below, nursery)
        await trio.sleep(2 * DURATION)
        assert lease(first).is_held
        assert await _ended(first, second)


async def test_a_virtual_machine_that_was_suspended_does_not_trust_its_monotonic_clock(
    autojump_clock: MockClock,
) -> None:
    """It may have stood still; the wall clock has gone on."""
    async with replicas() as world:
        first, *_ = await enabled(world)
        first.log.view.environment.clock.wall_offset_seconds += DURATION  # type: ignore[attr-defined]
        assert not lease(first).is_held


async def test_an_end_that_is_proposed_too_late_does_nothing(autojump_clock: MockClock) -> None:
    """The holder has renewed since: the number of renewals is another one."""
    async with replicas() as world:
        first, second, _ = await enabled(world)
        grant = lease(second)._grant
        assert grant is not None
        await trio.sleep(DURATION)
        assert await lease(second).command(Expire(grant.lease, grant.renewals)) is False
        assert lease(first).is_held
        assert await lease(second).command(Renew(grant.lease + 1, grant.applied)) is False, "that is no lease"  # type: ignore[arg-type]


async def test_disabled_the_lease_ends_and_reads_ask_the_log_again(autojump_clock: MockClock) -> None:
    """Writes wait for the holder no longer, so its reads must not skip the log; enabled again, they may."""
    async with replicas() as world:
        first, second, _ = await enabled(world)
        await rollout(second).disable("lease")
        await trio.sleep(DURATION)
        assert lease(first).holder is None and not lease(first).is_held
        before = world.provider.tail_checks
        await strong_read(first)
        assert world.provider.tail_checks == before + 1
        await rollout(second).enable("lease")
        await trio.sleep(DURATION)
        assert lease(first).is_held


async def test_disabling_does_not_end_the_lease_that_is_in_force(autojump_clock: MockClock) -> None:
    """The holder relies on it, and may not have heard that it is to end."""
    async with replicas() as world:
        first, second, _ = await enabled(world, holder=lagging(WANTED, 0.5))
        for number in range(10):
            await rollout(second).disable("lease")
            await second.propose(b"%d" % number)
            assert not lease(first).is_held or first.application.items[-1] == b"%d" % number
            await rollout(second).enable("lease")
            await trio.sleep(DURATION / 2)
            assert lease(first).is_held


async def test_who_waits_is_told_when_the_replica_stops(autojump_clock: MockClock) -> None:
    """A write that waits for the holder hears of the stop, once; else a client would never be answered."""
    async with replicas() as world:
        _, second, _ = await enabled(world, holder=lagging(WANTED, 0.5))
        heard: list[object] = []
        second.application.engine.propose(Entry(b"a"), heard.append)
        await _applied(second, 4)
        assert not heard
        second.scope.cancel()
        await second.ended.wait()
        assert len(heard) == 1 and isinstance(heard[0], VirtualLogError)


async def test_who_waits_is_told_when_a_raw_write_takes_the_lease_away(autojump_clock: MockClock) -> None:
    """There is no holder left to wait for: they do not depend on the next renewal, which the holder
    cannot make."""
    async with replicas() as world:
        first, second, _ = await enabled(world, holder=lagging(WANTED, 0.5))
        heard: list[object] = []
        second.application.engine.propose(Entry(b"a"), heard.append)
        await _applied(second, 4)
        first.scope.cancel()
        assert not heard
        doctor = second.replica.stack.find(BrainDoctorEngine)
        assert doctor is not None
        doctor.operate({section("lease") + b"lease": None}, lambda _: None)
        while lease(second).holder is not None:
            await trio.sleep(0.001)
        await trio.lowlevel.checkpoint()
        assert len(heard) == 1 and not isinstance(heard[0], VirtualLogError)


async def test_who_confirms_when_the_replica_has_stopped_is_told_so(autojump_clock: MockClock) -> None:
    """A reader gets UnavailableError if its sync completes in the very turn in which the replica stops."""
    async with replicas() as world:
        _, second, _ = await enabled(world, holder=lagging(WANTED, 0.5))
        second.application.engine.propose(Entry(b"a"), lambda _: None)
        await _applied(second, 4)
        second.scope.cancel()
        await second.ended.wait()
        with trio.fail_after(10), pytest.raises(UnavailableError):
            await lease(second).confirm()


def test_settings_that_cannot_work_are_refused() -> None:
    """A lease shorter than its renewals never holds, and clocks that may run at half speed would need another proof."""
    with pytest.raises(InvalidSettingError):
        LeaseSettings(duration_seconds=0.01)
    with pytest.raises(InvalidSettingError):
        LeaseSettings(drift=0.5)


# -- all of it at random ----------------------------------------------------------------------------------------------


@attrs.define
class Witness:
    """Operations of clients: counts of a list that only grows, so they are in the order of their
    counts."""

    operations: list[tuple[float, float, int]] = attrs.field(factory=list)
    """When it began, when it was completed, and how many items there were after it."""

    def add(self, began: float, count: int) -> None:
        self.operations.append((began, trio.current_time(), count))

    def check(self) -> None:
        """An operation sees everything that was completed before it began."""
        for began, _, count in self.operations:
            seen = max((other for _, ended, other in self.operations if ended < began), default=0)
            assert count >= seen, f"an operation that began at {began} has seen {count}, one before it {seen}"


async def _client(running: Running, witness: Witness, chance: random.Random) -> None:
    try:
        while True:
            await trio.sleep(chance.uniform(0.0, 0.2))
            began = trio.current_time()
            if chance.random() < 0.4:
                number = await propose_and_wait(running.application.engine, Entry(b"x"))
                witness.add(began, number + 1)
            else:
                witness.add(began, await strong_read(running))
    except (VirtualLogError, CrashedError):
        return  # the replica has stopped


@pytest.mark.parametrize("seed", range(3))
async def test_reads_and_writes_are_linearizable_whoever_holds(seed: int, autojump_clock: MockClock) -> None:
    """Holders die, stand still, let go; the engine is switched off and on; some replicas lag; clocks are wrong."""
    chance, witness = random.Random(seed), Witness()
    async with replicas() as world, trio.open_nursery() as nursery:
        running = {}
        for node in (1, 2, 3):
            rate = 1 + chance.uniform(-DRIFT, DRIFT)
            running[node] = await world.start(node, settings=lagging(WANTED, chance.choice((0.02, 0.3))), rate=rate)
            nursery.start_soon(_client, running[node], witness, random.Random(chance.random()))
        await trio.sleep(2.0)
        await rollout(running[1]).enable("lease")
        held = 0
        for _ in range(4):
            await trio.sleep(chance.uniform(0.5, 2.0))
            held += sum(lease(each).is_held for each in running.values())
            node = chance.choice((1, 2, 3))
            match chance.choice(("crash", "pause", "release", "switch")):
                case "crash":
                    await running[node].crash(chance)
                    running[node] = await world.start(node, running[node].disk, settings=WANTED)
                    nursery.start_soon(_client, running[node], witness, random.Random(chance.random()))
                case "pause":
                    process = running[node].log.view.environment.clock._process  # type: ignore[attr-defined]
                    process.pause()
                    await trio.sleep(chance.uniform(0.5, 2 * DURATION))
                    process.resume()
                case "release":
                    await lease(running[node]).release()
                case _:
                    await rollout(running[node]).disable("lease")
                    await trio.sleep(chance.uniform(0.0, DURATION))
                    await rollout(running[node]).enable("lease")
        nursery.cancel_scope.cancel()
    assert held, "somebody had the lease now and then"
    assert len(witness.operations) > 50
    witness.check()
