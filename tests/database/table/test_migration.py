"""Versions of schemas, and migrations while a table is used."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.table.table_world import TableWorld, check_consistent, stored, worlds
from virtuallog.contract.errors import InvalidSettingError, MalformedError, TooLargeError, VirtualLogError
from virtuallog.testing.sim.process import CrashedError
from virtuallog_database.table.client import Tables
from virtuallog_database.table.core import keys
from virtuallog_database.table.errors import (
    ConflictError,
    IndexNotReadyError,
    SchemaTooOldError,
    UniqueViolationError,
)
from virtuallog_database.table.schema import Index, Row, schema_of, table
from virtuallog_database.table.transaction import TableTransaction


@table("people", key="id", indices={"by_team": Index("team")})
@attrs.frozen
class FormerPerson(Row):
    """Version 1."""

    id: str
    name: str = ""
    age: str = "0"
    team: str = ""


def _renamed_and_retyped(fields: dict[str, Any]) -> dict[str, Any]:
    name, age = fields.pop("name"), int(fields.pop("age"))
    return {**fields, "full_name": name, "age": age}


@table(
    "people",
    key="id",
    version=3,
    indices={
        "by_team": Index("team", since=1), "by_age": Index("age"), "by_name": Index("full_name", is_unique=True, since=2),
    },
    upgrades={1: _renamed_and_retyped},
)  # fmt: skip
@attrs.frozen
class Person(Row):
    """Version 3: a column is renamed, one is an int, there are two indices more; version 2 had the same columns."""

    id: str
    full_name: str | None = None
    age: int = 0
    team: str = ""
    is_new: bool = False


async def _fill(tables: Tables, count: int) -> None:
    async with tables.transaction() as t:
        for number in range(count):
            t.put(FormerPerson(f"{number:03}", f"name {number}", str(number), team="x", unknown={"shoes": number}))


def _schemas(world: TableWorld) -> list[int]:
    return _schemas_of(world, Person)


def _schemas_of(world: TableWorld, kind: type[Row]) -> list[int]:
    return [row.schema for row in stored(world.store(), kind).values()]


async def test_rows_are_upgraded_as_they_are_read(autojump_clock: MockClock) -> None:
    """One by one; columns that no program knows stay, and a new column has its default. A reader changes nothing for others."""
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 3)
        person = await tables.get(Person, "002")
        assert person == Person("002", "name 2", 2, "x")
        assert person.unknown == {"shoes": 2}
        assert len(await tables.scan(Person, "x", index="by_team")) == 3, "it has been there since version 1"
        for index in ("by_age", "by_name"):
            with pytest.raises(IndexNotReadyError):
                await tables.scan(Person, index=index)
        assert await tables.get(FormerPerson, "002") is not None
        await tables.put(attrs.evolve(person, age=20))
        assert _schemas(world) == [1, 1, 3]
        found = await tables.get(Person, "002")
        assert found is not None
        assert found.unknown == {"shoes": 2}
        check_consistent_but_for_former_rows(world)


def check_consistent_but_for_former_rows(world: TableWorld) -> None:
    """Each row has the entries that were put with it."""
    for key, row in stored(world.store(), Person).items():
        entries = [*keys.decode_entries(world.store().get(keys.row_entries(b"people", key)))]
        assert len(entries) == (1 if row.schema == 1 else 3)


async def test_a_program_with_a_lower_version_is_refused(autojump_clock: MockClock) -> None:
    """From the first row of the later one on: it would read what it cannot understand, and leave out index entries."""
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 1)

        async def late(t: TableTransaction) -> None:
            assert await t.get(FormerPerson, "000") is not None
            await tables.put(Person("001"))
            t.put(FormerPerson("002"))

        for attempt in (
            lambda: tables.run(late, tries=1),
            lambda: tables.get(FormerPerson, "000"),
            lambda: tables.put(FormerPerson("002")),
            lambda: tables.delete(FormerPerson, "000"),
            lambda: tables.migrate(FormerPerson),
        ):
            with pytest.raises(SchemaTooOldError):
                await attempt()
        assert await tables.get(Person, "002") is None


async def test_a_migration_completes_the_indices(autojump_clock: MockClock) -> None:
    """It rewrites each former row once, and costs nothing when it is done."""
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 25)
        await tables.put(Person("003", "another", 1000))
        assert await tables.migrate(Person, page_rows=7) == 24
        assert set(_schemas(world)) == {3}
        check_consistent(world.store(), Person)
        ages = [person.age for person in await tables.scan(Person, index="by_age")]
        assert ages == [*range(3), *range(4, 25), 1000]
        assert await tables.scan(Person, "name 9", index="by_name") == [Person("009", "name 9", 9, "x")]
        number = world.handles[1].database.tables.number
        assert await tables.migrate(Person) == 0
        assert world.handles[1].database.tables.number == number


async def test_a_migration_stops_at_rows_that_are_not_unique(autojump_clock: MockClock) -> None:
    """Its caller changes one of them, and repeats it."""
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 10)
        await tables.put(FormerPerson("010", "name 3"))
        with pytest.raises(UniqueViolationError, match="by_name"):
            await tables.migrate(Person, page_rows=2)
        with pytest.raises(IndexNotReadyError):
            await tables.scan(Person, index="by_name")
        await tables.put(Person("010", "name 10"))
        await tables.migrate(Person, page_rows=2)
        assert len(await tables.scan(Person, index="by_name")) == 11


async def test_a_row_that_is_changed_meanwhile_is_not_overwritten(autojump_clock: MockClock) -> None:
    """A page of a migration is a transaction like any other."""
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 3)

        async def upgrade(t: TableTransaction) -> None:
            assert t.upgrade_page(schema_of(Person), b"", 10, 1 << 20) == (3, None)
            await tables.put(Person("001", "changed"))

        with pytest.raises(ConflictError):
            await tables.run(upgrade, tries=1)
        assert await tables.get(Person, "001") == Person("001", "changed")
        assert await tables.migrate(Person) == 2


async def test_a_page_of_large_rows_is_short(autojump_clock: MockClock) -> None:
    """So that it fits into a transaction."""
    async with worlds() as world:
        tables = await world.tables()
        for number in range(5):
            await tables.put(FormerPerson(f"{number}", f"name {number}", "1", unknown={"photo": "x" * 900_000}))
        assert await tables.migrate(Person) == 5


def _later(version: int, upgrade: Callable[[dict[str, Any]], dict[str, Any]]) -> type[Row]:
    """A later version of the table, with the columns of the first one."""
    decorated: Callable[[type[Row]], type[Row]] = table("people", key="id", version=version, upgrades={1: upgrade})
    return decorated(attrs.make_class("Later", {}, bases=(FormerPerson,)))


async def test_a_page_of_rows_that_grow_is_short(autojump_clock: MockClock) -> None:
    """What counts is the rows as they are put, also where they are much larger than before."""
    kind = _later(2, lambda fields: {**fields, "name": fields["name"] * 100_000})
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 30)
        assert await tables.migrate(kind) == 30
        assert set(_schemas_of(world, kind)) == {2}


@pytest.mark.parametrize("page_rows", [0, -1, 10_001])
async def test_a_page_has_rows(page_rows: int, autojump_clock: MockClock) -> None:
    """Another number is refused before anything is written."""
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 1)
        with pytest.raises(InvalidSettingError):
            await tables.migrate(Person, page_rows=page_rows)
        assert await tables.get(FormerPerson, "000") is not None


async def test_a_first_page_that_cannot_be_upgraded_refuses_no_program(autojump_clock: MockClock) -> None:
    """The table has the version of its first upgraded row: a wrong upgrade is found before programs of the former one are stopped."""
    kind = _later(2, lambda fields: {**fields, "age": None})
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 3)
        with pytest.raises(MalformedError):
            await tables.migrate(kind)
        await tables.put(FormerPerson("001", "still used"))


async def test_a_migration_leaves_only_a_row_that_is_too_large(autojump_clock: MockClock) -> None:
    """Rows before it are upgraded, also those of its page."""
    kind = _later(2, lambda fields: {**fields, "name": fields["name"] * (200_000 if fields["id"] == "013" else 1)})
    async with worlds() as world:
        tables = await world.tables()
        await _fill(tables, 15)
        with pytest.raises(TooLargeError):
            await tables.migrate(kind)
        assert _schemas_of(world, kind) == [2] * 13 + [1] * 2


class Interrupted(Tables):
    """Tables with a call between the reads of the first transaction and its end."""

    def __init__(self, tables: Tables, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(tables._handle)
        self._calls = iter([meanwhile])

    async def run(self, function: Callable[[TableTransaction], Awaitable[Any]], **settings: Any) -> Any:
        """See `Tables.run`."""

        async def interrupted(t: TableTransaction) -> Any:
            found = await function(t)
            for call in self._calls:
                await call()
            return found

        return await super().run(interrupted, **settings)


@pytest.mark.parametrize("count", [0, 3])
async def test_a_row_put_below_the_first_page_is_upgraded(count: int, autojump_clock: MockClock) -> None:
    """A program of a lower version may put it while that page is made, which raises the version; also into an empty table."""
    async with worlds() as world:
        one, other = await world.tables(1), await world.tables(2)
        await _fill(one, count)
        tables = Interrupted(one, lambda: other.put(FormerPerson("-1", "meanwhile")))
        assert await tables.migrate(Person, page_rows=2) == count + 1
        assert set(_schemas(world)) == {3}
        assert await one.scan(Person, "meanwhile", index="by_name") == [Person("-1", "meanwhile")]


async def test_an_empty_table_is_complete(autojump_clock: MockClock) -> None:
    """Its indices can be read at once, before and behind the first row."""
    async with worlds() as world:
        tables = await world.tables()
        assert await tables.scan(Person, index="by_age") == []
        await tables.put(Person("1", age=1))
        assert await tables.scan(Person, index="by_age") == [Person("1", age=1)]


@pytest.mark.parametrize("seed", range(4))
async def test_a_table_is_used_while_it_is_migrated(seed: int, autojump_clock: MockClock) -> None:
    """By programs of both versions at two replicas; two migrations run at once, are cancelled and repeated. No increment is lost."""
    chance, added = random.Random(seed), list[int]()
    async with worlds() as world:
        one, other = await world.tables(1), await world.tables(2)
        await _fill(one, 30)
        before = sum(range(30))

        async def grow(tables: Tables, kind: Any) -> None:
            for _ in range(25):
                amount, key = chance.randint(1, 9), f"{chance.randrange(30):03}"

                async def work(t: TableTransaction, amount: int = amount, key: str = key) -> None:
                    row = await t.get(kind, key)
                    assert row is not None
                    t.put(attrs.evolve(row, age=type(row.age)(int(row.age) + amount)))

                try:
                    await tables.run(work, tries=50)
                except SchemaTooOldError:
                    return
                added.append(amount)
                await trio.sleep(chance.uniform(0, 0.05))

        async def migrate(tables: Tables) -> None:
            with trio.move_on_after(chance.uniform(0.01, 0.1)):
                await tables.migrate(Person, page_rows=2)
            await tables.migrate(Person, page_rows=3)

        async with trio.open_nursery() as nursery:
            for tables in (one, other):
                nursery.start_soon(grow, tables, FormerPerson)
            await trio.sleep(0.1)
            for tables in (one, other):
                nursery.start_soon(grow, tables, Person)
                nursery.start_soon(migrate, tables)
        assert set(_schemas(world)) == {3}
        check_consistent(world.store(), Person)
        people = await one.scan(Person, index="by_age", linearizable=True)
        assert len(people) == 30
        assert sum(person.age for person in people) == before + sum(added)
        assert all(person.unknown == {"shoes": int(person.id)} for person in people)


@pytest.mark.parametrize("seed", range(4))
async def test_a_migration_that_a_crash_ends_is_repeated(seed: int, autojump_clock: MockClock) -> None:
    """It continues with the rows that are left."""
    chance = random.Random(seed)
    async with worlds() as world:
        one, other = await world.tables(1), await world.tables(2)
        await _fill(one, 30)

        async def migrate() -> None:
            with suppress(VirtualLogError, CrashedError):
                await one.migrate(Person, page_rows=2)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(migrate)
            await trio.sleep(chance.uniform(0, 0.2))
            await world.crash(1, chance)
        await other.migrate(Person, page_rows=4)
        people = await one.scan(Person, index="by_age", linearizable=True)
        assert [person.age for person in people] == [*range(30)]
        check_consistent(world.store(), Person)
