"""One bare loglet in a ZooKeeper: clients that race over it, while the ensemble is gone at times, breaks connections, lags, and
carries requests out late.

Clients may also die. There are no simulated servers: faults are on the way to the ensemble, or in a
client.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.testing.sim.zookeeper import ZooKeeperFaults
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.faults.nemesis import FaultPlan, Nemesis
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.external_services import NO_NODE, ExternalServices
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

RACE_SECONDS: Final = 30.0
LARGE: Final = 0.15
"""Share of the seeds with batches that do not fit into one znode."""
LARGE_BYTES: Final = 1_000_000
CALM_SECONDS: Final = 60.0
LATE: Final = 0.3
"""Share of the seeds in which requests are still on their way when the connection breaks, and
happen long after, while no client seals: a batch offered again meanwhile must not be there
twice."""
_LATE: Final = ZooKeeperFaults(delay_seconds=0.02, breaks=0.3, late=1.0, late_seconds=0.5, commit_seconds=0.001)
_PATIENT: Final = RaceClients(
    appenders=3, batches=30, in_flight=4, sealers=0, observers=1, readers=1, trimmers=2, looks=16, pause_seconds=0.02
)


async def _story(world: World) -> None:
    source = world.random("plan")
    service = ExternalServices(world)
    served = ServedLoglets(world, service.zookeeper_provider)
    served.create(SEGMENT)
    nemesis = Nemesis(world, {}, FaultPlan(active={"crash point": 1.0}))
    nemesis.prepare()
    race = LogletRace(world, partial(served.open, SEGMENT))
    late = source.random() < LATE
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_trouble, world, service, source, _LATE if late else _draw_steady(source))
        with trio.move_on_after(RACE_SECONDS):
            await race.run(_PATIENT if late else _draw_cast(source))
        nursery.cancel_scope.cancel()
    nemesis.crash_points.stop()
    service.stop()
    await race.demand_seal(CALM_SECONDS)
    world.check(*LOGLET_CHECKS)


async def _trouble(world: World, service: ExternalServices, source: random.Random, steady: ZooKeeperFaults) -> None:
    """More of it than in a chain: a race takes about a second. What is `steady` is wrong all the time."""
    acts = (service.gone, service.break_off, service.lag)
    service.zookeeper.faults = steady
    while source.random() < 0.8:
        await trio.sleep(source.expovariate(3.0))
        act = source.choice(acts)
        world.fault(f"zookeeper {act.__name__.replace('_', ' ')}")
        await act(NO_NODE, source.expovariate(4.0))
        service.zookeeper.faults = steady


def _draw_steady(source: random.Random) -> ZooKeeperFaults:
    return ZooKeeperFaults(
        delay_seconds=source.choice((0.0005, 0.01)),
        breaks=source.choice((0.0, 0.05, 0.2)),
        late=source.choice((0.0, 1.0)),
        late_seconds=source.choice((0.2, 3.0)),
        lag_seconds=source.choice((0.0, 0.0, 0.02, 0.3)),
        commit_seconds=source.choice((0.001, 0.01)),
    )


def _draw_cast(source: random.Random) -> RaceClients:
    return RaceClients(
        appenders=source.randint(1, 5),
        batches=source.randint(5, 30),
        sealers=source.choice((0, 0, 1, 2)),
        observers=source.randint(0, 3),
        pause_seconds=source.choice((0.001, 0.005, 0.03)),
        in_flight=source.choice((1, 4)),
        entry_bytes=LARGE_BYTES if source.random() < LARGE else 0,
        impatient=source.choice((0.0, 0.1)),
        conditional=source.choice((0.0, 0.1)),
        readers=source.randint(0, 2),
        waiters=source.randint(0, 2),
        trimmers=source.randint(0, 3),
        looks=16,
    )


ZNODES: Final = Scenario(
    name="znodes",
    about="clients race over one loglet in a ZooKeeper that is gone at times, breaks off, lags, and does things late",
    story=_story,
    limit_seconds=300.0,
)
