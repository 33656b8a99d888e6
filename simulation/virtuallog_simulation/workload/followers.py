"""Clients that follow the log: from somewhere on, for a while, then from somewhere else."""

from __future__ import annotations

from typing import Final

import trio

from virtuallog.contract.types import Gap, GapKind, LogPosition
from virtuallog_simulation.workload.actor import Actor, Acts


async def follow(actor: Actor) -> None:
    """Follow the log from a position of interest, for as long as a few acts of others take."""
    with trio.move_on_after(actor.random.expovariate(1.0 / actor.stage.plan.pauses["tailer"])):
        await _follow(actor, LogPosition(actor.position()))


async def follow_from_the_start(actor: Actor) -> None:
    """Through all that has been trimmed."""
    with trio.move_on_after(actor.random.expovariate(1.0 / actor.stage.plan.pauses["tailer"])):
        await _follow(actor, LogPosition(0))


async def _follow(actor: Actor, start: LogPosition) -> None:
    began = (await actor.client.log.view.current()).version
    with actor.following(start):
        async for placed in actor.client.log.reader(start).batches():
            actor.observed(placed)
            actor.did("tail the log")
            if isinstance(placed, Gap) and placed.kind is GapKind.TRIMMED:
                actor.did("tail below the trim point")
            if actor.chain.version > began:
                actor.did("tail across a reconfiguration")


ACTS: Final[Acts] = ((4, follow), (1, follow_from_the_start))
