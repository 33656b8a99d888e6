"""A replica promises a number to one coordinator, loses its store, recovers, and is asked for the same number by another one.

    short   three replicas; the forgetful one is the only one that reaches both others. It recovers from both, and must know by then what
            it had promised before: no other coordinator may have the number
    long    five replicas; its promise is still on its way when it votes again, and so is the question to the one who could have told
            it: a coordinator that counts that promise hears from another replica that the store is gone

Reachability is staged, times are drawn (specs: Mesos, section 0, schedule 2 and fix b).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.paxos.drivers.store_incarnation import STORE
from virtuallog_simulation.scenarios.paxos.ensemble import PaxosEnsemble
from virtuallog_simulation.scenarios.paxos.message_loss import append_some
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

RECOVERED_SECONDS: Final = 5.0


async def _forgetful(world: World) -> None:
    source = world.random("plan")
    long = source.random() < 0.7
    story = PaxosEnsemble.begin(world, 5 if long else 3)
    await trio.sleep(0.1)
    await (_long if long else _short)(story, source, source.sample(story.nodes, len(story.nodes)))
    world.network.heal()
    world.network.set_quality(LinkQuality())
    await story.finish()


async def _short(story: PaxosEnsemble, source: random.Random, nodes: Sequence[NodeId]) -> None:
    one, two, forgetful = nodes
    story.cut(one, [two])
    await story.stand(two)
    await trio.sleep(source.random() * 0.05)
    await _forget(story, forgetful, source)
    await _race(story, source, one, two)


async def _long(story: PaxosEnsemble, source: random.Random, nodes: Sequence[NodeId]) -> None:
    one, two, forgetful, late, other = nodes
    link = story.world.network.link
    story.cut(two, [one, other])
    link(one, late).blocked = link(late, one).blocked = True
    slow = LinkQuality(tail_probability=1.0, tail_seconds=source.choice((0.02, 0.1)))
    link(two, late).quality = link(forgetful, two).quality = slow
    await story.stand(two)
    await trio.sleep(0.001 + source.random() * 0.002)
    link(two, forgetful).blocked = True
    await _forget(story, forgetful, source)
    await _race(story, source, one, two)


async def _forget(story: PaxosEnsemble, node: NodeId, source: random.Random) -> None:
    """Let the replica lose its store, until it votes again, if it can."""
    machine = story.served.machines[node]
    machine.crash(power=source.random() < 0.5)
    machine.lose(STORE)
    machine.start()
    with trio.move_on_after(RECOVERED_SECONDS):
        await story.race.look()
        while story.watch.ledger.recovering:
            await trio.sleep(0.001)


async def _race(story: PaxosEnsemble, source: random.Random, *nodes: NodeId) -> None:
    async with trio.open_nursery() as nursery:
        for session, node in enumerate(nodes, 1):
            offer = partial(append_some, source, session, 2)
            nursery.start_soon(story.act, "rival", node, offer)


FORGETFUL: Final = Scenario(
    name="forgetful",
    about="a replica of a paxos loglet loses its store between two promises of the same number",
    story=_forgetful,
    limit_seconds=200.0,
)
