"""Transactions on tables, over replicas of a database."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.table.table_world import Account, Edge, check_consistent, worlds
from virtuallog.contract.errors import InvalidSettingError, TooLargeError, UnavailableError, UnsupportedError
from virtuallog_database.engines.core.enabled_engines import TABLE
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.table.errors import ConflictError, SchemaDiffersError, UniqueViolationError
from virtuallog_database.table.schema import Row, table
from virtuallog_database.table.transaction import COMMIT_BYTES_MAX, SCAN_COUNT_MAX, TableTransaction


async def test_rows_are_read_at_every_replica(autojump_clock: MockClock) -> None:
    """What one replica has committed, a linearizable read at another one shows."""
    async with worlds() as world:
        one, other = await world.tables(1), await world.tables(2)
        await one.put(Account("a", "x", "a@x", 5))
        assert await one.get(Account, "a") == Account("a", "x", "a@x", 5)
        assert await other.get(Account, "a", linearizable=True) == Account("a", "x", "a@x", 5)
        await other.delete(Account, "a")
        assert await one.get(Account, "a", linearizable=True) is None
        await one.delete(Account, "a")
        check_consistent(world.store(), Account)


async def test_a_transaction_is_done_whole_or_not_at_all(autojump_clock: MockClock) -> None:
    """It sees its own writes; behind an error of the block, or a conflict, nothing is written."""
    async with worlds() as world:
        tables = await world.tables()
        async with tables.transaction() as t:
            assert await t.get(Account, "a") is None
            t.put(Account("a", balance=1))
            t.put(Account("b"))
            t.delete(Account, "b")
            assert await t.get(Account, "a") == Account("a", balance=1)
            assert await t.get(Account, "b") is None
            assert await tables.get(Account, "a") is None, "nothing shows before the end"
        assert t.number == 1

        async def fail(t: TableTransaction) -> None:
            t.put(Account("c"))
            raise ZeroDivisionError

        async def read_and_put(t: TableTransaction) -> None:
            row = await t.get(Account, "a")
            assert row is not None
            await tables.put(attrs.evolve(row, balance=2))
            assert await t.get(Account, "a") == row, "a snapshot"
            t.put(Account("d", balance=row.balance))

        with pytest.raises(ZeroDivisionError):
            await tables.run(fail)
        with pytest.raises(ConflictError, match="'accounts'"):
            await tables.run(read_and_put, tries=1)
        assert await tables.scan(Account) == [Account("a", balance=2)]
        with pytest.raises(RuntimeError):
            await t.get(Account, "a")


async def test_an_absent_row_is_read_too(autojump_clock: MockClock) -> None:
    """Of two transactions that put a row because there is none, one commits."""
    async with worlds() as world:
        tables = await world.tables()

        async def create(t: TableTransaction) -> None:
            assert await t.get(Account, "a") is None
            await tables.put(Account("a", balance=1))
            t.put(Account("a", balance=2))

        with pytest.raises(ConflictError):
            await tables.run(create, tries=1)


async def test_there_is_no_write_skew(autojump_clock: MockClock) -> None:
    """Two transactions that read what the other one writes are not both committed, as under snapshot isolation."""
    async with worlds() as world:
        tables = await world.tables()
        await tables.put(Account("a", balance=1))
        await tables.put(Account("b", balance=1))

        async def withdraw(t: TableTransaction, gone: str) -> None:
            assert sum(row.balance for row in await t.scan(Account)) == 2
            t.put(Account(gone))

        async def both(t: TableTransaction) -> None:
            await withdraw(t, "a")
            await tables.run(partial(withdraw, gone="b"), tries=1)

        with pytest.raises(ConflictError):
            await tables.run(both, tries=1)
        assert [row.balance for row in await tables.scan(Account)] == [1, 0]


@pytest.mark.parametrize("index", [None, "by_owner"])
async def test_a_scan_has_no_phantoms(index: str | None, autojump_clock: MockClock) -> None:
    """A row that appears in the part that was read is a conflict, one behind it is none."""
    async with worlds() as world:
        tables = await world.tables()
        for name in ("a", "c", "e"):
            await tables.put(Account(name, owner="x"))
        for name, is_conflict in (("d", False), ("b", True)):
            commit = tables.transaction()
            t = await commit.__aenter__()
            prefix = ("x",) if index else ()
            assert [row.id for row in await t.scan(Account, *prefix, index=index, limit=2)] == ["a", "c"]
            t.put(Edge(1, 1))
            await tables.put(Account(name, owner="x"))
            if is_conflict:
                with pytest.raises(ConflictError):
                    await commit.__aexit__(None, None, None)
            else:
                await commit.__aexit__(None, None, None)


async def test_a_unique_value_that_moves_to_another_row_is_a_conflict(autojump_clock: MockClock) -> None:
    """Its entry in the index stays, and the transaction has put the row that had it without reading it."""
    async with worlds() as world:
        tables = await world.tables()
        await tables.put(Account("a", email="1"))

        async def scan(t: TableTransaction) -> None:
            t.put(Account("a"))
            assert await t.scan(Account, index="by_email") == []
            async with tables.transaction() as other:
                other.put(Account("a"))
                other.put(Account("b", email="1"))

        with pytest.raises(ConflictError):
            await tables.run(scan, tries=1)


async def test_a_scan_shows_both_rows_before_one_gives_its_unique_value_up(autojump_clock: MockClock) -> None:
    """The own row does not hide the one whose value it takes; the end of the transaction decides."""
    async with worlds() as world:
        tables = await world.tables()
        await tables.put(Account("b", email="1"))
        async with tables.transaction() as t:
            t.put(Account("a", email="1"))
            assert [row.id for row in await t.scan(Account, index="by_email")] == ["a", "b"]
            t.delete(Account, "b")
        assert [row.id for row in await tables.scan(Account, index="by_email")] == ["a"]


async def test_run_tries_again(autojump_clock: MockClock) -> None:
    """Increments of many tasks at two replicas are all counted; a function that always meets a conflict ends."""
    async with worlds() as world:
        one, other = await world.tables(1), await world.tables(2)

        async def increment(t: TableTransaction) -> int:
            row = await t.get(Account, "a") or Account("a")
            t.put(attrs.evolve(row, balance=row.balance + 1))
            return row.balance

        async def worker(number: int) -> None:
            found.append(await (one if number % 2 else other).run(increment, tries=30))

        found = list[int]()
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(worker, number)
        assert sorted(found) == [*range(10)]

        async def hopeless(t: TableTransaction) -> None:
            await increment(t)
            await one.run(increment)

        with pytest.raises(ConflictError):
            await one.run(hopeless, tries=3)
        row = await one.get(Account, "a")
        assert row is not None
        assert row.balance == 13


async def test_a_unique_value_has_one_row(autojump_clock: MockClock) -> None:
    """The second one is refused; rows may exchange the value, and it is free behind a deletion."""
    async with worlds() as world:
        tables = await world.tables()
        await tables.put(Account("a", email="1"))
        with pytest.raises(UniqueViolationError, match="by_email"):
            await tables.put(Account("b", email="1"))
        async with tables.transaction() as t:
            t.put(Account("a", email="2"))
            t.put(Account("b", email="1"))
        await tables.delete(Account, "a")
        await tables.put(Account("c", email="2"))
        assert [row.id for row in await tables.scan(Account, index="by_email")] == ["b", "c"]
        assert await tables.scan(Account, "1", index="by_email") == [Account("b", email="1")]
        check_consistent(world.store(), Account)


async def test_scans_are_in_order(autojump_clock: MockClock) -> None:
    """Of the primary key or an index; of a prefix, a span, or a page behind a row; with the own writes of a transaction."""
    async with worlds() as world:
        tables = await world.tables()
        edges = [Edge(source, target, source - target / 2) for source in (-300, -1, 0, 2, 300) for target in (-1, 0, 1)]
        async with tables.transaction() as t:
            for edge in reversed(edges):
                t.put(edge)
            assert await t.scan(Edge) == edges, "of its own writes alone"
        assert await tables.scan(Edge) == edges
        assert await tables.scan(Edge, 0) == edges[6:9]
        assert await tables.scan(Edge, 0, start=0) == edges[7:9]
        assert await tables.scan(Edge, 0, stop=0) == edges[6:7]
        assert await tables.scan(Edge, start=-1, stop=2) == edges[3:9]
        assert await tables.scan(Edge, start=2, stop=-1) == []
        assert await tables.scan(Edge, after=edges[4], limit=3) == edges[5:8]
        by_weight = sorted(edges, key=lambda edge: (edge.weight, edge.source, edge.target))
        pages, after = list[Edge](), None
        while page := await tables.scan(Edge, index="by_weight", after=after, limit=4):
            pages += page
            after = page[-1]
        assert pages == by_weight
        assert await tables.scan(Edge, index="by_weight", start=0.0) == [edge for edge in by_weight if edge.weight >= 0]
        async with tables.transaction() as t:
            t.delete(Edge, -300, 0)
            t.put(Edge(-300, 1, 1000))
            t.put(Edge(-301, 5, -1000))
            assert [edge.target for edge in await t.scan(Edge, limit=3)] == [5, -1, 1]
            assert (await t.scan(Edge, index="by_weight", limit=2)) == [Edge(-301, 5, -1000), edges[0]]
            assert (await t.scan(Edge, index="by_weight", start=300.0)) == [edges[13], edges[12], Edge(-300, 1, 1000)]
        check_consistent(world.store(), Edge)


async def test_sizes_are_bounded(autojump_clock: MockClock) -> None:
    """Of one row, and of all that a transaction has read and written; nothing is done then."""
    async with worlds() as world:
        tables = await world.tables()
        large = "x" * (COMMIT_BYTES_MAX // 3)
        await tables.put(Account("a", note=large))
        assert await tables.get(Account, "a") == Account("a", note=large)

        async def put_much(t: TableTransaction) -> None:
            for name in "bcd":
                t.put(Account(name, note=large))

        with pytest.raises(TooLargeError):
            await tables.run(put_much)
        with pytest.raises(TooLargeError):
            await tables.put(Account("b", note=large * 2))
        for limit in (0, SCAN_COUNT_MAX + 1):
            with pytest.raises(InvalidSettingError):
                await tables.scan(Account, limit=limit)
        with pytest.raises(InvalidSettingError):
            await tables.scan(Account, index="by_email", after=Account("a"))
        with pytest.raises(InvalidSettingError):
            await tables.put(Row())
        assert [row.id for row in await tables.scan(Account)] == ["a"]


async def test_a_former_server_does_not_get_what_it_does_not_know(autojump_clock: MockClock) -> None:
    """Tables are enabled by the first write, and only if all servers know them."""
    async with worlds() as world:
        tables = await world.tables()
        rollout = world.running[1].replica.stack.find(RolloutEngine)
        assert rollout is not None
        assert await tables.get(Account, "a") is None
        assert rollout.switches() == {}
        await tables.put(Account("a"))
        assert rollout.switches() == {TABLE: True}
        await rollout.disable(TABLE)
        world.handles[1].database.rollout = None
        with pytest.raises(UnsupportedError):
            await tables.put(Account("b"))


@table("accounts", key="id")
@attrs.frozen
class OtherAccount(Row):
    """The table of `Account`, without its indices and in the same version."""

    id: str


async def test_other_indices_need_another_version(autojump_clock: MockClock) -> None:
    """A program that does not know an index would leave rows without their entries."""
    async with worlds() as world:
        tables = await world.tables()
        await tables.put(Account("a", email="1"))
        with pytest.raises(SchemaDiffersError):
            await tables.get(OtherAccount, "a")
        with pytest.raises(SchemaDiffersError):
            await tables.put(OtherAccount("a"))
        async with tables.transaction() as t:
            await t.get(Account, "a")
            with pytest.raises(InvalidSettingError):
                await t.get(OtherAccount, "a")


async def test_a_log_that_does_not_answer_leaves_the_outcome_unknown(autojump_clock: MockClock) -> None:
    """Then the caller reads what has become of it."""
    async with worlds() as world:
        tables = await world.tables()
        await tables.put(Account("a"))
        world.replicas.provider.deaf = True
        with pytest.raises(UnavailableError):
            await tables.put(Account("b"))
        world.replicas.provider.deaf = False
        await tables.put(Account("c"))
        assert [row.id for row in await tables.scan(Account)] == ["a", "c"]
