"""The clause that no example covers: many clients act at random at once, then the history is judged."""

from __future__ import annotations

import random
from typing import Final

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import ReconfigurationNeededError, SealedError
from virtuallog.contract.types import Sealed, Tail
from virtuallog.testing.checker.expectations import expect
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.linearizability import check_log
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog.testing.clauses.fixture import Client, LogletFixture

ROUNDS: Final = 8
"""Histories per run of the clause. Each is short, so that a contradiction is easy to read."""
WRITERS: Final = 3
STEPS: Final = 12
"""Steps of each client. A history has about a hundred operations."""
PAUSE_SECONDS: Final = 0.01
"""Longest pause between two steps of a client: of the order of a call, so that calls overlap."""


async def random_histories_are_those_of_a_log(fixture: LogletFixture) -> None:
    """Random concurrent clients, with cancelled callers and a seal in the middle, see one log."""
    for _ in range(ROUNDS):
        opener = await fixture.fresh()
        history = History()
        clients = [
            Client(RecordedLoglet(opener(), history), fixture.clock, SessionId(fixture.random.randbytes(16)))
            for _ in range(WRITERS + 3)
        ]
        *writers, sealer, watcher, last = [Actor(client, random.Random(fixture.random.random())) for client in clients]
        async with trio.open_nursery() as nursery:
            for writer in writers:
                nursery.start_soon(writer.write)
            nursery.start_soon(sealer.seal_some_time)
            nursery.start_soon(watcher.watch)
        await last.read_everything()
        check_log(history)


@attrs.define
class Actor:
    """A client that acts at random."""

    client: Client
    random: random.Random
    known: int = 0
    """The highest tail this client has seen."""

    async def write(self) -> None:
        """Append, check the tail and read, until the log is sealed."""
        try:
            await self._append()
            for _ in range(STEPS):
                await self._pause()
                await self.random.choice([self._append, self._append, self._append_several, self._look, self._read])()
        except SealedError:
            pass

    async def seal_some_time(self) -> None:
        for _ in range(self.random.randrange(2 * STEPS)):
            await self._pause()
            await self.random.choice([self._look, self._read, self._trim])()
        await self.client.seal()
        for _ in range(3):
            await self._look()

    async def watch(self) -> None:
        """Check the tail all the time, with overlapping checks, until the log is sealed."""
        while not isinstance(await self._tail(), Sealed):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(self._look)
                    await self.client.clock.sleep(self.random.random() * PAUSE_SECONDS / 4)

    async def read_everything(self) -> None:
        """Check the tail twice, as the second check must not contradict the first, and read
        everything."""
        for _ in range(2):
            await self._look()
            await self.client.read_all(0, self.known)

    async def _append(self) -> None:
        """Append one batch, from a caller that may be cancelled; then offer it again, as the
        contract asks."""
        batch = self.client.batch(*[self.random.randbytes(4)] * self.random.randint(1, 3))
        if self.random.random() < 0.2:
            with self.client.clock.timeout(self.random.random() * PAUSE_SECONDS):
                await self.client.offer(batch)
        await self.client.offer(batch)

    async def _append_several(self) -> None:
        """Append a few batches at once."""
        batches = [self.client.batch(self.random.randbytes(4)) for _ in range(3)]
        sealed: list[SealedError] = []

        async def offer(batch: Batch) -> None:
            try:
                await self.client.offer(batch)
            except SealedError as error:
                sealed.append(error)

        async with trio.open_nursery() as nursery:
            for batch in batches:
                nursery.start_soon(offer, batch)
        if sealed:
            raise sealed[0]

    async def _look(self) -> None:
        tail = await self._tail()
        self.known = max(self.known, tail.tail)

    async def _tail(self) -> Tail:
        """Return the tail. Seals the loglet if entries in flight "stay undecided until a client
        seals the loglet".

        A client with a chain would do so before extending it. From then on there is a tail.
        """
        is_sealed = False
        while True:
            try:
                return await self.client.tail()
            except ReconfigurationNeededError as error:
                expect(not is_sealed, f"a loglet that has been sealed has no tail: {error}")
                await self.client.seal()
                is_sealed = True

    async def _read(self) -> None:
        if self.known == 0:
            await self._look()
        if self.known:
            start = self.random.randrange(self.known)
            await self.client.read_all(start, self.random.randint(start + 1, self.known), self.random.choice([1, 1000]))

    async def _trim(self) -> None:
        if self.random.random() < 0.3:
            await self.client.prefix_trim(self.random.randint(0, self.known // 2))

    async def _pause(self) -> None:
        await self.client.clock.sleep(self.random.random() * PAUSE_SECONDS)


CLAUSES = (random_histories_are_those_of_a_log,)
