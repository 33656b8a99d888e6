"""Acts of the clients of a race over one loglet. They record nothing and judge nothing; errors end
a turn, or a part."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import RetryableError, TailMismatchError, VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, Sealed
from virtuallog.exactly_once.slot_offsets import SLOT

BIDS: Final = 3
"""Conditional appends of one bidder, if all are refused."""
ATTEMPTS: Final = 5
"""Attempts with a batch before a client leaves its outcome unknown."""


@attrs.frozen(kw_only=True)
class RaceClients:
    """Number of clients of each role, and their acts. A loglet is sealed for good, so a run is
    short."""

    appenders: int = 2
    batches: int = 6
    """Each appender offers so many."""
    in_flight: int = 1
    """Most batches of one session that are offered at once."""
    entry_bytes: int = 0
    """Entries are at least so long."""
    conditional: float = 0.0
    """Share of the batches that a client of its own offers for exactly the tail that it has just seen."""
    impatient: float = 0.0
    """Share of the appends that are cancelled half-way, and then offered again."""
    sealers: int = 2
    observers: int = 3
    waiters: int = 0
    readers: int = 0
    trimmers: int = 0
    looks: int = 8
    """Turns of each client that only queries."""
    pause_seconds: float = 0.02
    """Mean time between two calls of one client."""

    @property
    def counts(self) -> dict[str, int]:
        """Clients of each role."""
        return {
            "appender": self.appenders,
            "bidder": round(self.appenders * self.batches * self.conditional),
            "sealer": self.sealers,
            "observer": self.observers,
            "waiter": self.waiters,
            "reader": self.readers,
            "trimmer": self.trimmers,
        }


async def read_range(loglet: Loglet, start: int, stop: int, max_bytes: int = 1 << 20) -> None:
    """Read a range by as many reads as it takes. Results are in the history."""
    while start < stop:
        found = await loglet.read(LogletOffset(start), LogletOffset(stop), max_bytes)
        if not found:  # the judge objects to it; asking for ever would hide that
            return
        start = found[-1].stop


async def append(loglet: Loglet, cast: RaceClients, source: random.Random) -> None:
    """One session; a maybe is offered again, to the same loglet, before anything newer."""
    session, sequence, offered = SessionId(source.randbytes(16)), 0, 0
    while offered < cast.batches:
        await _pause(cast, source)
        batches: list[Batch] = []
        for _ in range(source.randint(1, cast.in_flight) if sequence else 1):
            entry = (b"%d" % sequence).ljust(cast.entry_bytes, b".")
            batches.append(Batch.build(session, sequence, [entry] * source.randint(1, 3)))
            sequence = batches[-1].stop_sequence
        offered += len(batches)
        if not await _offer_all(loglet, batches, cast, source):
            return


async def _offer_all(loglet: Loglet, batches: list[Batch], cast: RaceClients, source: random.Random) -> bool:
    """Offer these at once; whether the loglet took them all."""
    if len(batches) == 1:
        return await _offer(loglet, batches[0], cast, source)
    taken: list[bool] = []

    async def offer(batch: Batch) -> None:
        taken.append(await _offer(loglet, batch, cast, source))

    async with trio.open_nursery() as nursery:
        for batch in batches:
            nursery.start_soon(offer, batch)
    return all(taken)


async def _offer(loglet: Loglet, batch: Batch, cast: RaceClients, source: random.Random) -> bool:
    """Offer a batch; returns True if the loglet took it."""
    opens = batch.first_sequence == 0
    if cast.impatient and source.random() < cast.impatient:
        with trio.move_on_after(source.random() * cast.pause_seconds):
            return await _offer_patiently(loglet, batch, opens=opens)
    return await _offer_patiently(loglet, batch, opens=opens)


async def _offer_patiently(loglet: Loglet, batch: Batch, *, opens: bool) -> bool:
    for _ in range(ATTEMPTS):
        try:
            await loglet.append(batch, opens=opens)
        except RetryableError:
            continue
        except VirtualLogError:  # sealed, or will never take appends again
            return False
        return True
    return False


async def bid(loglet: Loglet, cast: RaceClients, source: random.Random) -> None:
    """Append conditionally, each time in a session of its own, so that a refused append is gone for
    good. The first expects the tail that was just seen, or a place before or behind it; after a
    refusal the next one expects the tail from the refusal."""
    await trio.sleep(source.random() * cast.batches * cast.pause_seconds)
    with suppress(VirtualLogError):
        tail = (await loglet.check_tail()).tail
        off = source.choice((0, 0, 0, 0, -1, 1, SLOT, 2 * SLOT))
        expected = LogletOffset(max(0, tail + off))
        for _ in range(BIDS):
            try:
                await _bid_once(loglet, expected, source)
            except TailMismatchError as refusal:
                expected = LogletOffset(refusal.found)
            else:
                return


async def _bid_once(loglet: Loglet, expected: LogletOffset, source: random.Random) -> None:
    """One batch, offered until there is an outcome, or too often."""
    batch = Batch.build(SessionId(source.randbytes(16)), 0, [b"bid"])
    for _ in range(ATTEMPTS):
        with suppress(RetryableError):
            await loglet.append(batch, opens=True, expected_tail=expected)
            return


async def seal(loglet: Loglet, cast: RaceClients, source: random.Random) -> None:
    """Act as a reconfigurer: seal, then read the stop."""
    await trio.sleep(source.random() * cast.batches * (cast.pause_seconds + 0.01))
    for _ in range(20):
        try:
            await loglet.seal()
            if isinstance(await loglet.check_tail(), Sealed):
                return
        except RetryableError:
            await _pause(cast, source)


async def look(loglet: Loglet, cast: RaceClients, source: random.Random) -> None:
    for _ in range(cast.looks):
        await _pause(cast, source)
        try:
            await loglet.check_tail()
        except RetryableError:
            continue


async def wait(loglet: Loglet, cast: RaceClients, source: random.Random) -> None:
    """A tailing reader: waits for news, and reads it."""
    known = 0
    for _ in range(cast.looks):
        try:
            tail = await loglet.wait_tail(LogletOffset(known))
            await read_range(loglet, known, tail.tail)
        except RetryableError:
            await _pause(cast, source)
            continue
        known = tail.tail
        if isinstance(tail, Sealed):
            return


async def read(loglet: Loglet, cast: RaceClients, source: random.Random) -> None:
    """Any range below a tail, in pieces of any size."""
    for _ in range(cast.looks):
        await _pause(cast, source)
        try:
            tail = (await loglet.check_tail()).tail
            start = source.randrange(tail) if tail else 0
            await read_range(loglet, start, tail, source.choice((1, 300, 1 << 20)))
        except RetryableError:
            continue


async def trim(loglet: Loglet, cast: RaceClients, source: random.Random) -> None:
    """Drops some of the older half, now and then."""
    for _ in range(max(1, cast.looks // 4)):
        await trio.sleep(source.random() * 8 * cast.pause_seconds)
        try:
            tail = (await loglet.check_tail()).tail
            await loglet.prefix_trim(LogletOffset(source.randint(0, tail // 2)))
        except RetryableError:
            continue


Role: TypeAlias = Callable[[Loglet, RaceClients, random.Random], Awaitable[None]]
"""A client of its own, with its part and its randomness."""

ROLES: Final[dict[str, Role]] = {
    "appender": append,
    "bidder": bid,
    "sealer": seal,
    "observer": look,
    "waiter": wait,
    "reader": read,
    "trimmer": trim,
}


async def _pause(cast: RaceClients, source: random.Random) -> None:
    await trio.sleep(source.expovariate(1.0 / cast.pause_seconds))
