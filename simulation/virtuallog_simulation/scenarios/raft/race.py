"""One bare raft loglet: replicas that crash, and clients that append, conditionally and not, read, wait, trim and seal."""

from __future__ import annotations

from typing import Final

import trio

from virtuallog_simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.loglet.race import RaceClients
from virtuallog_simulation.scenarios.raft.replica_group import CALM_SECONDS, ReplicaGroup
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_PACE: Final = 0.2
"""Pace of the faults: an election takes longer than an append, and several fit into a run."""


async def _raft(world: World) -> None:
    source = world.random("plan")
    group = ReplicaGroup.begin(world, source.choice((3, 3, 5)))
    nemesis = Nemesis(world, group.served.machines, FaultPlan.draw(source, without=LOSING, pace=_PACE))
    nemesis.prepare()
    group.watch.start()
    cast = RaceClients(
        appenders=source.randint(1, 5),
        batches=source.randint(5, 60),
        sealers=source.choice((0, 0, 1, 2)),
        observers=source.randint(0, 2),
        pause_seconds=source.choice((0.001, 0.005, 0.02, 0.1)),
        in_flight=source.choice((1, 1, 4)),
        conditional=source.choice((0.0, 0.1)),
        impatient=source.choice((0.0, 0.1)),
        readers=source.randint(0, 1),
        waiters=source.randint(0, 1),
        trimmers=source.randint(0, 1),
        entry_bytes=source.choice((0, 0, 700)),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        with trio.move_on_after(CALM_SECONDS):
            await group.race.run(cast)
        nursery.cancel_scope.cancel()
    nemesis.stop(dead_max=group.minority)
    await group.finish()


RAFT: Final = Scenario(
    name="raft",
    about="clients race over one raft loglet whose replicas crash",
    story=_raft,
    limit_seconds=400.0,
)
