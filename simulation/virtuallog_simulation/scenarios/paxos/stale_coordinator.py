"""A deposed coordinator of a paxos loglet that has not heard of it, and its answers that need no
write.

`a` leads, and its links to the other replicas break, in both directions or in one. `b` is elected by the others, and its batches are acknowledged. Then clients
that reach `a` alone ask for what needs no write: the condition of a batch may have failed, or its predecessor may be missing.
What `a` knew before `b` was elected is no answer. In half of the runs an answer to an earlier question of `a` is on its way all the time.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.scenarios.paxos.ensemble import PaxosEnsemble
from virtuallog_simulation.scenarios.paxos.message_loss import append_some
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

DECIDED: Final = "superseded: batches of the rival are acknowledged"
ASKED: Final = "superseded: the former coordinator is asked afterwards"
LOOKED: Final = (DECIDED, ASKED)
_RIVAL_SECONDS: Final = 8.0
_FIRST, _RIVAL = 1, 2


async def _superseded(world: World) -> None:
    source = world.random("plan")
    story = PaxosEnsemble.begin(world, 3)
    a, b, c = source.sample(story.nodes, 3)
    await story.act("first", a, partial(append_some, source, _FIRST, source.randint(1, 3)))
    if source.random() < 0.5:
        await _leave_an_answer_behind(story, source, a, b)
    _break(story, source, a, (b, c))
    tails: list[int] = []
    await story.stand(b)
    await story.act("rival", b, partial(_lead, source, tails), _RIVAL_SECONDS, also=(c,))
    if tails:
        world.counts[DECIDED] += 1
        await _ask(story, source, a, tails[-1])
    world.network.heal()
    world.network.set_quality(LinkQuality())
    await story.finish()


async def _leave_an_answer_behind(story: PaxosEnsemble, source: random.Random, a: NodeId, b: NodeId) -> None:
    """`a` asks whether it leads, and what `b` says takes a second or two to come."""
    story.world.network.link(b, a).quality = LinkQuality(delay_seconds=source.choice((0.8, 1.0, 1.4)))
    await story.act("bidder", a, partial(_bid, source.randbytes(16), LogletOffset(0)))


def _break(story: PaxosEnsemble, source: random.Random, a: NodeId, others: tuple[NodeId, ...]) -> None:
    deaf, mute = source.choice(((True, True), (True, False), (False, True)))
    for node in others:
        story.world.network.link(node, a).blocked = deaf
        story.world.network.link(a, node).blocked = mute


async def _lead(source: random.Random, tails: list[int], loglet: Loglet) -> None:
    await append_some(source, _RIVAL, source.randint(1, 3), loglet)
    tails.append((await loglet.check_tail()).tail)


async def _ask(story: PaxosEnsemble, source: random.Random, a: NodeId, tail: int) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(source.randint(1, 3)):
            expected = LogletOffset(max(0, tail + source.choice((0, 0, 1, SLOT, -SLOT, -2 * SLOT))))
            nursery.start_soon(story.act, "bidder", a, partial(_bid, source.randbytes(16), expected))
            if source.random() < 0.5:
                nursery.start_soon(story.act, "successor", a, partial(_go_on, source.randint(1, 4)))
            story.world.counts[ASKED] += 1
            await trio.sleep(source.random() * 0.1 * number)


async def _bid(session: bytes, expected: LogletOffset, loglet: Loglet) -> None:
    await loglet.append(Batch.build(SessionId(session), 0, [b"bid"]), opens=True, expected_tail=expected)


async def _go_on(sequence: int, loglet: Loglet) -> None:
    """Go on with the session of the rival, in the middle or behind its end."""
    batch = Batch.build(SessionId(bytes([_RIVAL]) * 16), sequence, [b"%d.%d" % (_RIVAL, sequence)])
    await loglet.append(batch, opens=False)


SUPERSEDED: Final = Scenario(
    name="superseded",
    about="a coordinator of a paxos loglet that has been outbid and does not know is asked what needs no write",
    story=_superseded,
    limit_seconds=120.0,
)
