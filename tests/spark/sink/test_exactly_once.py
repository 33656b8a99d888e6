"""Exactly once, under many interleavings: each row of each batch is seen once, for any kills, and
any ranges of readers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count, pairwise

import pytest
import trio
from trio.testing import MockClock

from pyspark_virtuallog.markers.marker import MAGIC, QueryId
from pyspark_virtuallog.write.batch_commit import Committed, SupersededError, commit
from tests.spark.sink.crashing_drivers import STEP_SECONDS, Follower, Query, SlowProvider, Spark, pause
from tests.spark.sink.sink_log import QUERY, attempt
from tests.virtuallog.client.world import World
from virtuallog.contract.errors import UnavailableError

BATCHES = 4
KINDS = {"memory": 1, "sparse": 4}
LIMIT_SECONDS = 3600


@asynccontextmanager
async def slow_world(chance: random.Random) -> AsyncIterator[World]:
    """A log whose calls take any time, and lose answers."""
    providers = {kind: SlowProvider(kind=kind, align=align, chance=chance) for kind, align in KINDS.items()}
    async with trio.open_nursery() as nursery:
        yield World(nursery, providers)
        nursery.cancel_scope.cancel()


def made_up(chance: random.Random, name: int, numbers: count[int]) -> Query:
    """A query whose rows are all different."""

    def rows() -> list[bytes]:
        return [b"row %d" % next(numbers) for _ in range(chance.choice([0, 1, 1, 3]))]

    partitions = chance.randint(1, 3)
    return Query(QueryId(bytes([name]) * 16), [[rows() for _ in range(partitions)] for _ in range(BATCHES)])


@pytest.mark.parametrize("seed", range(24))
async def test_every_row_is_seen_once(seed: int, autojump_clock: MockClock) -> None:
    """Two queries, each with two drivers at a time that are killed again and again; strangers append, and the chain changes. Rows of a
    task are seen in their order, those of a batch behind those of the batch before."""
    chance = random.Random(seed)
    async with slow_world(chance) as w:
        numbers = count()
        queries = [made_up(chance, name, numbers) for name in (1, 2)]
        spark, follower = Spark(w, chance, w.nursery), Follower(w.client(), chance)
        async with trio.open_nursery() as others:
            others.start_soon(strangers, w, chance)
            others.start_soon(follower.run)
            with trio.fail_after(LIMIT_SECONDS):
                async with trio.open_nursery() as drivers:
                    for query in queries * 2:
                        drivers.start_soon(spark.run, query)
            others.cancel_scope.cancel()
        late = Follower(w.client(), chance)
        for reader in (follower, late):
            await reader.finish()
            check(reader.rows, queries)


async def strangers(w: World, chance: random.Random) -> None:
    """Entries of others, what begins like a marker, and reconfigurations."""
    log = w.client()
    while True:
        await pause(chance, 20 * STEP_SECONDS)
        with suppress(UnavailableError):
            await log.append_many([b"of another writer", MAGIC])
            await log.reconfig_extend(chance.choice([*KINDS]))


def check(rows: list[bytes], queries: list[Query]) -> None:
    """Check that a reader has seen these as promised (docs/reference/promises.md)."""
    assert sorted(rows) == sorted(row for query in queries for batch in query.batches for task in batch for row in task)
    places = {row: place for place, row in enumerate(rows)}
    for query in queries:
        batches = [[places[row] for task in batch for row in task] for batch in query.batches]
        assert all(max(one) < min(next_one) for one, next_one in pairwise(filter(None, batches)))
        for task in (task for batch in query.batches for task in batch):
            assert [places[row] for row in task] == sorted(places[row] for row in task)


@pytest.mark.parametrize("seed", range(30))
async def test_a_driver_is_told_what_readers_see(seed: int, autojump_clock: MockClock) -> None:
    """Concurrent jobs with one name, each with its own rows. A driver whose commit succeeds now has
    its rows in the log; one that finds another or a later batch has not; an unknown outcome may be
    either."""
    chance = random.Random(seed)
    async with slow_world(chance) as w:
        told: dict[bytes, object] = {}

        async def job(name: int, batch: int) -> None:
            await pause(chance, 0.5)
            log, row = w.client(), b"job %d, version %d" % (name, batch)
            winner = await attempt(log, row)
            try:
                told[row] = await commit(log, QUERY, batch, [winner], 5.0)
            except (SupersededError, UnavailableError) as error:
                told[row] = type(error)

        async with trio.open_nursery() as jobs:
            for name in range(5):
                jobs.start_soon(job, name, chance.randrange(3))
        reader = Follower(w.client(), chance)
        await reader.finish()

        assert len({row[-1:] for row in reader.rows}) == len(reader.rows), "one version was seen twice"
        for row, answer in told.items():
            assert (row in reader.rows) == (answer is Committed.NOW) or answer is UnavailableError, (row, answer)
