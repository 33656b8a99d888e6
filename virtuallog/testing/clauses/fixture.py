"""The fixture that the clauses of the loglet conformance suite take, and the client that they drive.

The suite imports no test framework. A broken promise is an AssertionError with its description.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OutOfOrderError, OverloadedError, UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Loglet, Placed, SupportsSealedTail
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogletOffset, Tail
from virtuallog.testing.checker.expectations import covered

ResultT = TypeVar("ResultT")

Opener: TypeAlias = Callable[[], Loglet]
"""Opens one more client of one loglet."""

READ_BYTES: Final = 1 << 20
RETRY_SECONDS: Final = 0.05
"""Pause before an unavailable operation is repeated. The time of a clause bounds the number of
repetitions."""


class LogletFixture(Protocol):
    """The part of a conformance test that the author of a loglet provides."""

    @property
    def contiguous(self) -> bool:
        """`LogletProvider.contiguous`: consecutive entries have consecutive places."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> random.Random:
        """Source of randomness; seeded if runs shall be repeatable."""
        ...

    async def fresh(self) -> Opener:
        """Return a new and empty loglet, as a function that opens clients of it. Called many times."""
        ...


@attrs.define
class Client:
    """One client of the loglet under test, with one session.

    It repeats unavailable operations, as the contract asks of callers, so that the suite also runs
    on a bad network.
    """

    loglet: Loglet
    clock: Clock
    session: SessionId
    first_sequence: int = 0
    next_sequence: int = 0

    def batch(self, *payloads: bytes) -> Batch:
        """Make the session's next batch, to be offered."""
        batch = Batch.build(self.session, self.next_sequence, payloads)
        self.next_sequence = batch.stop_sequence
        return batch

    def opens(self, batch: Batch) -> bool:
        return batch.first_sequence == self.first_sequence

    async def offer(self, batch: Batch, *, expected_tail: int | None = None) -> range:
        expected = None if expected_tail is None else LogletOffset(expected_tail)
        return await self.retried(
            lambda: self.loglet.append(batch, opens=self.opens(batch), expected_tail=expected), OutOfOrderError
        )

    async def append(self, *payloads: bytes) -> range:
        """Offer the payloads as the session's next batch until it has its places."""
        return await self.offer(self.batch(*payloads))

    async def tail(self) -> Tail:
        return await self.retried(self.loglet.check_tail)

    async def wait_tail(self, past: int) -> Tail:
        return await self.retried(lambda: self.loglet.wait_tail(LogletOffset(past)))

    async def seal(self) -> None:
        await self.retried(self.loglet.seal)

    async def seal_and_check_tail(self) -> Tail:
        """Seal, and check the tail: as one operation, if the loglet has one (`SupportsSealedTail`)."""
        if isinstance(self.loglet, SupportsSealedTail):
            return await self.retried(self.loglet.seal_and_check_tail)
        await self.seal()
        return await self.tail()

    async def prefix_trim(self, offset: int) -> int:
        return await self.retried(lambda: self.loglet.prefix_trim(LogletOffset(offset)))

    async def read(self, start: int, stop: int, max_bytes: int = READ_BYTES) -> Sequence[Placed]:
        """Read once, and check the shape of the result."""
        items = await self.retried(lambda: self.loglet.read(LogletOffset(start), LogletOffset(stop), max_bytes))
        covered(items, start, stop)
        return items

    async def read_all(self, start: int, stop: int, max_bytes: int = READ_BYTES) -> list[Placed]:
        """Read everything in [start, stop), by as many reads as it takes."""
        found: list[Placed] = []
        while start < stop:
            items = await self.read(start, stop, max_bytes)
            start = covered(items, start, stop)
            found += items
        return found

    async def retried(self, call: Callable[[], Awaitable[ResultT]], *also: type[VirtualLogError]) -> ResultT:
        again: tuple[type[VirtualLogError], ...] = (UnavailableError, OverloadedError, *also)
        while True:
            try:
                return await call()
            except again:
                await self.clock.sleep(RETRY_SECONDS)


async def open_clients(fixture: LogletFixture, count: int) -> list[Client]:
    """Open clients of one fresh loglet, with a session each."""
    opener = await fixture.fresh()
    return [Client(opener(), fixture.clock, SessionId(fixture.random.randbytes(16))) for _ in range(count)]
