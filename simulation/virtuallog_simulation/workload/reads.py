"""Read acts: up to the tail, ranges, over the edges of segments, in small steps, and cancelled
half-way."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_simulation.workload.actor import READ_BYTES, Actor, Acts

CALLS_MAX: Final = 6
"""Most calls of one act: reading a log byte by byte from its beginning each time would leave no
time for anything else."""


async def up_to_the_tail(actor: Actor) -> None:
    tail = await actor.check_tail()
    await _read(actor, min(actor.position(), tail), tail, actor.random.choice(READ_BYTES))
    actor.did("read up to the tail")


async def somewhere(actor: Actor) -> None:
    """Without asking for the tail first: what is wanted may not be there yet."""
    start = actor.position()
    await _read(actor, start, max(start + 1, actor.position()), actor.random.choice(READ_BYTES))


async def around_a_boundary(actor: Actor) -> None:
    boundary = actor.boundary()
    await _read(actor, max(0, boundary - actor.random.randint(1, 3)), boundary + actor.random.randint(1, 3), 1 << 20)
    actor.did("read around a boundary")


async def in_small_steps(actor: Actor) -> None:
    """One batch per call."""
    start = actor.position()
    await _read(actor, start, start + actor.random.randint(1, 8), 1)
    actor.did("read a byte at a time")


async def over_segments(actor: Actor) -> None:
    """Read from before the oldest remembered boundary to the tail."""
    tail, boundaries = await actor.check_tail(), sorted(actor.stage.boundaries)
    await _read(actor, max(0, min([tail, *boundaries]) - 1), tail, 1 << 20)
    if sum(boundary < tail for boundary in boundaries) >= 3:
        actor.did("read over three segments")


async def trim_point(actor: Actor) -> None:
    await actor.find_trim_point()
    actor.did("find the trim point")


async def leave_and_resume(actor: Actor) -> None:
    """A reader is left after a record or two, if need be in the middle of a batch; another one goes on from there."""
    stop = LogPosition(await actor.check_tail())
    reader = actor.client.log.reader(LogPosition(min(actor.position(), stop)), stop)
    left_after = actor.random.randint(1, 3)
    async with aclosing(aiter(reader)) as found:
        async for record in found:
            actor.observed_record(record)
            left_after -= 1
            if not left_after:
                break
    async for placed in actor.client.log.reader(reader.position, stop).batches():
        actor.observed(placed)
        if placed.start == reader.position and isinstance(placed, PlacedBatch) and placed.first:
            actor.did("leave a reader in a batch")


async def in_pieces(actor: Actor) -> None:
    """Read as a job does: the next piece is on its way while one is processed."""
    tail = await actor.check_tail()
    start = min(actor.position(), tail)
    stop = min(tail, start + actor.random.randint(1, 30))
    if start < stop and await actor.scan(start, stop, actor.random.choice(READ_BYTES)) > 1:
        actor.did("scan in pieces")


async def _read(actor: Actor, start: int, stop: int, max_bytes: int) -> None:
    for _ in range(CALLS_MAX):
        if start >= stop:
            return
        start = await actor.read(start, stop, max_bytes)


ACTS: Final[Acts] = (
    (3, up_to_the_tail),
    (2, somewhere),
    (2, around_a_boundary),
    (1, in_small_steps),
    (1.5, over_segments),
    (0.5, trim_point),
    (1, leave_and_resume),
    (1, in_pieces),
)
