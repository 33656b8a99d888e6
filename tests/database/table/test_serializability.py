"""Random transactions of several clients at two replicas that crash, and an order in which a model gives the same answers.

The order is that of the numbers of the commits; a transaction that only reads stands behind the commit whose number its snapshot
has. Each transaction that writes puts a row into a ledger, so it is known of each in the end whether it was committed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.table.table_world import Account, TableWorld, check_consistent, stored, worlds
from virtuallog.contract.errors import VirtualLogError
from virtuallog.testing.sim.process import CrashedError
from virtuallog_database.table.client import Tables
from virtuallog_database.table.errors import ConflictError, UniqueViolationError
from virtuallog_database.table.schema import Row, schema_of, table
from virtuallog_database.table.transaction import TableTransaction

IDS, OWNERS, EMAILS = "abcdef", ("x", "y"), (None, "1", "2", "3")
STEPS = ("get", "get", "scan", "range", "emails", "put", "put", "delete")
TRANSACTIONS = 20


@table("ledger", key="id")
@attrs.frozen
class Ledger(Row):
    """A transaction that was committed."""

    id: int


@attrs.define
class Done:
    """A transaction, as its client has seen it."""

    id: int
    is_linearizable: bool
    began: int
    steps: list[tuple[str, Any, Any]] = attrs.field(factory=list)
    """Calls and their results."""
    writes: bool = False
    number: int | None = None
    """Place in the order; None if unknown."""
    is_refused: bool = False
    ended: int | None = None


@attrs.define
class Clients:
    """All clients of a run."""

    random: random.Random
    times: Iterator[int] = attrs.field(factory=count)
    all: list[Done] = attrs.field(factory=list)

    async def work(self, tables: Tables) -> None:
        for _ in range(TRANSACTIONS):
            done = Done(len(self.all), self.random.random() < 0.7, next(self.times))
            self.all.append(done)
            try:
                async with tables.transaction(linearizable=done.is_linearizable) as t:
                    done.number = t._snapshot.number
                    await self._run(t, done)
                    done.number = None if done.writes else done.number
                done.number = t.number if done.writes else done.number
                done.ended = next(self.times)
            except (ConflictError, UniqueViolationError):
                done.is_refused = True
            except (VirtualLogError, CrashedError):
                done.number = None
            await trio.sleep(self.random.uniform(0, 0.3))

    async def _run(self, t: TableTransaction, done: Done) -> None:
        for _ in range(self.random.randint(1, 4)):
            key, name = self.random.choice(IDS), self.random.choice(STEPS)
            arguments: Any = key
            result: Any = None
            if name == "get":
                result = await t.get(Account, key)
            elif name == "scan":
                arguments = (self.random.choice(OWNERS), self.random.randint(1, 4))
                result = await t.scan(Account, arguments[0], index="by_owner", limit=arguments[1])
            elif name == "range":
                result = await t.scan(Account, start=key, limit=3)
            elif name == "emails":
                result = await t.scan(Account, index="by_email", limit=2)
            elif name == "put":
                arguments = Account(key, self.random.choice(OWNERS), self.random.choice(EMAILS), balance=done.id)
                t.put(arguments)
            else:
                t.delete(Account, key)
            done.writes |= name in ("put", "delete")
            done.steps.append((name, arguments, result))
            await trio.sleep(self.random.uniform(0, 0.05))
        if done.writes:
            t.put(Ledger(done.id))


def replay(rows: dict[str, Account], done: Done) -> None:
    """The same calls on a dict."""
    for name, arguments, result in done.steps:
        ordered = [rows[key] for key in sorted(rows)]
        if name == "get":
            assert result == rows.get(arguments), done
        elif name == "scan":
            owner, limit = arguments
            assert result == [row for row in ordered if row.owner == owner][:limit], done
        elif name == "range":
            assert result == [row for row in ordered if row.id >= arguments][:3], done
        elif name == "emails":
            by_email = sorted((row for row in ordered if row.email), key=lambda row: row.email or "")
            assert result == by_email[:2], done
        elif name == "put":
            rows[arguments.id] = arguments
        else:
            rows.pop(arguments, None)


async def crash_now_and_then(world: TableWorld, chance: random.Random) -> None:
    """What was proposed before is lost, or it is in the log and no replica has applied it yet."""
    provider = world.replicas.provider
    while True:
        await trio.sleep(chance.uniform(0.1, 0.5))
        provider.deaf = chance.random() < 0.4
        provider.slow = provider.blind = not provider.deaf
        await trio.sleep(chance.uniform(0, 0.4))
        await world.crash(chance.choice((1, 2)), chance)


@pytest.mark.parametrize("seed", range(8))
async def test_transactions_are_serializable(seed: int, autojump_clock: MockClock) -> None:
    """In the order of their numbers, which is one of real time, too; and what was refused has left nothing."""
    chance = random.Random(seed)
    async with worlds() as world:
        clients = Clients(chance)
        tables = [await world.tables(node) for node in (1, 2)]
        async with trio.open_nursery() as crashes:
            if seed % 4:
                crashes.start_soon(crash_now_and_then, world, chance)
            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(clients.work, tables[number % 2])
            crashes.cancel_scope.cancel()
        await world.crash(1, chance)
        await tables[0].put(Account("z"))
        await tables[0].delete(Account, "z")
        store = world.store()
        check_consistent(store, Account)
        numbers = {row.id: found.version for row, found in _ledger(store)}
        final = {row.id: row for row in await tables[0].scan(Account)}
    known = [done for done in clients.all if done.writes or (done.ended is not None)]
    for done in known:
        if done.writes:
            assert done.number is None or done.number == numbers.get(done.id), "a commit that was answered is kept"
            assert not done.is_refused or done.id not in numbers
            done.number = numbers.get(done.id)
    order = sorted((done for done in known if done.number is not None), key=lambda done: (done.number, not done.writes))
    rows = dict[str, Account]()
    for done in order:
        replay(rows, done)
    assert rows == final
    _check_real_time(order)
    assert sum(done.is_refused for done in clients.all) > 3
    assert len(order) > 15


def _ledger(store: Any) -> Iterator[tuple[Ledger, Any]]:
    schema = schema_of(Ledger)
    return ((schema.decode(key, found), found) for key, found in stored(store, Ledger).items())


def _check_real_time(order: list[Done]) -> None:
    """A transaction that began behind the end of another one stands behind it, unless it only reads and may read what is old."""
    latest = -1
    for done in order:  # all before it in the order began before it ended
        if done.ended is not None:
            assert latest < done.ended, done
        if done.writes or done.is_linearizable:
            latest = max(latest, done.began)
