"""One slot of the MetaStore, message by message: proposers whose messages arrive in any order, or
never, while acceptors lose their power between any two of them; clients read, each by another
majority.

The proposers are the product's cores and the acceptors its services; only the post is the story's own. So a few dozen
steps get into corners of Paxos (Paxos Made Simple, section 2.2) that a network with timeouts hardly ever finds: a
lower ballot that comes back after a crash, a value accepted by one member only, two of them at different ballots.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Environment, Request
from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.rounds import Chosen, Effect, Finish, Send
from virtuallog_simulation.checks.history.register import REGISTER_CHECKS
from virtuallog_simulation.scenarios.register.proposers import MEMBERS, ScriptedProposer, read, serve
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.role import role
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_CANDIDATES: Final = 5
_STEPS: Final = 45
"""Nearly all letters of all candidates: a phase 1 and a phase 2 to three members each."""
_READERS: Final = 4
CALL_SECONDS: Final = 0.2


async def _story(world: World) -> None:
    source = world.random("plan")
    machines = [Machine(world, node, role(world, serve)) for node in MEMBERS]
    for machine in machines:
        machine.faults.write_seconds = (0.0, source.choice((0.0, 0.01)))
        machine.start()
    await trio.sleep(0.1)
    loss, crashes = source.choice((0.0, 0.1, 0.3)), source.choice((0.0, 0.1, 0.3))
    reads = source.choice((0.0, 0.0, 0.1))  # a read decides the slot, and then it is quiet
    async with trio.open_nursery() as nursery, world.client(NodeId(1000)) as environment:
        post = _Post(world, environment)
        waiting = [ScriptedProposer.make(number) for number in range(1, _CANDIDATES + 1)]
        source.shuffle(waiting)
        if source.random() < 0.5:  # each overtaken by the next
            waiting.sort(key=lambda candidate: candidate.put.attempt, reverse=True)
        for _ in range(_STEPS):
            if waiting and (not post.letters or source.random() < 0.2):
                post.open(waiting.pop())
            await post.deliver(source, loss)
            if source.random() < crashes:
                await _lose_power(source.sample(machines, source.randint(1, 3)))
            if source.random() < reads:
                nursery.start_soon(_read, world, source)
    for _ in range(_READERS):
        await _read(world, source)
    world.check(*REGISTER_CHECKS)


async def _lose_power(machines: list[Machine]) -> None:
    for machine in machines:
        machine.crash()
        machine.start()
    await trio.sleep(0.01)


@attrs.frozen(eq=False)
class _Letter:
    sender: ScriptedProposer
    target: NodeId
    request: Request[Any]


@attrs.define(eq=False)
class _Post:
    """Letters on their way. One is handled at a time, with its answer."""

    world: World
    _environment: Environment
    letters: list[_Letter] = attrs.field(factory=list)
    _finished: set[int] = attrs.field(factory=set)

    def open(self, candidate: ScriptedProposer) -> None:
        candidate.open(self.world)
        self._perform(candidate, candidate.core.start())

    async def deliver(self, source: random.Random, loss: float) -> None:
        """Any letter, often the newest one; it, or the answer, may get lost."""
        if not self.letters:
            return
        letter = self.letters.pop(-1 if source.random() < 0.3 else source.randrange(len(self.letters)))
        fate = source.random()
        if fate < loss / 2 or letter.sender.put.attempt in self._finished:
            return
        with suppress(RetryableError):
            answer = await self._environment.services.call(letter.target, letter.request, CALL_SECONDS)
            if fate >= loss:
                self._perform(letter.sender, letter.sender.core.step(letter.target, answer))

    def _perform(self, candidate: ScriptedProposer, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(nodes, request):
                    self.letters += [_Letter(candidate, node, request) for node in nodes]
                case Finish(outcome):
                    self._finished.add(candidate.put.attempt)
                    if isinstance(outcome, Chosen):
                        candidate.tell(self.world, outcome.decision)


async def _read(world: World, source: random.Random) -> None:
    await read(world, NodeId(source.randrange(2000, 1 << 30)), source.choice(MEMBERS))


BALLOTS: Final = Scenario(
    name="ballots",
    about="one slot of the MetaStore letter by letter, in any order, with power losses in between",
    story=_story,
    limit_seconds=120.0,
)
