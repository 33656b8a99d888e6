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
"""Most blocked readers of one run: each receives everything that comes after it."""


@attrs.define(eq=False)
class BlockedReader:
    """A reader that waits for entries which are not there yet."""

    where: str
    position: LogPosition
    """First position not yet read."""
    knows: trio.Event = attrs.field(factory=trio.Event)
    """Set once it has seen the chain."""
    may_read: trio.Event = attrs.field(factory=trio.Event)
    """Set by the act that has parked it."""

    async def run(self, stage: WorkloadContext) -> None:
        """Read for ever, in as many lives as it takes: entries of a log that is closed now may come
        later."""
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
    """Block beyond the tail; the reader may be woken by entries that it must not see."""
    parked = await _park(actor, "park beyond the tail", await actor.check_tail() + actor.random.randint(1, 5))
    actor.did(parked.where)


async def below_the_trim_point(actor: Actor) -> None:
    """Read below the trim point: the reader must get an error, not wait."""
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
    """Block at a sealed loglet without a successor, whose sealer is gone."""
    parked = await _park(actor, "park at a sealed loglet", await actor.check_tail())
    await chain_changes.seal_only(actor)
    actor.did(parked.where)


async def at_a_replaced_loglet(actor: Actor) -> None:
    """Begin to read with a chain in which the segment still has its former loglet."""
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


async def _park(actor: Actor, where: str, position: int, *, reads: bool = True) -> BlockedReader:
    """Return once the reader waits there; without `reads`, once it knows the chain."""
    parked = BlockedReader(where, LogPosition(position))
    actor.stage.parked.append(parked)
    actor.stage.nursery.start_soon(parked.run, actor.stage)
    if reads:
        parked.may_read.set()
    try:
        await parked.knows.wait()
        await trio.sleep(SETTLE_SECONDS)
    except BaseException:  # the client that parked it is gone: no other lets it read
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
