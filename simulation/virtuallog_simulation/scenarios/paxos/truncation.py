"""A coordinator of a paxos loglet on a replica that missed batches until they were dropped, and the sessions of these batches.

    away    one replica is cut off or down
    trim    clients append in sessions at another replica, and the log is trimmed to its tail, or nearly so
    lead    this coordinator dies or is cut off, and the first replica comes back and leads; it knows what it
            missed from the TRUNCATE alone
    go on   the same sessions append there, and offer batches again: each is answered in time, and has one place

There are one to three such rounds; the replicas of each are drawn anew. So a TRUNCATE also carries what an earlier one has
carried. Some clients leave while a batch is under way, which the next one offers again. Replicas restart in between.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import ReconfigurationNeededError, RetryableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.checks.state.paxos_ledger import TOMBSTONES
from virtuallog_simulation.scenarios.paxos.ensemble import APPEND_SECONDS, PaxosEnsemble
from virtuallog_simulation.scenarios.paxos.race import FOUNDING_SECONDS
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

LED: Final = "truncated: a replica leads that missed batches until they were dropped"
AGAIN: Final = "truncated: an answered batch is offered to it again"
LOOKED: Final = (LED, AGAIN)
_APPEND_SECONDS: Final = 5.0
"""Seconds after which a client leaves while a replica is away; an election fits in."""
_TRIM_SECONDS: Final = 6.0
"""Seconds of one trim, with the election before it."""
_IMPATIENT: Final = 0.2
"""Share of the clients that leave while a batch is under way."""
_RESTART: Final = 0.3
"""Probability that a replica restarts, wherever one may."""


@attrs.define(eq=False)
class _Session:
    """Batches of one session, one after the other, offered by many clients in turn."""

    name: SessionId
    source: random.Random
    batches: list[Batch] = attrs.field(factory=list)
    answered: int = 0
    """Number of batches that have a place, as far as any client has heard."""

    async def go_on(self, count: int, loglet: Loglet) -> None:
        """Offer the batch that has no answer, if there is one, then so many new ones."""
        for _ in range(count):
            first = self.batches[-1].stop_sequence if self.batches else 0
            entries = [b"%d" % (first + place) for place in range(self.source.randint(1, 3))]
            self.batches.append(Batch.build(self.name, first, entries))
        while self.answered < len(self.batches):
            await trio.sleep(self.source.random() * self.source.choice((0.0, 0.02)))
            await _offer(self.batches[self.answered], loglet)
            self.answered += 1

    async def repeat(self, loglet: Loglet) -> None:
        """Offer an answered batch again. Its place may be forgotten, unless no later batch of the session was offered."""
        place = self.source.choice((0, self.answered - 1, self.source.randrange(self.answered)))
        try:
            await _offer(self.batches[place], loglet)
        except ReconfigurationNeededError:
            if place == len(self.batches) - 1:
                raise


async def _offer(batch: Batch, loglet: Loglet) -> None:
    """Offer a batch until it has a place.

    Raises:
        ReconfigurationNeededError: it has one, which is forgotten.
    """
    while True:
        try:
            await loglet.append(batch, opens=batch.first_sequence == 0)
        except ReconfigurationNeededError:
            raise
        except RetryableError:
            await trio.sleep(0.05)
            continue
        return


async def _truncated(world: World) -> None:
    source = world.random("plan")
    story = PaxosEnsemble.begin(world, 3)
    world.network.set_quality(LinkQuality(duplicate=source.choice((0.0, 0.1)), reorder=source.choice((0.0, 0.2))))
    sessions = [
        _Session(SessionId(bytes([number]) * 16), world.random(f"session {number}"))
        for number in range(1, source.randint(3, 6))
    ]
    await trio.sleep(FOUNDING_SECONDS)
    await _append(story, source, sessions, source.choice(story.nodes))
    for _ in range(source.randint(1, 3)):
        if not await _play_round(story, source, sessions):
            break
    await story.finish()


async def _play_round(story: PaxosEnsemble, source: random.Random, sessions: Sequence[_Session]) -> bool:
    """One round; returns False if a session was not answered in time."""
    away, former, third = source.sample(story.nodes, 3)
    machines, counts = story.served.machines, story.world.counts
    missed = counts[TOMBSTONES]
    if source.random() < 0.5:
        story.cut(away, (former, third))
    else:
        machines[away].crash(power=source.random() < 0.5)
    await story.stand(former)
    for _ in range(source.choice((1, 1, 2))):
        await _append(story, source, sessions, former)
        _restart_perhaps(story, source, former, third)
        await story.act("trimmer", former, partial(_trim, source), _TRIM_SECONDS, also=(third,))
    if source.random() < 0.3:
        await _append(story, source, sessions, former)
    _restart_perhaps(story, source, former, third)
    await trio.sleep(source.random() * 0.2)
    await _change_over(story, source, away, former, third)
    for _ in range(2):
        if not await _demand_answers(story, source, sessions, away):
            return False
        _restart_perhaps(story, source, away, third)
    counts[LED] += counts[TOMBSTONES] > missed
    story.world.network.heal()
    for machine in machines.values():
        if not machine.running:
            machine.start()
    return True


async def _append(story: PaxosEnsemble, source: random.Random, sessions: Sequence[_Session], leader: NodeId) -> None:
    """Append in all sessions at once, as far as their clients get."""
    async with trio.open_nursery() as nursery:
        for session in sessions:
            act = partial(session.go_on, source.randint(0, 3))
            seconds = source.random() * 0.05 if source.random() < _IMPATIENT else _APPEND_SECONDS
            nursery.start_soon(story.act, "appender", leader, act, seconds)


async def _trim(source: random.Random, loglet: Loglet) -> None:
    """Trim to the tail, to a place shortly before it, or to any place."""
    while True:
        try:
            tail = (await loglet.check_tail()).tail
            behind = source.choice((0, 0, 0, 1, SLOT, 2 * SLOT, source.randint(0, tail)))
            await loglet.prefix_trim(LogletOffset(max(0, tail - behind)))
        except RetryableError:
            await trio.sleep(0.05)
            continue
        return


async def _change_over(
    story: PaxosEnsemble, source: random.Random, away: NodeId, former: NodeId, third: NodeId
) -> None:
    """Take the coordinator away and bring the replica back, in an order that is drawn."""
    world, machine = story.world, story.served.machines[away]

    def come_back() -> None:
        world.network.heal()
        if not machine.running:
            machine.start()

    if source.random() < 0.3:
        come_back()
        await trio.sleep(source.random() * 0.3)
    is_cut = source.random() < 0.5
    if not is_cut:
        story.served.machines[former].crash(power=source.random() < 0.5)
    come_back()
    if is_cut:
        story.cut(former, (away, third))
    if source.random() < 0.5:
        await story.stand(away)


async def _demand_answers(
    story: PaxosEnsemble, source: random.Random, sessions: Sequence[_Session], leader: NodeId
) -> bool:
    """Demand that all sessions go on at this replica, and are answered in time. Returns False if one was not."""
    world, began = story.world, story.world.now()
    answered: list[_Session] = []

    async def go_on(session: _Session, count: int, turns: Sequence[bool], loglet: Loglet) -> None:
        for is_new in turns:
            if is_new:
                await session.go_on(count, loglet)
            elif session.answered:
                world.counts[AGAIN] += 1
                await session.repeat(loglet)
        answered.append(session)

    async with trio.open_nursery() as nursery:
        for session in sessions:
            turns = source.choice(((True,), (True, False), (False, True), (False,)))
            act = partial(go_on, session, source.randint(1, 2), turns)
            nursery.start_soon(story.act, "appender", leader, act, APPEND_SECONDS)
    world.demanded("answers to all sessions", world.now() - began)
    if len(answered) < len(sessions):
        message = f"{len(sessions) - len(answered)} sessions were not answered within {APPEND_SECONDS:g} s"
        world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))
    return len(answered) == len(sessions)


def _restart_perhaps(story: PaxosEnsemble, source: random.Random, *nodes: NodeId) -> None:
    """Restart one of these replicas, or none."""
    machine = story.served.machines[source.choice(nodes)]
    if source.random() < _RESTART:
        machine.crash(power=source.random() < 0.5)
        machine.start()


TRUNCATED: Final = Scenario(
    name="truncated",
    about="a replica of a paxos loglet misses batches until they are trimmed, then leads, and their sessions go on",
    story=_truncated,
    limit_seconds=400.0,
)
