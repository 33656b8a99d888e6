"""Commands of tables on a store in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.database.table.table_world import Account, check_consistent, stored
from virtuallog.contract.errors import UnsupportedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.enabled_engines import TABLE, key_of
from virtuallog_database.ports import StoreReader
from virtuallog_database.table.core import execution, keys
from virtuallog_database.table.core.commands import ROWS, Commit, RangeCheck, RowCheck, RowDelete, RowPut
from virtuallog_database.table.core.execution import CommitResult, Verdict
from virtuallog_database.table.schema import schema_of
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.testing.metered_store import MeteredStore
from virtuallog_database.transaction import StoreTransaction

SCHEMA = schema_of(Account)
USE = SCHEMA.use


@attrs.define
class Machine:
    """A store that commands are executed on."""

    store: Any = attrs.field(factory=lambda: MemoryDisk().open())

    def __attrs_post_init__(self) -> None:
        self.store.write({key_of(TABLE): b"\1" + LogPosition(1).to_bytes(8, "big")})

    def commit(self, **parts: Any) -> CommitResult:
        transaction = StoreTransaction(self.store)
        result = execution.apply(transaction, Commit(**{"tables": (USE,), **parts}))
        if result.verdict is not Verdict.DONE:
            assert not transaction.changed, "a refused command leaves nothing"
        transaction.commit()
        return result

    def put(self, *rows: Account, **parts: Any) -> CommitResult:
        return self.commit(puts=tuple(put_of(row) for row in rows), **parts)

    def rows(self) -> Mapping[bytes, Account]:
        return {key: SCHEMA.decode(key, row) for key, row in stored(self.store, Account).items()}


def put_of(row: Account) -> RowPut:
    return RowPut(0, SCHEMA.key_of(row), SCHEMA.encode(row), SCHEMA.entries_of(row))


def key_of_row(name: str) -> bytes:
    return SCHEMA.encode_key([name])


ROWS_TO_PUT = st.builds(
    Account, st.sampled_from("abcd"), st.sampled_from(["x", "y", "y\0"]), st.none() | st.sampled_from(["1", "2", "3"])
)
STEPS = st.lists(
    st.tuples(
        st.lists(ROWS_TO_PUT, max_size=3, unique_by=lambda row: row.id),
        st.lists(st.sampled_from("abcd"), max_size=2, unique=True),
        st.dictionaries(st.sampled_from("abcd"), st.booleans(), max_size=2),
    ),
    max_size=12,
)


@given(STEPS)
@settings(max_examples=40)
def test_rows_and_indices_are_those_of_a_model(steps: list[tuple[list[Account], list[str], dict[str, bool]]]) -> None:
    """A dict of rows: checks that hold, no e-mail twice, and then all or nothing; index entries are always those of the rows."""
    machine, model, versions = Machine(), dict[str, Account](), dict[str, int]()
    for number, (rows, gone, checked) in enumerate(steps, 1):
        deletes = [name for name in gone if name not in {row.id for row in rows}]
        checks = tuple(
            RowCheck(0, key_of_row(name), versions.get(name, 0) if is_right else number + 100)
            for name, is_right in checked.items()
        )
        result = machine.put(*rows, deletes=tuple(RowDelete(0, key_of_row(name)) for name in deletes), checks=checks)
        after = {name: row for name, row in model.items() if name not in deletes} | {row.id: row for row in rows}
        emails = [row.email for row in after.values() if row.email is not None]
        if not all(checked.values()):
            assert result.verdict is Verdict.CONFLICT
        elif len(set(emails)) < len(emails):
            assert (result.verdict, result.index) == (Verdict.NOT_UNIQUE, b"by_email")
        else:
            assert result.verdict is Verdict.DONE
            model = after
            versions = {name: version for name, version in versions.items() if name not in deletes}
            versions |= {row.id: result.number for row in rows}
        assert {row.id: row for row in machine.rows().values()} == model
        assert {row.version for row in stored(machine.store, Account).values()} == set(versions.values())
        check_consistent(machine.store, Account)


def test_a_row_that_came_back_is_another_one() -> None:
    """The numbers of commits never come back, so a check does not take a new row for the former one."""
    machine = Machine()
    first = machine.put(Account("a")).number
    assert machine.commit(deletes=(RowDelete(0, key_of_row("a")),)).number == first + 1
    assert machine.put(Account("a")).number == first + 2
    assert machine.commit(checks=(RowCheck(0, key_of_row("a"), first),)).verdict is Verdict.CONFLICT
    assert machine.commit(checks=(RowCheck(0, key_of_row("a"), first + 2),)) == CommitResult(Verdict.DONE)


def test_rows_exchange_a_unique_value_in_one_command() -> None:
    """All former entries go first."""
    machine = Machine()
    machine.put(Account("a", email="1"), Account("b", email="2"))
    assert machine.put(Account("a", email="2")).verdict is Verdict.NOT_UNIQUE
    assert machine.put(Account("a", email="2"), Account("b", email="1")).verdict is Verdict.DONE
    assert machine.put(Account("c", email="2"), deletes=(RowDelete(0, key_of_row("a")),)).verdict is Verdict.DONE
    check_consistent(machine.store, Account)


@pytest.mark.parametrize(
    ("change", "is_conflict"),
    [
        ([Account("bb")], True), ([Account("a", owner="x")], False), ([Account("d")], False), ([Account("c", balance=1)], False),
        ([], False),
    ],
)  # fmt: skip
def test_a_range_has_no_phantoms(change: list[Account], is_conflict: bool) -> None:
    """Another key in the span is a conflict; another content of a row, or a key outside, is none of a range."""
    machine = Machine()
    machine.put(Account("a"), Account("b"), Account("c"))
    span = RangeCheck(0, ROWS, key_of_row("b"), key_of_row("d"), (key_of_row("b"), key_of_row("c")))
    machine.put(*change)
    assert (machine.commit(ranges=(span,)).verdict is Verdict.CONFLICT) == is_conflict
    machine.commit(deletes=(RowDelete(0, key_of_row("b")),))
    assert machine.commit(ranges=(span,)).verdict is Verdict.CONFLICT


def test_tables_are_apart() -> None:
    """Rows of a table whose name begins with that of another one are not in its spans."""
    machine = Machine()
    other = attrs.evolve(USE, name=b"accounts2")
    machine.put(Account("a", email="1"))
    row = put_of(Account("a", email="1"))
    assert machine.commit(tables=(other,), puts=(row,)).verdict is Verdict.DONE
    whole = RangeCheck(0, ROWS, b"", b"", (key_of_row("a"),))
    assert machine.commit(ranges=(whole,)).verdict is Verdict.DONE
    check_consistent(machine.store, Account)


def test_a_check_costs_the_same_for_a_large_row() -> None:
    """Versions stand apart from the rows, so the work of a command is bounded by its own bytes."""
    machine, metered = metered_machine()
    number = machine.put(*(Account(f"{each:02}", note="x" * 100_000) for each in range(5))).number
    found = tuple(key_of_row(f"{each:02}") for each in range(5))
    checks = tuple(RowCheck(0, key, number) for key in found)
    read = metered.read + metered.scanned
    assert machine.commit(checks=checks, ranges=(RangeCheck(0, ROWS, b"", b"", found),)).verdict is Verdict.DONE
    assert metered.read + metered.scanned - read < 1000


def test_a_range_reads_one_key_more_than_it_names() -> None:
    """A short command cannot make replicas scan a long table."""
    machine, metered = metered_machine()
    machine.put(*(Account(f"{each:03}") for each in range(500)))
    visited = metered.visited
    assert machine.commit(ranges=(RangeCheck(0, ROWS, b"", b"", ()),)).verdict is Verdict.CONFLICT
    assert metered.visited - visited == 1


def metered_machine() -> tuple[Machine, MeteredStore]:
    store = MeteredStore(MemoryDisk(), None, None)
    return Machine(store), store


def test_tables_are_refused_until_they_are_enabled() -> None:
    """All replicas refuse alike; a former one does not know the command."""
    with pytest.raises(UnsupportedError):
        execution.apply(StoreTransaction(MemoryDisk().open()), Commit(tables=(USE,)))


def test_schemas_are_compared() -> None:
    """A program of a lower version, another key, or other indices under the same version are refused; a put raises the version."""
    machine = Machine()
    machine.put(Account("a"))
    later = attrs.evolve(USE, version=3, index_layout=7)
    assert machine.commit(tables=(attrs.evolve(USE, index_layout=7),)).verdict is Verdict.SCHEMA_DIFFERS
    assert machine.commit(tables=(attrs.evolve(later, key_layout=7),)).verdict is Verdict.SCHEMA_DIFFERS
    machine.commit(tables=(later,), deletes=(RowDelete(0, b"none"),))
    assert _head(machine.store) == (1, 1), "only a put needs the later version"
    machine.commit(tables=(later,), puts=(put_of(Account("b")),))
    assert _head(machine.store) == (3, 1)
    assert machine.put(Account("a")).verdict is Verdict.PROGRAM_TOO_OLD
    assert machine.commit(deletes=(RowDelete(0, key_of_row("a")),)).verdict is Verdict.PROGRAM_TOO_OLD
    machine.commit(tables=(attrs.evolve(later, completes=True),))
    assert _head(machine.store) == (3, 3)


def _head(store: StoreReader) -> tuple[int, int]:
    head = keys.TableHead.decode(store.get(keys.head(USE.name)))
    assert head is not None
    return head.version, head.complete
