"""Replicas of a paxos loglet lose their stores under load, one minority after the other, and must vote again by themselves.

Half of the runs are *bridged*: the replicas on two sides reach each other only through one, and that is the one which
forgets. Both sides have clients, so each elects its coordinator with the help of the forgetful one; what it had promised to
one side before it forgot, it must not promise to the other (specs: Mesos, section 0, schedules 1 and 2).

A majority always has its store: a replica is lost only when all others vote.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import trio

from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.paxos.drivers.store_incarnation import STORE
from virtuallog_simulation.scenarios.loglet.race import RaceClients
from virtuallog_simulation.scenarios.paxos.ensemble import PaxosEnsemble, pin
from virtuallog_simulation.scenarios.paxos.race import RACE_SECONDS
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

VOTING_SECONDS: Final = 30.0
"""A replica that lost its store votes again within this time: it asks every second at most, and copies some dozen positions."""
_FIRST_APPENDER: Final = 1001


async def _amnesia(world: World) -> None:
    source = world.random("plan")
    story = PaxosEnsemble.begin(world, source.choice((3, 3, 5)))
    bridged = source.random() < 0.5
    world.network.set_quality(_draw_quality(source))
    for machine in story.served.machines.values():
        machine.faults.write_seconds = (0.0, source.choice((0.0, 0.005, 0.02)))
    cast = RaceClients(
        appenders=source.randint(2, 4), batches=source.randint(10, 60), in_flight=source.choice((1, 4)), observers=1,
        sealers=source.choice((0, 0, 1)), readers=1, trimmers=source.choice((0, 1)), pause_seconds=source.choice((0.02, 0.1)),
    )  # fmt: skip
    forgetful = [source.choice(story.nodes)] if bridged else story.nodes
    if bridged:
        _split(story, cast, forgetful[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_forget, story, source, forgetful)
        if source.random() < 0.7:
            nursery.start_soon(
                story.agitate, world.random("agitator"), source.choice((0.05, 0.3, 1.5)), len(story.nodes)
            )
        with trio.move_on_after(RACE_SECONDS):
            await story.race.run(cast)
        nursery.cancel_scope.cancel()
    _restore(story)
    if await _all_vote(story):
        await story.finish()


def _draw_quality(source: random.Random) -> LinkQuality:
    return LinkQuality(
        tail_probability=source.choice((0.05, 0.3)),
        tail_seconds=source.choice((0.02, 0.3, 1.0)),
        loss=source.choice((0.0, 0.02)),
        duplicate=source.choice((0.0, 0.1)),
        reorder=source.choice((0.0, 0.3)),
    )


def _split(story: PaxosEnsemble, cast: RaceClients, bridge: NodeId) -> None:
    """Two sides, which only this replica reaches both; each appender reaches one replica of a side."""
    others = [node for node in story.nodes if node != bridge]
    half = len(others) // 2
    for node in others[:half]:
        story.cut(node, others[half:])
    for place in range(cast.appenders):
        pin(story, NodeId(_FIRST_APPENDER + place), others[place % len(others)])


async def _forget(story: PaxosEnsemble, source: random.Random, forgetful: Sequence[NodeId]) -> None:
    """Again and again, for ever, once a replica has anything to lose."""
    while not story.watch.ledger.members:
        await trio.sleep(0.05)
    while True:
        await trio.sleep(source.expovariate(1.0 / source.choice((0.1, 0.5, 2.0))))
        count = source.randint(1, min(story.minority, len(forgetful)))
        for node in source.sample(forgetful, count):
            machine = story.served.machines[node]
            machine.crash(power=source.random() < 0.5)
            if machine.lose(STORE):
                story.world.fault("lost store", str(node))
            await trio.sleep(source.random() * source.choice((0.0, 0.3)))
            machine.start()
        while story.watch.ledger.recovering:
            await trio.sleep(0.05)


def _restore(story: PaxosEnsemble) -> None:
    world = story.world
    world.network.heal()
    world.network.set_quality(LinkQuality())
    for machine in story.served.machines.values():
        machine.faults.write_seconds = (0.0, 0.0005)
        if not machine.running:
            machine.start()


async def _all_vote(story: PaxosEnsemble) -> bool:
    world, began = story.world, story.world.now()
    with trio.move_on_after(VOTING_SECONDS) as limit:
        while story.watch.ledger.recovering:
            await story.race.look()  # a replica is made at the first request for it
            await trio.sleep(0.05)
    world.demanded("all replicas vote", world.now() - began)
    if limit.cancelled_caught:
        message = f"a replica that lost its store does not vote again within {VOTING_SECONDS:g} s"
        world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))
    return not limit.cancelled_caught


AMNESIA: Final = Scenario(
    name="amnesia",
    about="replicas of a paxos loglet lose their stores under load, and recover while coordinators race",
    story=_amnesia,
    limit_seconds=400.0,
)
