"""One bare paxos loglet: replicas on machines, any of which may lead, and clients that race over it.

`paxos` is the loglet under load and faults. In `duel` there are no faults but a bad network: each
appender reaches one replica only, and replicas are made to stand for election at the same moment,
so coordinators depose each other all the time.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.loglet.race import RaceClients
from virtuallog_simulation.scenarios.paxos.ensemble import CALM_SECONDS, PaxosEnsemble, pin
from virtuallog_simulation.scenarios.paxos.message_loss import append_some
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_PACE: Final = 0.2
"""Pace of the faults: an election takes longer than an append, and several fit into a run."""
FOUNDING_SECONDS: Final = 0.1
"""A store that is not founded when its node dies for the first time counts as lost, as far as the node can know."""
RACE_SECONDS: Final = 15.0
"""Seconds of a race: a coordinator that is deposed again and again may not get far."""
_FIRST_APPENDER: Final = 1001
_AWAY: Final = 0.4
"""Share of the runs in which a replica misses a trim in the end."""
_TRIM_SECONDS: Final = 10.0


async def _paxos(world: World) -> None:
    source = world.random("plan")
    story = PaxosEnsemble.begin(world, source.choice((3, 3, 5)))
    await trio.sleep(FOUNDING_SECONDS)
    nemesis = Nemesis(world, story.served.machines, FaultPlan.draw(source, without=LOSING, pace=_PACE))
    nemesis.prepare()
    cast = _draw_cast(source)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        with trio.move_on_after(CALM_SECONDS):
            await story.race.run(cast)
        nursery.cancel_scope.cancel()
    nemesis.stop(dead_max=story.minority)
    away = world.random("away")
    if away.random() < _AWAY:
        await _trim_without(story, away)
    await story.finish()


async def _trim_without(story: PaxosEnsemble, source: random.Random) -> None:
    """Trim while a replica is away. It comes back after batches are decided and trimmed, and stands
    for election: it must learn that they are gone."""
    machines = story.served.machines
    dead = [node for node, machine in machines.items() if not machine.running]
    away = source.choice(dead or story.nodes)
    if not dead:
        machines[away].crash(power=source.random() < 0.5)
    others = [node for node in story.nodes if machines[node].running]
    count = source.randint(2, 6)
    await story.act("writer", others[0], partial(_append_and_trim, source, count), _TRIM_SECONDS, also=others[1:])
    machines[away].start()
    await trio.sleep(source.random() * 0.5)
    await story.stand(away)


async def _append_and_trim(source: random.Random, count: int, loglet: Loglet) -> None:
    await append_some(source, 9, count, loglet)
    await loglet.prefix_trim(LogletOffset((await loglet.check_tail()).tail - source.choice((0, 0, 1))))


def _draw_cast(source: random.Random) -> RaceClients:
    return RaceClients(
        appenders=source.randint(1, 5),
        batches=source.randint(5, 40),
        sealers=source.choice((0, 0, 1, 2)),
        observers=source.randint(0, 2),
        pause_seconds=source.choice((0.001, 0.005, 0.02)),
        in_flight=source.choice((1, 1, 4)),
        conditional=source.choice((0.0, 0.1)),
        impatient=source.choice((0.0, 0.1)),
        readers=source.randint(0, 1),
        waiters=source.randint(0, 1),
        trimmers=source.randint(0, 1),
    )


async def _duel(world: World) -> None:
    source = world.random("plan")
    replicas = source.choice((3, 5))
    story = PaxosEnsemble.begin(world, replicas)
    world.network.set_quality(
        LinkQuality(
            tail_probability=source.choice((0.05, 0.3)),
            tail_seconds=source.choice((0.02, 0.2)),
            loss=source.choice((0.0, 0.02)),
            duplicate=source.choice((0.0, 0.1)),
            reorder=source.choice((0.0, 0.3)),
        )
    )
    for machine in story.served.machines.values():
        machine.faults.write_seconds = (0.0, source.choice((0.0, 0.005)))
    cast = RaceClients(
        appenders=source.randint(2, replicas), batches=8, in_flight=source.choice((1, 4)), observers=1, looks=4,
        sealers=source.choice((0, 1)), readers=1, trimmers=source.choice((0, 1)), pause_seconds=0.05,
        conditional=world.random("bidders").choice((0.0, 0.5)),
    )  # fmt: skip
    for place in range(cast.appenders):
        pin(story, NodeId(_FIRST_APPENDER + place), story.nodes[place])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.agitate, world.random("agitator"), source.choice((0.05, 0.3, 1.5)), replicas)
        with trio.move_on_after(RACE_SECONDS):
            await story.race.run(cast)
        nursery.cancel_scope.cancel()
    world.network.heal()
    world.network.set_quality(LinkQuality())
    await story.finish()


PAXOS: Final = Scenario(
    name="paxos",
    about="clients race over one paxos loglet whose replicas crash",
    story=_paxos,
    limit_seconds=400.0,
)
DUEL: Final = Scenario(
    name="duel",
    about="several coordinators of a paxos loglet insist on leading, over a bad network",
    story=_duel,
    limit_seconds=400.0,
)
