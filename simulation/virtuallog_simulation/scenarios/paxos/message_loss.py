"""Replicas of a paxos loglet that lose half of what they say to each other, while two of them lead; then one loses its power.

A promise reaches one replica and the write behind it another one. So a coordinator that does not
know that it has been outbid still writes where another coordinator's value has been accepted, or
hears of decisions about positions where it has another value. Without "accepting raises the
promise", one value is written over the other; then the replica that knew better dies (specs: Mesos,
section 0, schedule 1).
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.scenarios.paxos.ensemble import PaxosEnsemble
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World


async def _outbid(world: World) -> None:
    source = world.random("plan")
    story = PaxosEnsemble.begin(world, 3)
    a, b, c = source.sample(story.nodes, 3)
    await story.act("first", a, partial(append_some, source, 1, 1))
    await (_staged if source.random() < 0.4 else _lossy)(story, source, a, b, c)
    story.served.machines[b].crash(power=source.random() < 0.5)
    world.network.heal()
    world.network.set_quality(LinkQuality())
    await story.act("last", c, partial(append_some, source, 4, 1))
    if source.random() < 0.7:
        story.served.machines[b].start()
    await story.finish()


async def _staged(story: PaxosEnsemble, source: random.Random, a: NodeId, b: NodeId, c: NodeId) -> None:
    """B is elected by c, and written to by a, which leads as well, as far as it knows."""
    link = story.world.network.link
    link(b, a).blocked = True
    await story.stand(b)
    await trio.sleep(source.uniform(0.3, 0.5))  # it waits for the answer of a, too
    link(b, a).blocked, link(b, c).blocked = False, True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(story.act, "rival", b, partial(append_some, source, 2, source.randint(1, 2)))
        await trio.sleep(source.random() * 0.01)
        nursery.start_soon(story.act, "rival", a, partial(append_some, source, 3, source.randint(1, 3)))


async def _lossy(story: PaxosEnsemble, source: random.Random, a: NodeId, b: NodeId, c: NodeId) -> None:
    """Half of what replicas say to each other is lost."""
    world = story.world
    lossy = LinkQuality(
        loss=source.choice((0.2, 0.4, 0.6)), tail_probability=0.2, tail_seconds=source.choice((0.005, 0.1))
    )
    for one, other in ((a, b), (b, c), (c, a)):
        world.network.link(one, other).quality = world.network.link(other, one).quality = lossy
    async with trio.open_nursery() as nursery:
        for session, node in ((2, a), (3, b)):
            nursery.start_soon(
                story.act,
                "rival",
                node,
                partial(append_some, world.random(f"session {session}"), session, source.randint(4, 12)),
            )
        if source.random() < 0.1:
            nursery.start_soon(partial(story.act, "trimmer", c, _trim, also=(a, b)))


async def _trim(loglet: Loglet) -> None:
    await trio.sleep(0.5)
    await loglet.prefix_trim(LogletOffset(1 << 30))


async def append_some(pauses: random.Random, session: int, count: int, loglet: Loglet) -> None:
    """Batches of one entry, with pauses, so that a coordinator may be outbid unawares; a maybe is offered again."""
    for sequence in range(count):
        await trio.sleep(pauses.random() * 0.2 if sequence else 0.0)
        offered = Batch.build(SessionId(bytes([session]) * 16), sequence, [b"%d.%d" % (session, sequence)])
        while True:
            try:
                await loglet.append(offered, opens=sequence == 0)
            except RetryableError:
                await trio.sleep(0.05)
                continue
            break


OUTBID: Final = Scenario(
    name="outbid",
    about="replicas of a paxos loglet lose half of what they say, while two of them lead; then one dies",
    story=_outbid,
    limit_seconds=120.0,
)
