"""Clients that do to the log what their plan says, while the nemesis does its worst.

A client is a process: it lives for a while, may be killed in the middle of anything, and another
one takes its place. Any act may be cancelled at any await. Lives, pauses and acts are drawn from
sources of their own, named by client and number; so the others are the same whatever becomes of one
act, and however few of them a narrowed run keeps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.testing.clauses.cancel_points import cancel_at
from virtuallog.testing.sim.process import executing
from virtuallog_simulation.workload import appends, archives, blocked_readers, chain_changes, followers, reads, trims
from virtuallog_simulation.workload.actor import Actor, Acts, WorkloadContext, choose
from virtuallog_simulation.world.cluster import Client

FIRST_NODE: Final = 2000
"""Number of the first client; each has room for `LIVES_MAX`."""
LIVES_MAX: Final = 100
CANCEL_SECONDS: Final = 0.02
"""Mean: about what an operation takes without faults."""
CANCEL_SUSPENSIONS: Final = 8
"""Mean: a read on a healthy cluster suspends some times, an extend some dozens."""

_ACTS: Final[dict[str, Callable[[WorkloadContext], Acts]]] = {
    "appender": lambda _: appends.ACTS,
    "reader": lambda _: reads.ACTS,
    "tailer": lambda _: followers.ACTS,
    "parker": lambda _: blocked_readers.ACTS,
    "trimmer": lambda _: trims.ACTS,
    "operator": lambda stage: (*chain_changes.acts(stage), *(archives.ACTS if stage.archives is not None else ())),
}


@attrs.define(eq=False)
class PlannedClient:
    """One client of the plan, through all its lives."""

    role: str
    number: int
    """Among those of its role."""
    first_node: int
    acts: int
    """Number of acts."""
    lives: int = 0
    done: int = 0
    """Acts that it has begun."""

    @property
    def name(self) -> str:
        return f"{self.role} {self.number}"

    @property
    def short_name(self) -> str:
        """Short name for payloads: the timeline of a failing seed shows it."""
        return f"{self.role[0]}{self.number}"


async def run(stage: WorkloadContext) -> None:
    """Return when all clients have done their part. Parked readers stay."""
    async with trio.open_nursery() as nursery:
        for part in parts(stage):
            nursery.start_soon(_perform, stage, part)


def parts(stage: WorkloadContext) -> list[PlannedClient]:
    """The clients that the plan asks for."""
    found: list[PlannedClient] = []
    for role in _ACTS:
        for number in range(stage.plan.clients[role]):
            node = FIRST_NODE + LIVES_MAX * len(found)
            found.append(PlannedClient(role, number + 1, node, stage.plan.acts[role]))
    return found


async def _perform(stage: WorkloadContext, part: PlannedClient) -> None:
    """Do all acts, in as many lives as it takes."""
    world, mean = stage.cluster.world, stage.plan.lifetime_seconds
    while part.done < part.acts:
        part.lives += 1
        assert part.lives < LIVES_MAX
        source = world.random(f"life {part.lives} of {part.name}")
        lifetime = None if mean is None else source.expovariate(1.0 / mean)
        node = NodeId(part.first_node + part.lives)
        async with stage.cluster.client(part.role, lifetime, node) as client:
            await _live(stage, part, client)


async def _live(stage: WorkloadContext, part: PlannedClient, client: Client) -> None:
    while part.done < part.acts:
        part.done += 1
        source = stage.cluster.world.random(f"act {part.done} of {part.name}")
        await trio.sleep(source.expovariate(1.0 / stage.plan.pauses[part.role]))
        actor = Actor(stage, client, source, f"{part.short_name}.{part.done}")
        finished = False
        try:
            await _attempt(actor, part.role)
            finished = True
        finally:
            if not finished and _has_died():
                actor.did("die in the middle")


def _has_died() -> bool:
    """True if the client of this task is dead; it may also just be stopped, when the time of the
    workload is over."""
    process = executing()
    return process is not None and not process.alive


async def _attempt(actor: Actor, role: str) -> None:
    """Errors are in the history; cancelled operations too."""
    cancelled = actor.random.random() < actor.stage.plan.cancel
    at_an_await = actor.random.random() < 0.5
    act = partial(choose(actor.random, _ACTS[role](actor.stage)), actor)
    with trio.move_on_after(actor.stage.plan.patience_seconds), suppress(VirtualLogError):
        if not cancelled:
            await act()
        elif at_an_await:
            if await cancel_at(_drawn(actor.random, CANCEL_SUSPENSIONS), act):
                actor.did("be cancelled at an await")
        else:
            with trio.move_on_after(actor.random.expovariate(1.0 / CANCEL_SECONDS)) as scope:
                await act()
            if scope.cancelled_caught:
                actor.did("be cancelled after a while")


def _drawn(source: random.Random, mean: float) -> int:
    return int(source.expovariate(1.0 / mean))
