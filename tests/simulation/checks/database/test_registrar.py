"""Registrars, judged by the updates that were stored."""

from __future__ import annotations

from virtuallog_database.registrar.core import ownership
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP, Ownership
from virtuallog_database.registrar.core.tables import encode_key
from virtuallog_database.state.core.variable_commands import Update
from virtuallog_simulation.checks.database.registrar import (
    FENCED,
    ORDERED,
    SAME,
    STORED,
    AnsweredOperation,
    answered_is_stored,
    fenced,
    registry_of,
    same_registry,
    without_repetitions,
)


def record(table: str, key: str, value: bytes) -> tuple[bytes, bytes]:
    """A put of a record."""
    return b"r" + encode_key(table, key), bytes(8) + value


def recovery(owner: str, version: bytes) -> Update:
    """The first store of an owner."""
    put = record(OWNERSHIP.name, KEY, ownership.encode(Ownership(owner, 1)))
    return Update(name=b"n", expected=b"", version=version, puts=[put])


def batch(owner: str, version: bytes, *keys: str) -> Update:
    """A store of operations that put these keys."""
    return Update(name=b"n", expected=b"", version=version, puts=[record("keys", key, owner.encode()) for key in keys])


def answer(key: str, offered: float, answered: float) -> AnsweredOperation:
    return AnsweredOperation("keys", key, offered, answered)


STORY = [recovery("one", b"1"), batch("one", b"2", "a", "b"), recovery("two", b"3"), batch("two", b"4", "c")]


def test_a_story_without_a_fault() -> None:
    """Each owner stores behind its recovery, and what was answered is stored in order."""
    answers = [answer("a", 1.0, 2.0), answer("b", 1.0, 2.0), answer("c", 2.5, 3.0)]

    assert [*fenced(STORY)] == [*answered_is_stored(STORY, answers)] == []
    assert [*same_registry(STORY, registry_of(STORY))] == []


def test_a_deposed_owner_that_stores() -> None:
    """Behind the recovery of another one."""
    assert [each.check for each in fenced([*STORY, batch("one", b"5", "d")])] == [FENCED]


def test_a_repetition_is_no_second_store() -> None:
    """The first attempt was not answered, so the same version is offered again. A version that comes back later is a fault."""
    twice = [*STORY, STORY[3]]
    back = [*STORY, STORY[1]]

    assert without_repetitions(twice) == STORY
    assert without_repetitions(back) == back
    assert {each.check for each in answered_is_stored(without_repetitions(back), [answer("a", 1.0, 2.0)])} == {STORED}


def test_an_answer_without_a_store() -> None:
    """The operation was answered as permitted, and no update has its record."""
    assert [each.check for each in answered_is_stored(STORY, [answer("d", 1.0, 2.0)])] == [STORED]


def test_a_store_behind_a_later_answer() -> None:
    """It was answered before another one was offered, and is stored behind that one. Those that overlap may be in any order."""
    late, early = answer("c", 1.0, 2.0), answer("a", 3.0, 4.0)

    assert [each.check for each in answered_is_stored(STORY, [late, early])] == [ORDERED]
    assert [*answered_is_stored(STORY, [answer("c", 1.0, 5.0), early])] == []


def test_a_load_of_other_records() -> None:
    """One is missing, one is there too often."""
    loaded = registry_of(STORY)
    lost = {key: value for key, value in loaded.items() if key != encode_key("keys", "a")}

    assert [each.check for each in same_registry(STORY, lost)] == [SAME]
    assert [each.check for each in same_registry(STORY, {**loaded, encode_key("keys", "x"): b""})] == [SAME]
