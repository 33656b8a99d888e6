"""A lease whose holder is cut off, slow to hear, paused or suspended, with clocks at the limits of the drift that the lease allows.

Programs beside all replicas read linearizably all the time, the holder's under its lease. Clients of the two other servers write. So
each episode is a race: the holder must stop relying on the lease before the others complete a write without it. The drift, the holder,
the episodes and their lengths are drawn. (SOSP'21, section 4.)
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_database.engines.lease import LeaseEngine
from virtuallog_database.tree.commands import Create, SetData
from virtuallog_simulation.scenarios.database.lag import CAUGHT_UP
from virtuallog_simulation.scenarios.database.servers import LEASE_SECONDS, OptionalEngines
from virtuallog_simulation.scenarios.database.three_servers import FIRST_CLIENT, NODES, ThreeServers
from virtuallog_simulation.workload.database.embedded_client import READS_OF_A_HOLDER, EmbeddedClientPace
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import ClockErrors, World

DRIFTS: Final = (0.1, 0.3, 0.3)
"""Drift of all clocks, each at one of the limits; the lease knows it."""
PATHS: Final = ("/l", "/m")
MANNER: Final = EmbeddedClientPace(pause_seconds=0.05, patience_seconds=0.4, weights=(1, 0, 0), paths=PATHS)
WRITE_SECONDS: Final = 0.1
TIMEOUT_MS: Final = 10_000
START_SECONDS: Final = 30.0
EPISODES: Final = (1, 2)
ISOLATED_SECONDS: Final = (3.0, 5.0)
DISTURBED_SECONDS: Final = (2.0, 4.0)
LATE_SECONDS: Final = (0.2, 1.2)
"""Delay of what the holder hears, in some episodes."""
SLOW_SECONDS: Final = (0.1, 0.3)
"""Delays at which the holder must still be able to renew its lease."""
LIMITS: Final = 0.7
"""Share of the runs in which the holder's clock is as slow as it may be, and of those in which the others' are as fast."""
BETWEEN_SECONDS: Final = (0.5, 1.5)
"""Enough for a lease."""

UNDER: Final = "leased reads under a lease while its holder was in trouble"
WRITTEN: Final = "leased writes completed while the holder was in trouble"
LOOKED: Final = (UNDER, WRITTEN, CAUGHT_UP)


@attrs.define(eq=False)
class _Run:
    world: World
    source: random.Random
    holder: NodeId
    is_troubled: bool = False
    three: ThreeServers = attrs.field(init=False)

    def count(self, what: str) -> None:
        self.world.counts[f"leased {what}"] += 1
        if self.is_troubled and what == READS_OF_A_HOLDER:
            self.world.counts[UNDER] += 1

    @property
    def is_held(self) -> bool:
        life = self.three.servers.lives.get(self.holder)
        lease = None if life is None else life.replica.stack.find(LeaseEngine)
        return lease is not None and lease.is_held

    async def write(self, number: int, server: NodeId, ready: trio.Event) -> None:
        """Write through this server, again and again."""
        node, written = NodeId(FIRST_CLIENT + number), 0
        async with self.world.client(node):
            client = self.three.client(number, node, timeout_ms=TIMEOUT_MS, only=server)
            while True:
                async with client.connection() as connection:
                    for path in PATHS:
                        with suppress(UnavailableError):
                            await connection.ask(Create(path, b""))
                    while connection.is_open:
                        written += 1
                        data = f"{client.name}.{written}".encode()
                        with suppress(UnavailableError):
                            await connection.ask(SetData(self.source.choice(PATHS), data))
                            self.world.counts[WRITTEN] += self.is_troubled
                            ready.set()
                        await trio.sleep(self.source.expovariate(1 / WRITE_SECONDS))

    # -- episodes ---------------------------------------------------------------------------------------------------

    async def isolate(self) -> None:
        """The holder hears nothing and says nothing to other nodes."""
        with self.three.isolated(self.holder):
            await trio.sleep(self.source.uniform(*ISOLATED_SECONDS))

    async def delay(self) -> None:
        """Delay all messages to the holder; its own messages are not delayed."""
        late, until = self.source.uniform(*LATE_SECONDS), self.world.now() + self.source.uniform(*DISTURBED_SECONDS)
        links = [self.world.network.link(node, self.holder) for node in NODES if node != self.holder]
        former = [link.quality for link in links]
        for link in links:
            link.quality = attrs.evolve(link.quality, delay_seconds=late)
        await trio.sleep(until - self.world.now())
        if self.source.random() < 0.5:
            with self.three.isolated(self.holder):
                await trio.sleep(self.source.uniform(*DISTURBED_SECONDS))
        for link, quality in zip(links, former, strict=True):
            link.quality = quality

    async def return_late(self) -> None:
        """Another server comes back, with an old idea of the lease, while the holder hears what is decided a little later."""
        links = [self.world.network.link(node, self.holder) for node in NODES if node != self.holder]
        former, late = [link.quality for link in links], self.source.uniform(*SLOW_SECONDS)
        other = self.source.choice([node for node in NODES if node != self.holder])
        with self.three.isolated(other):
            await trio.sleep(self.source.uniform(*DISTURBED_SECONDS))
            for link in links:
                link.quality = attrs.evolve(link.quality, delay_seconds=late)
            await trio.sleep(0.5)
        await trio.sleep(LEASE_SECONDS)
        for link, quality in zip(links, former, strict=True):
            link.quality = quality

    async def pause(self) -> None:
        """Pause the holder's process; its clocks go on."""
        machine = self.three.machine(self.holder)
        machine.pause()
        await trio.sleep(self.source.uniform(*DISTURBED_SECONDS))
        machine.resume()
        await trio.sleep(0.2)

    async def suspend(self) -> None:
        """The holder's machine is suspended: the monotonic clock misses the time, the wall clock does not."""
        machine = self.three.machine(self.holder)
        machine.pause()
        seconds = self.source.uniform(*DISTURBED_SECONDS)
        await trio.sleep(seconds)
        machine.clock.suspended_seconds += seconds * machine.clock.rate
        with self.three.isolated(self.holder):
            machine.resume()
            await trio.sleep(0.5)

    async def set_back(self) -> None:
        """The holder's wall clock is set back, and then it is cut off."""
        self.three.machine(self.holder).clock.wall_offset_seconds -= self.source.uniform(1.0, 3600.0)
        await self.isolate()


_EPISODES: Final[Sequence[tuple[float, Callable[[_Run], Awaitable[None]]]]] = (
    (3, _Run.isolate),
    (3, _Run.delay),
    (2, _Run.return_late),
    (1, _Run.pause),
    (1, _Run.suspend),
    (1, _Run.set_back),
)


async def _story(world: World) -> None:
    source = world.random("plan")
    run = _Run(world, source, source.choice(NODES))
    drift = source.choice(DRIFTS)
    world.clock_errors = ClockErrors(drift=drift)
    engines = OptionalEngines((LeaseEngine.name,), frozenset({run.holder}), drift)
    run.three = ThreeServers.begin(world, engines, run.count, manner=MANNER)
    _set_clocks(run, drift)
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        for number, server in enumerate((node for node in NODES if node != run.holder), 1):
            nursery.start_soon(run.write, number, server, ready)
        with trio.move_on_after(START_SECONDS) as scope:
            await ready.wait()
            while not run.is_held:
                await trio.sleep(0.05)
        if scope.cancelled_caught:
            message = f"no lease and no write within {START_SECONDS:g} s of the first start"
            world.violations.append(Violation("progress", message))
        else:
            await _trouble(run)
            await run.three.demand_no_lag()
        nursery.cancel_scope.cancel()
    run.three.judge()


def _set_clocks(run: _Run, drift: float) -> None:
    """Before any time has passed: later a new rate would be a jump."""
    assert not run.world.now()
    if run.source.random() < LIMITS:
        run.three.machine(run.holder).clock.rate = 1.0 - drift
    if run.source.random() < LIMITS:
        for node in NODES:
            if node != run.holder:
                run.three.machine(node).clock.rate = 1.0 + drift


async def _trouble(run: _Run) -> None:
    for _ in range(run.source.randint(*EPISODES)):
        with trio.move_on_after(3 * LEASE_SECONDS):
            while not run.is_held:
                await trio.sleep(0.05)
        weights, acts = zip(*_EPISODES, strict=True)
        run.is_troubled = True
        await run.source.choices(acts, weights)[0](run)
        run.is_troubled = False
        await trio.sleep(run.source.uniform(*BETWEEN_SECONDS))


LEASED: Final = Scenario(
    name="leased",
    about="a lease whose holder is cut off, slow to hear, paused or suspended, while others write and all read",
    story=_story,
    limit_seconds=200.0,
)
