"""The overlay: operations see what the earlier ones of their batch did, and one that raises leaves no trace."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import VirtualLogError
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot, encode_key, encode_slot

LETTERS = RecordTable("letters", str.encode, bytes.decode)
OTHERS = RecordTable("others", str.encode, bytes.decode)
TABLES = (LETTERS, OTHERS)


@attrs.frozen
class Steps:
    """An operation: `a1` puts, `-a` deletes, `!` raises a bug, `?` refuses."""

    text: str
    table: RecordTable[str] = LETTERS

    def perform(self, edit: Edit) -> None:
        for step in self.text.split():
            if step == "!":
                raise ZeroDivisionError
            if step == "?":
                raise NotPermittedError("not now")
            if step[0] == "-":
                edit.delete(self.table, step[1:])
            else:
                edit.put(self.table, step[0], step[1:])

    def perform_on(self, rows: dict[str, str]) -> None:
        """The same on the model."""
        for step in self.text.split():
            if step == "!":
                raise ZeroDivisionError
            if step == "?":
                raise NotPermittedError("not now")
            if step[0] == "-":
                rows.pop(step[1:], None)
            else:
                rows[step[0]] = step[1:]


def stored(*batches: str) -> Registry:
    """A registry after these batches of one operation."""
    registry = Registry()
    for batch in batches:
        edit = Edit(registry)
        edit.run(Steps(batch))
        registry.commit(edit.changes)
    return registry


def text(view: Registry | Edit, table: RecordTable[str] = LETTERS) -> str:
    """Records in order: `a1 b2`."""
    return " ".join(key + record for key, record in view.items(table))


def recovered(registry: Registry) -> Registry:
    """The same registry, read from bytes that come in no particular order."""
    records = {
        encode_key(table.name, key): encode_slot(table, slot)
        for table in TABLES
        for key, slot in reversed([*registry.slots(table.name).items()])
    }
    return Registry.decode_untrusted(records, TABLES)


@pytest.mark.parametrize(
    ("batch", "seen"),
    [
        ("a9", "a9 b1 c1"),
        ("b2 b3", "a1 b3 c1"),
        ("d1", "a1 b1 c1 d1"),
        ("-a", "b1 c1"),
        ("-a a1", "b1 c1 a1"),
        ("-a a2 a3", "b1 c1 a3"),
        ("-b d1 b2", "a1 c1 d1 b2"),
        ("d1 e1 -d d2", "a1 b1 c1 e1 d2"),
        ("-a d1 a2 -d d2 c3", "b1 c3 a2 d2"),
        ("-a -b -c", ""),
        ("d1 -d", "a1 b1 c1"),
        ("-x", "a1 b1 c1"),
    ],
)
def test_records_keep_their_order(batch: str, seen: str) -> None:
    """A record that is replaced stays in its place, one that is added again goes to the end: within the operation, for the next
    one, once it is stored, and after a recovery."""
    registry = stored("a1 b1 c1")
    edit = Edit(registry)

    edit.run(Steps(batch))
    assert text(edit) == seen
    assert text(registry) == "a1 b1 c1"
    registry.commit(edit.changes)
    assert text(registry) == text(recovered(registry)) == seen


def test_order_is_that_of_the_last_addition_in_a_batch() -> None:
    """Also if the first operation that touched a key came before those of other keys, and of other tables."""
    registry = stored("a1")
    edit = Edit(registry)

    for batch, table in (
        ("b1", LETTERS),
        ("x1", OTHERS),
        ("c1", LETTERS),
        ("-b -a", LETTERS),
        ("y1 -x", OTHERS),
        ("b2 x2", OTHERS),
    ):
        assert edit.run(Steps(batch, table))
    assert edit.run(Steps("a2 b2"))
    assert (text(edit), text(edit, OTHERS)) == ("c1 a2 b2", "y1 b2 x2")
    registry.commit(edit.changes)
    assert (text(registry), text(registry, OTHERS)) == ("c1 a2 b2", "y1 b2 x2")
    assert text(recovered(registry), OTHERS) == "y1 b2 x2"


@pytest.mark.parametrize(("failing", "error"), [("!", ZeroDivisionError), ("?", NotPermittedError)])
@pytest.mark.parametrize("effects", ["", "a9", "-a", "d1", "-b d1 b2 -d d3", "c9 -c c8"])
def test_an_operation_that_raises_leaves_no_trace(effects: str, failing: str, error: type[Exception]) -> None:
    """Neither of its changes, nor in the order of those that come after it; and the earlier ones of the batch stand."""
    registry, twin = stored("a1 b1"), stored("a1 b1")
    edit, other = Edit(registry), Edit(twin)

    for each in (edit, other):
        assert each.run(Steps("c1 -a"))
    with pytest.raises(error):
        edit.run(Steps(f"{effects} {failing} z1"))
    assert text(edit) == "b1 c1" and edit.last_changes() == []
    for each in (edit, other):
        assert each.run(Steps("e1 a2"))
    assert edit.changes == other.changes
    assert text(edit) == "b1 c1 e1 a2"


@pytest.mark.parametrize(
    ("batch", "changed"),
    [
        ("", False),
        ("a1", False),
        ("a2 a1", False),
        ("-x", False),
        ("d1 -d", False),
        ("a2", True),
        ("-a a1", True),
        ("-b", True),
    ],
)
def test_changes_are_told_from_none(batch: str, changed: bool) -> None:
    """To put what is there is no change; to add it again is one, since it goes to the end."""
    edit = Edit(stored("a1 b1"))

    assert edit.run(Steps(batch)) == changed
    assert bool(edit.changes) == changed


def test_a_change_that_is_taken_back_by_the_next_operation_is_not_stored() -> None:
    """Each has changed something, and the batch has not."""
    edit = Edit(stored("a1"))

    assert [edit.run(Steps(batch)) for batch in ("a2 b1", "-b a1")] == [True, True]
    assert edit.changes == {}


def test_the_last_operation_can_be_taken_back() -> None:
    """Once: the one before it stays."""
    edit = Edit(stored("a1"))
    assert edit.run(Steps("b1"))
    assert edit.run(Steps("-a b2 c1"))
    assert dict(edit.last_changes()) == {
        ("letters", "a"): None,
        ("letters", "b"): Slot(2, "2"),
        ("letters", "c"): Slot(3, "1"),
    }

    for _ in range(2):
        edit.undo()
        assert text(edit) == "a1 b1"
    assert edit.run(Steps("d1"))
    assert edit.changes == {("letters", "b"): Slot(2, "1"), ("letters", "d"): Slot(3, "1")}


def test_reads_of_one_record() -> None:
    """None where there is none, now; and a deletion says whether there was one."""
    edit = Edit(stored("a1"))

    assert (edit.get(LETTERS, "a"), edit.get(OTHERS, "a"), edit.get(LETTERS, "b")) == ("1", None, None)
    assert (edit.delete(LETTERS, "a"), edit.delete(LETTERS, "a"), edit.get(LETTERS, "a")) == (True, False, None)


def test_a_refusal_has_a_reason() -> None:
    """It is an error of ours, so drivers let it through as such."""
    with pytest.raises(VirtualLogError, match="not now"):
        Edit(Registry()).run(Steps("?"))


STEPS = st.lists(
    st.sampled_from(
        [f"{sign}{key}{value}" for key in "abc" for sign, value in (("", 1), ("", 2), ("-", ""))] + ["!", "?"]
    ),
    max_size=5,
).map(" ".join)
BATCHES = st.lists(st.lists(st.tuples(STEPS, st.sampled_from(TABLES)), max_size=4), max_size=5)


@given(BATCHES)
def test_batches_do_what_a_copied_dict_does(batches: list[list[tuple[str, RecordTable[str]]]]) -> None:
    """A dict that is copied before each operation, and put back if it raises, holds the same records in the same order."""
    registry = Registry()
    model: dict[str, dict[str, str]] = {table.name: {} for table in TABLES}
    for batch in batches:
        edit = Edit(registry)
        for steps, table in batch:
            rows = dict(model[table.name])
            failed = _fails(Steps.perform_on, Steps(steps), rows)
            assert _fails(edit.run, Steps(steps, table)) == failed
            if not failed:
                model[table.name] = rows
            for each in TABLES:
                assert list(edit.items(each)) == list(model[each.name].items())
        registry.commit(edit.changes)
        for view in (registry, recovered(registry)):
            assert [list(view.items(table)) for table in TABLES] == [
                list(model[table.name].items()) for table in TABLES
            ]
            assert [view.count(table) for table in TABLES] == [len(model[table.name]) for table in TABLES]
        registry = recovered(registry)


def _fails(run: Callable[..., object], *arguments: object) -> type[Exception] | None:
    try:
        run(*arguments)
    except (NotPermittedError, ZeroDivisionError) as error:
        return type(error)
    return None
