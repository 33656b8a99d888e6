"""The whole stack under random events: equal cursors mean equal states (I8), and nothing needed is
trimmed (I9)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, Replicas, Running, caught_up, replicas
from virtuallog.contract.errors import UnavailableError, UnsupportedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.checksums import ChecksumEngine, ChecksumSettings
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.lease import LeaseSettings
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.stack import LayerT, StackSettings
from virtuallog_database.engines.time_engine import TimeEngine, TimeSettings
from virtuallog_database.engines.view_tracking import ViewSettings, ViewTrackingEngine
from virtuallog_database.testing.memory_store import MemoryDisk, SortedPairs

NODES = (1, 2, 3)
SWITCHED = ("lease", "time", "log_backup")
STEPS = 20
ALL_OF_THEM: StackSettings = attrs.evolve(
    SETTINGS,
    # No replica is ejected here, so every announcement holds for good.
    view=ViewSettings(announce_seconds=0.5, eject_seconds=1000.0),
    checksums=ChecksumSettings(first_seconds=2.0, period_seconds=3.0, pause_seconds=0.001),
    lease=LeaseSettings(wanted=True, duration_seconds=1.0),
    time=TimeSettings(tick_seconds=0.2),
)


@attrs.define
class Story:
    """Three replicas, what happens to them, and what the log must still have."""

    world: Replicas
    chance: random.Random
    running: dict[int, Running] = attrs.field(factory=dict)
    needed: dict[str, int] = attrs.field(factory=dict)
    """By stores and by holds: from where on."""
    number: int = 0

    async def start(self, node: int, disk: MemoryDisk | None = None, store: str = "") -> None:
        rate = 1 + self.chance.uniform(-0.04, 0.04)
        started = await self.world.start(node, disk, settings=ALL_OF_THEM, rate=rate, store=store)
        self.running[node] = started
        self.needed.setdefault(started.replica.identity.name, 0)

    async def write(self, each: Running) -> None:
        for _ in range(self.chance.randint(1, 20)):
            self.number += 1
            command = b"refuse" if self.chance.random() < 0.1 else b"item"
            each.application.engine.propose(Entry(command + b" %d" % self.number), lambda _: None)

    async def snapshot(self, each: Running) -> None:
        cursor = each.replica.cursor
        await each.application.store.flush()
        self.needed[each.replica.identity.name] = cursor
        each.replica.snapshotted(cursor)

    async def crash(self, each: Running) -> None:
        await each.crash(self.chance)
        await trio.sleep(self.chance.uniform(0.0, 2.0))
        await self.start(each.replica.identity.node, each.disk, each.replica.identity.store.decode())

    async def wipe(self, each: Running) -> None:
        """A server gets a new disk, and a copy of another one's store, with a hold meanwhile."""
        node = each.replica.identity.node
        await each.crash(self.chance)
        del self.needed[each.replica.identity.name]
        peer = self.running[node % 3 + 1]
        joiner = f"joiner {self.number}"
        granted = await found(peer, ViewTrackingEngine).hold(joiner, peer.replica.cursor, seconds=60)
        self.needed[joiner] = granted
        copy = MemoryDisk(content=SortedPairs(dict(peer.disk.content.pairs)))
        await trio.sleep(self.chance.uniform(0.0, 2.0))
        await self.start(node, copy, f"{self.number:08d}")
        await self.snapshot(self.running[node])
        await trio.sleep(1.5)  # until it is in the view
        del self.needed[joiner]
        await found(peer, ViewTrackingEngine).release(joiner)

    async def switch(self, each: Running) -> None:
        rollout = found(each, RolloutEngine)
        engine = self.chance.choice(SWITCHED)
        with suppress(UnsupportedError):  # no replica is in the view yet
            await (rollout.disable if rollout.switches().get(engine) else rollout.enable)(engine)

    async def set_timer(self, each: Running) -> None:
        with suppress(UnsupportedError):  # not enabled now
            await found(each, TimeEngine).set(f"note/{self.chance.randint(1, 3)}", self.chance.uniform(0.1, 3.0))

    async def hold(self, each: Running) -> None:
        if "reader" in self.needed:
            del self.needed["reader"]
            await found(each, ViewTrackingEngine).release("reader")
        else:
            self.needed["reader"] = await found(each, ViewTrackingEngine).hold(
                "reader", LogPosition(each.replica.cursor // 2)
            )

    async def step(self) -> None:
        acts: list[Callable[[Running], Awaitable[None]]] = [
            self.write, self.write, self.write, self.snapshot, self.snapshot, self.crash, self.wipe, self.switch,
            self.set_timer, self.hold,
        ]  # fmt: skip
        with suppress(UnavailableError):  # the caller does not know the outcome; the state does
            await self.chance.choice(acts)(self.running[self.chance.choice(NODES)])
        await trio.sleep(self.chance.uniform(0.0, 1.0))
        self.check()

    def check(self) -> None:
        trimmed = max(self.world.provider.trims, default=0)
        assert trimmed <= min(self.needed.values()), f"the log starts at {trimmed}; needed: {self.needed}"
        for each in self.running.values():
            assert each.failure is None, f"{each.replica.identity.name} has stopped: {each.failure!r}"


def found(running: Running, kind: type[LayerT]) -> LayerT:
    layer = running.replica.stack.find(kind)
    assert layer is not None
    return layer


async def same_position(running: list[Running]) -> None:
    """Return when all of them have applied exactly the same."""
    await caught_up(*running)
    for _ in range(1000):
        if len({each.replica.cursor for each in running}) == 1:
            return
        await trio.sleep(0.005)
    raise AssertionError("they are never at the same position")


@pytest.mark.parametrize("seed", range(2))
async def test_equal_cursors_mean_equal_states_and_nothing_that_is_needed_is_trimmed(
    seed: int, autojump_clock: MockClock
) -> None:
    """Crashes, holds, engines that come and go: replicas at the same cursor have the same bytes
    (I8, I9)."""
    async with replicas() as world:
        story = Story(world, random.Random(seed))
        for node in NODES:
            await story.start(node)
        for _ in range(STEPS):
            await story.step()
        running = list(story.running.values())
        for each in running:
            await story.snapshot(each)
        story.needed.pop("reader", None)
        await found(running[0], ViewTrackingEngine).release("reader")
        await trio.sleep(3.0)
        await same_position(running)
        states = [each.disk.content.pairs for each in running]
        assert states[0] == states[1] == states[2]
        assert running[0].application.items, "there was something to compare"
        position = await found(running[0], ChecksumEngine).compare()
        await trio.sleep(3.0)
        assert all(position in found(each, ChecksumEngine)._own for each in running)
        story.check()
        assert max(world.provider.trims, default=0) > 0, "something was trimmed in the end"
