"""Drivers of Spark over a log in memory: killed at any step and started again, two at a time, with tasks that fail, are run again and run
side by side. What Spark promises a sink is in here, and no more:

* a batch that has begun has the same rows for good, in every driver and in every run;
* a batch is committed with one attempt of each task, that has ended well; an attempt that is not, or not any more, of interest
  may go on for as long as it likes;
* that a batch is committed is in Spark's checkpoint after `commit` has returned, so perhaps never.

A reader follows the log beside them, in ranges that it cuts wherever it happens to look.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any, TypeVar

import attrs
import trio

from pyspark_virtuallog.markers.marker import QueryId, Winner
from pyspark_virtuallog.write.batch_commit import SupersededError, commit
from tests.spark.sink.sink_log import attempt, seen, tail_of
from tests.virtuallog.client.world import World
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Tail
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider

ResultT = TypeVar("ResultT")
STEP_SECONDS = 0.2
"""A call, or a pause of a driver, takes up to so long."""


@attrs.define
class SlowLoglet:
    """Each call takes its time, before it does anything and after; some answers are lost."""

    _inner: MemoryLoglet
    _chance: random.Random

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        return await self._slowly(lambda: self._inner.append(batch, opens=opens, expected_tail=expected_tail))

    async def check_tail(self) -> Tail:
        return await self._slowly(self._inner.check_tail)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return await self._slowly(lambda: self._inner.read(start, stop, max_bytes))

    async def _slowly(self, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        await pause(self._chance)
        result = await call()
        await pause(self._chance)
        if self._chance.random() < 0.1:
            raise UnavailableError("the answer was lost")
        return result


@attrs.define
class SlowProvider(MemoryProvider):
    """Opens such loglets."""

    chance: random.Random = attrs.field(factory=random.Random)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Any:
        return SlowLoglet(super().open(segment, config, environment), self.chance)


async def pause(chance: random.Random, longest: float = STEP_SECONDS) -> None:
    await trio.sleep(chance.random() ** 3 * longest)


@attrs.define
class Query:
    """One streaming query, or one application that runs jobs: what is durable of it."""

    name: QueryId
    batches: list[list[list[bytes]]]
    """Rows of each partition of each batch; some have none."""
    done: int = 0
    """Batches below are in Spark's checkpoint."""


@attrs.define
class Spark:
    """Runs queries on a log, and kills their drivers."""

    world: World
    chance: random.Random
    everywhere: trio.Nursery
    """Nursery of attempts: they outlive the driver that began them."""

    async def run(self, query: Query) -> None:
        """Until all batches of the query are done: drivers that are killed, one after the other, and live a little longer each time."""
        for number in count(1):
            lifetime = self.chance.random() ** 2 * number * 5 * STEP_SECONDS
            # Superseded: another driver is ahead. An unknown outcome: Spark ends the query. Both are started again.
            with trio.move_on_after(lifetime), suppress(SupersededError, UnavailableError):
                await self._drive(query, self.world.client())
                return
            await pause(self.chance)

    async def _drive(self, query: Query, log: VirtualLog) -> None:
        while (batch := query.done) < len(query.batches):
            winners = [await self._run_task(rows) for rows in query.batches[batch]]
            await pause(self.chance)
            await commit(log, query.name, batch, [winner for winner in winners if winner is not None], 5.0)
            await pause(self.chance)
            query.done = max(query.done, batch + 1)

    async def _run_task(self, rows: list[bytes]) -> Winner | None:
        """The first attempt that ends well, of one or two; both go on in any case, unless they die."""
        if not rows:
            return None
        while True:
            told, heard = trio.open_memory_channel[Winner](2)
            async with told:
                for _ in range(self.chance.choice([1, 1, 2])):
                    self.everywhere.start_soon(self._attempt, rows, told.clone())
            async with heard:
                async for winner in heard:
                    return winner

    async def _attempt(self, rows: list[bytes], told: trio.MemorySendChannel[Winner]) -> None:
        lifetime = inf if self.chance.random() < 0.7 else self.chance.random() * 4 * STEP_SECONDS
        with told, trio.move_on_after(lifetime), suppress(UnavailableError, trio.BrokenResourceError):
            winner = await attempt(self.world.client(), *rows)
            await pause(self.chance)
            await told.send(winner)


@attrs.define
class Follower:
    """A reader of committed rows, from the beginning."""

    log: VirtualLog
    chance: random.Random
    rows: list[bytes] = attrs.field(factory=list)
    position: int = 0

    async def run(self) -> None:
        """For ever."""
        while True:
            await pause(self.chance, 5 * STEP_SECONDS)
            await self.step()

    async def step(self) -> None:
        """A range as a whole or, if it could not be read, not at all: as a micro-batch of Spark."""
        with suppress(UnavailableError):
            stop = self.chance.randint(self.position, await tail_of(self.log))
            found = await seen(self.log, self.position, stop)
            self.rows, self.position = self.rows + found, stop

    async def finish(self) -> None:
        """Read what is left."""
        while (tail := await self._tail()) is None or self.position < tail:
            await self.step()

    async def _tail(self) -> int | None:
        with suppress(UnavailableError):
            return await tail_of(self.log)
        return None
