"""Two ballots of one slot of the MetaStore that cross: the lower one got to one member only, the higher one is on its way
to the two others, and clients read, each by another majority, over slow links.

A reader that takes the first one's value for decided, or a proposer that adopts it although it has
seen the second one, ends with two values (Paxos Made Simple, section 2.2). The proposers are cores
whose messages are delivered by hand.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_metastore.core.rounds import Chosen, Effect, Finish, Send
from virtuallog_simulation.checks.history.register import REGISTER_CHECKS
from virtuallog_simulation.scenarios.register.proposers import MEMBERS, ScriptedProposer, read, serve
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.role import role
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_CALL_SECONDS: Final = 0.2
_SLOW: Final = LinkQuality(tail_probability=0.5, tail_seconds=0.02, reorder=0.2)


async def _story(world: World) -> None:
    source = world.random("plan")
    for node in MEMBERS:
        machine = Machine(world, node, role(world, serve))
        machine.faults.write_seconds = (0.0, source.choice((0.0, 0.01)))
        machine.start()
    await trio.sleep(0.1)
    a, b, c = source.sample(MEMBERS, 3)
    async with world.client(NodeId(1000)) as environment:
        await _propose(world, environment, ScriptedProposer.make(1), promises=[a, b], votes=[a])
        world.network.set_quality(_SLOW)
        async with trio.open_nursery() as nursery:
            votes = [b, c] if source.random() < 0.7 else [source.choice((b, c))]
            higher = partial(_propose, world, environment, ScriptedProposer.make(2), promises=[b, c], votes=votes)
            nursery.start_soon(_later, source, higher)
            for number in range(source.choice((1, 2, 3))):
                look = partial(read, world, NodeId(2001 + number), source.choice((b, c)))
                nursery.start_soon(_later, source, look)
    for number, missed in enumerate(source.sample(MEMBERS, 3)):
        await read(world, NodeId(3001 + number), missed)
    world.check(*REGISTER_CHECKS)


async def _later(source: random.Random, act: Callable[[], Awaitable[object]]) -> None:
    await trio.sleep(source.random() * 0.03)
    await act()


async def _propose(
    world: World,
    environment: Environment,
    candidate: ScriptedProposer,
    promises: Sequence[NodeId],
    votes: Sequence[NodeId],
) -> None:
    """Run phase 1 with some members and phase 2 with others: no other member gets a message."""
    candidate.open(world)
    for phase in (promises, votes):
        started = [effect for effect in candidate.core.start() if isinstance(effect, Send)]
        async with trio.open_nursery() as nursery:
            for node in phase:
                nursery.start_soon(_deliver, world, environment, candidate, started[0], node)


async def _deliver(
    world: World, environment: Environment, candidate: ScriptedProposer, send: Send, node: NodeId
) -> None:
    with suppress(RetryableError):
        answer = await environment.services.call(node, send.request, _CALL_SECONDS)
        effects: list[Effect] = candidate.core.step(node, answer)
        for effect in effects:
            if isinstance(effect, Finish) and isinstance(effect.outcome, Chosen):
                candidate.tell(world, effect.outcome.decision)


CROSSED: Final = Scenario(
    name="crossed",
    about="a value that one acceptor has accepted, another one on its way to the others, and readers in between",
    story=_story,
    limit_seconds=120.0,
)
