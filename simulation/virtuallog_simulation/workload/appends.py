"""Append acts: one entry, a batch, several at once, in a session of their own, at an expected tail."""

from __future__ import annotations

from typing import Final

import trio

from virtuallog.contract.errors import TailMismatchError, TooLargeError
from virtuallog_simulation.workload.actor import Actor, Acts, attempt


async def one(actor: Actor) -> None:
    await actor.append(size=_size(actor))
    actor.did("append one entry")


async def batch(actor: Actor) -> None:
    await actor.append(actor.random.randint(2, 5), _size(actor))
    actor.did("append a batch")


async def together(actor: Actor) -> None:
    """Calls of one client that are in progress at the same time share batches."""
    async with trio.open_nursery() as nursery:
        for _ in range(actor.random.randint(2, 6)):
            nursery.start_soon(attempt, actor.append(actor.random.choice((1, 1, 2)), _size(actor)))
    actor.did("append beside others")


async def session(actor: Actor) -> None:
    with actor.client.log.appender() as appender:
        for _ in range(actor.random.randint(1, 4)):
            await actor.append(actor.random.choice((1, 3)), _size(actor), appender)
    actor.did("append in a session of its own")


async def conditional(actor: Actor) -> None:
    """Append at the tail of this moment, or behind it or past it, to be refused."""
    aside = actor.random.choice((0, 0, 0, -1, 2))
    expected = max(0, await actor.check_tail() + aside)
    try:
        await actor.append_if_tail(expected)
    except TailMismatchError:
        actor.did("miss the expected tail")
    else:
        actor.did("append at the expected tail")


async def race(actor: Actor) -> None:
    """Several for one place: one of them at most gets it."""
    expected = await actor.check_tail()
    async with trio.open_nursery() as nursery:
        for _ in range(actor.random.randint(2, 3)):
            nursery.start_soon(attempt, actor.append_if_tail(expected))
    actor.did("race for the expected tail")


async def too_large(actor: Actor) -> None:
    """An entry that no loglet may ever hear of, alone or in the middle of a batch."""
    too_many = actor.stage.cluster.settings.appender.entry_bytes_max + 1
    try:
        await actor.append(actor.random.choice((1, 3)), too_many)
    except TooLargeError:
        actor.did("append more than fits")


def _size(actor: Actor) -> int:
    return actor.random.choice((0, 0, 10, 1000))


ACTS: Final[Acts] = (
    (6, one),
    (2, batch),
    (2, together),
    (1.5, session),
    (1, conditional),
    (0.5, race),
    (0.2, too_large),
)
