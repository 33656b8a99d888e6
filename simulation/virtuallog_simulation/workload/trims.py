"""Trim acts: at the edges of segments, near the tail and past it, and twice."""

from __future__ import annotations

from typing import Final

from virtuallog_simulation.workload.actor import Actor, Acts


async def at_a_boundary(actor: Actor) -> None:
    await actor.trim(actor.boundary())
    actor.did("trim at a boundary")


async def below_a_boundary(actor: Actor) -> None:
    """A segment of one entry is left."""
    await actor.trim(max(0, actor.boundary() - 1))
    actor.did("trim below a boundary")


async def above_a_boundary(actor: Actor) -> None:
    await actor.trim(actor.boundary() + 1)
    actor.did("trim above a boundary")


async def near_the_tail(actor: Actor) -> None:
    await actor.trim(max(0, actor.stage.tail - actor.random.randint(0, 3)))
    actor.did("trim near the tail")


async def past_the_tail(actor: Actor) -> None:
    """Nothing is left, and nothing that comes later is lost."""
    await actor.trim(await actor.check_tail() + actor.random.randint(1, 5))
    actor.did("trim past the tail")


async def twice(actor: Actor) -> None:
    """The second one asks for the same, or for less."""
    effective = await actor.trim(actor.position())
    await actor.trim(max(0, effective - actor.random.choice((0, 0, 3))))
    actor.did("trim twice")


ACTS: Final[Acts] = (
    (2, at_a_boundary),
    (2, below_a_boundary),
    (2, above_a_boundary),
    (1, near_the_tail),
    (0.7, past_the_tail),
    (1, twice),
)
