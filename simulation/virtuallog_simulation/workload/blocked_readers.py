"""Readers that are parked where a reader could get stuck, and what then happens there.

A parked reader is a client of its own that lives until the end of the run: by then it must have got as far as the tail
(the judge asks). What it knows of the chain is from before the boundary changed, where that is the danger.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog_simulation.workload import chain_changes
from virtuallog_simulation.workload.actor import Actor, Acts, WorkloadContext, choose

SETTLE_SECONDS: Final = 0.05
"""A reader that has seen nothing new for so long, on a network without faults, is waiting."""
RETRY_SECONDS: Final = 0.5
PARKED_MAX: Final = 4
"""Of one run: each of them is handed everything that comes after it."""


@attrs.define(eq=False)
class ParkedReader:
    """One of them."""

    where: str
    position: LogPosition
    """How far it has got."""
    knows: trio.Event = attrs.field(factory=trio.Event)
    """Set once it has seen the chain."""
    may_read: trio.Event = attrs.field(factory=trio.Event)
    """To be set by whoever parked it."""

    async def run(self, stage: WorkloadContext) -> None:
        """For ever, in as many lives as it takes: what is not to be had now, such as a log that is closed, may come."""
        while True:
            async with stage.cluster.client("parked") as client:
                with suppress(VirtualLogError):
                    await self._read(Actor(stage, client, client.random, client.name))
            await trio.sleep(RETRY_SECONDS)

    async def _read(self, actor: Actor) -> None:
        log = actor.client.log
        await log.view.current()
        self.knows.set()
        await self.may_read.wait()
        with actor.following(self.position):
            async for placed in log.reader(self.position).batches():
                actor.observed(placed)
                self.position = LogPosition(placed.stop)


async def at_the_tail(actor: Actor) -> None:
    parked = await _park(actor, "park at the tail", await actor.check_tail())
    actor.did(parked.where)


async def beyond_the_tail(actor: Actor) -> None:
    """It may be woken by what it must not be shown."""
    parked = await _park(actor, "park beyond the tail", await actor.check_tail() + actor.random.randint(1, 5))
    actor.did(parked.where)


async def below_the_trim_point(actor: Actor) -> None:
    """What it waits for is gone: it must be told, not left waiting."""
    effective = await actor.trim(actor.position())
    if effective > 0:
        parked = await _park(actor, "park below the trim point", actor.random.randrange(effective))
        actor.did(parked.where)


async def at_an_empty_segment(actor: Actor) -> None:
    """The segment that it waits in leaves the chain without ever having held anything."""
    start = (await chain_changes.extend(actor)).chain.last.start
    parked = await _park(actor, "park at an empty segment", start)
    if (await chain_changes.extend(actor)).chain.last.start == start:
        actor.did(parked.where)


async def at_a_sealed_loglet(actor: Actor) -> None:
    """No successor is in sight, and whoever sealed it is gone."""
    parked = await _park(actor, "park at a sealed loglet", await actor.check_tail())
    await chain_changes.seal_only(actor)
    actor.did(parked.where)


async def at_a_replaced_loglet(actor: Actor) -> None:
    """It begins to read with a chain in which the segment still has its former loglet."""
    segment = await chain_changes.closed_segment(actor)
    if segment is None or actor.stage.copies is None:
        return
    parked = await _park(actor, "park at a replaced loglet", segment.start, reads=False)
    try:
        if await chain_changes.copy_segment(actor, segment):
            actor.did(parked.where)
    finally:
        parked.may_read.set()


async def park(actor: Actor) -> None:
    if len(actor.stage.parked) < PARKED_MAX:
        await choose(actor.random, KINDS)(actor)


async def _park(actor: Actor, where: str, position: int, *, reads: bool = True) -> ParkedReader:
    """Return once the reader waits there; without `reads`, once it knows the chain."""
    parked = ParkedReader(where, LogPosition(position))
    actor.stage.parked.append(parked)
    actor.stage.nursery.start_soon(parked.run, actor.stage)
    if reads:
        parked.may_read.set()
    try:
        await parked.knows.wait()
        await trio.sleep(SETTLE_SECONDS)
    except BaseException:  # whoever parks it is gone: nobody else lets it read
        parked.may_read.set()
        raise
    return parked


KINDS: Final[Acts] = (
    (1, at_the_tail),
    (1, beyond_the_tail),
    (1, below_the_trim_point),
    (1, at_an_empty_segment),
    (1, at_a_sealed_loglet),
    (1, at_a_replaced_loglet),
)
ACTS: Final[Acts] = ((1, park),)
