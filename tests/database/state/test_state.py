"""State over each storage: Mesos' own cases, by their names, and what becomes of lost answers, races and cancelled calls."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from tests.database.state.clients import STORAGES, Deaf, Opened, cancelled_at
from tests.metastore.world import simulated
from virtuallog.contract.errors import InvalidSettingError, TooLargeError
from virtuallog_database.state.errors import OutcomeUnknownError, StaleVersionError
from virtuallog_database.state.state import State
from virtuallog_database.state.variable import NAME_BYTES_MAX, Variable

LATE_SECONDS = 10.0
"""Longer than any request is on its way."""
NAMES = ["/", "a/b", "../..", ".", "..", "a.b", "%2F", "~", " ", "\0", "\N{GREEK SMALL LETTER ALPHA}/\N{SNOWMAN}", "x" * NAME_BYTES_MAX]  # fmt: skip


@pytest.fixture(params=list(STORAGES.values()), ids=list(STORAGES))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens two clients of a new storage, of each kind."""
    return partial(request.param, tmp_path)


async def stored(state: State, name: str, value: bytes) -> Variable:
    """The variable after one more store."""
    return await state.store((await state.fetch(name)).mutate(value))


async def value(state: State, name: str) -> bytes | None:
    """The value as it is fetched; None if it is not stored."""
    found = await state.fetch(name)
    return found.value if found.is_stored else None


# -- the cases of Mesos, src/tests/state_tests.cpp ----------------------------------------------------------------------


@simulated
async def test_fetch_and_store_and_fetch(opened: Opened) -> None:
    """A name without a value has an empty variable. What is stored is fetched, by any client."""
    async with opened() as clients:
        state, other = clients.state(), clients.state(clients.second)
        fresh = await state.fetch("slaves")
        assert (fresh.value, fresh.is_stored) == (b"", False)

        kept = await state.store(fresh.mutate(b"slave"))

        assert await other.fetch("slaves") == kept
        assert kept.value == b"slave"
        assert kept.is_stored


@simulated
async def test_fetch_and_store_and_store_and_fetch(opened: Opened) -> None:
    """The variable that a store returns can be stored again, at once. Each store gives another version, of the same value too."""
    async with opened() as clients:
        state = clients.state()
        first = await stored(state, "slaves", b"one")
        second = await state.store(first.mutate(b"two"))
        third = await state.store(second)

        assert len({first.version, second.version, third.version}) == 3
        assert await clients.state(clients.second).fetch("slaves") == third


@simulated
async def test_fetch_and_store_and_store_fail_and_fetch(opened: Opened) -> None:
    """The variable from before the first store is stale. Mesos returns None; here it is an error that says that nothing was done."""
    async with opened() as clients:
        state = clients.state()
        fresh = await state.fetch("slaves")
        kept = await state.store(fresh.mutate(b"one"))

        with pytest.raises(StaleVersionError, match="nothing was stored"):
            await clients.state(clients.second).store(fresh.mutate(b"two"))

        assert await state.fetch("slaves") == kept


@simulated
async def test_fetch_and_store_and_expunge_and_fetch(opened: Opened) -> None:
    """An expunged variable is as if it had never been."""
    async with opened() as clients:
        state = clients.state()
        kept = await stored(state, "slaves", b"one")

        assert await clients.state(clients.second).expunge(kept)

        assert await value(state, "slaves") is None


@simulated
async def test_fetch_and_store_and_expunge_and_expunge(opened: Opened) -> None:
    """The second expunge finds nothing; nor does one of a stale version."""
    async with opened() as clients:
        state, other = clients.state(), clients.state(clients.second)
        first = await stored(state, "slaves", b"one")
        second = await state.store(first.mutate(b"two"))
        assert not await other.expunge(first)
        assert await state.expunge(second)
        assert not await state.expunge(second)
        assert not await other.expunge(second)


@simulated
async def test_fetch_and_store_and_expunge_and_store_and_fetch(opened: Opened) -> None:
    """A variable from before its expunge can be stored again, as nothing is there to compare with."""
    async with opened() as clients:
        state = clients.state()
        kept = await stored(state, "slaves", b"one")
        assert await state.expunge(kept)

        again = await clients.state(clients.second).store(kept.mutate(b"two"))

        assert await state.fetch("slaves") == again


@simulated
async def test_names(opened: Opened) -> None:
    """All names with a value, and no others."""
    async with opened() as clients:
        state, other = clients.state(), clients.state(clients.second)
        assert await state.names() == set()
        one = await stored(state, "one", b"1")
        await stored(other, "two", b"2")
        await state.fetch("three")
        assert await state.names() == await other.names() == {"one", "two"}
        await other.expunge(one)
        assert await state.names() == await other.names() == {"two"}


# -- beyond Mesos -----------------------------------------------------------------------------------------------------


@simulated
async def test_a_name_may_be_any_text(opened: Opened) -> None:
    """Slashes, dots, zeros, other alphabets and the longest name are different names. Too long, or no text, is refused."""
    async with opened() as clients:
        state, other = clients.state(), clients.state(clients.second)
        for name in NAMES:
            await stored(state, name, name.encode())
        for name in NAMES:
            assert await value(other, name) == name.encode()
        assert await other.names() == set(NAMES)
        for name in ("", "x" * (NAME_BYTES_MAX + 1), "\ud800"):
            with pytest.raises(InvalidSettingError):
                await state.fetch(name)


@simulated
async def test_values_from_none_to_the_largest(opened: Opened) -> None:
    """No bytes are a value, other than none. The largest value of a storage fits, also with the longest name; one byte more does not."""
    async with opened() as clients:
        state, other = clients.state(), clients.state(clients.second)
        name, largest = "x" * NAME_BYTES_MAX, clients.first.value_bytes_max
        empty = await stored(state, name, b"")
        assert await other.fetch(name) == empty
        assert empty.is_stored

        kept = await state.store(empty.mutate(bytes(largest)))
        with pytest.raises(TooLargeError):
            await state.store(kept.mutate(bytes(largest + 1)))
        assert len((await other.fetch(name)).value) == largest
        assert len((await state.store(kept.mutate(b"\1" * largest))).value) == largest


@simulated
async def test_of_two_fresh_fetches_one_store_wins(opened: Opened) -> None:
    """Two clients find no value and both store one: the second store is refused."""
    async with opened() as clients:
        states, outcomes = [clients.state(), clients.state(clients.second)], list[Variable | StaleVersionError]()

        async def store(state: State, variable: Variable) -> None:
            try:
                outcomes.append(await state.store(variable))
            except StaleVersionError as error:
                outcomes.append(error)

        for name in ("a", "b", "c"):
            outcomes.clear()
            fresh = [(await state.fetch(name)).mutate(b"%d" % number) for number, state in enumerate(states)]
            async with trio.open_nursery() as nursery:
                for state, variable in zip(states, fresh, strict=True):
                    nursery.start_soon(store, state, variable)
            (won,) = (each for each in outcomes if isinstance(each, Variable))
            assert len(outcomes) == 2
            assert await states[0].fetch(name) == await states[1].fetch(name) == won


@simulated
async def test_many_clients_count_without_a_loss(opened: Opened) -> None:
    """Each of many tasks adds one, and begins anew where it is stale: all of it is in the sum."""
    async with opened() as clients:

        async def add(state: State) -> None:
            while True:
                found = await state.fetch("sum")
                try:
                    await state.store(found.mutate(b"%d" % (int(found.value or b"0") + 1)))
                except StaleVersionError:
                    continue
                return

        async with trio.open_nursery() as nursery:
            for storage in (clients.first, clients.second) * 4:
                nursery.start_soon(add, clients.state(storage))

        assert await value(clients.state(), "sum") == b"8"


@simulated
async def test_an_old_and_a_fresh_variable_after_an_expunge(opened: Opened) -> None:
    """Both may be stored, once. With `recreate=False` the old one is refused, and a fresh one is not."""
    async with opened() as clients:
        state, other = clients.state(), clients.state(clients.second)
        old = await stored(state, "name", b"old")
        await state.expunge(old)
        with pytest.raises(StaleVersionError):
            await other.store(old, recreate=False)
        assert await value(state, "name") is None

        fresh = await state.store((await other.fetch("name")).mutate(b"fresh"), recreate=False)

        with pytest.raises(StaleVersionError):
            await other.store(old)
        assert await other.fetch("name") == fresh


@simulated
async def test_a_lost_answer_is_found_by_the_repetition(opened: Opened) -> None:
    """Mesos' Registrar ends a healthy master here: it takes its own entry for that of another (defect 14)."""
    async with opened() as clients:
        deaf = Deaf(clients.first)
        state, other = clients.state(deaf), clients.state(clients.second)
        deaf.answers_lost = 2
        first = await stored(state, "name", b"first")
        assert await other.fetch("name") == first
        deaf.answers_lost = deaf.requests_lost = 1
        second = await state.store(first.mutate(b"second"))
        assert await other.fetch("name") == second
        deaf.answers_lost = 1
        assert await state.expunge(second)
        assert await value(other, "name") is None


@simulated
async def test_a_store_that_another_client_replaces_before_its_answer_is_unsure(opened: Opened) -> None:
    """The repetition finds the version of the other client; the error says that the value may have been stored for a while."""
    async with opened() as clients:
        deaf = Deaf(clients.first)
        state, other = clients.state(deaf), clients.state(clients.second)
        first = await stored(state, "name", b"first")
        deaf.answers_lost, deaf.behind = 1, partial(stored, other, "name", b"theirs")

        with pytest.raises(StaleVersionError, match="may have been stored"):
            await state.store(first.mutate(b"mine"))

        assert await value(state, "name") == b"theirs"


@simulated
async def test_a_store_that_another_client_expunges_before_its_answer_is_not_stored_again(opened: Opened) -> None:
    """The repetition finds nothing, and does not bring back what was removed."""
    async with opened() as clients:
        deaf = Deaf(clients.first)
        state, other = clients.state(deaf), clients.state(clients.second)
        first = await stored(state, "name", b"first")

        async def remove() -> None:
            assert await other.expunge(await other.fetch("name"))

        deaf.answers_lost, deaf.behind = 1, remove
        with pytest.raises(StaleVersionError):
            await state.store(first.mutate(b"mine"))
        assert await value(other, "name") is None


@simulated
async def test_a_write_without_any_answer_is_settled_later(opened: Opened) -> None:
    """The error carries the variable. `settle` finds it stored, or not."""
    async with opened() as clients:
        deaf = Deaf(clients.first)
        state, other = clients.state(deaf, settle_seconds=1.0), clients.state(clients.second)
        first = await stored(state, "name", b"first")
        deaf.requests_lost = 1000
        with pytest.raises(OutcomeUnknownError) as never:
            await state.store(first.mutate(b"second"))
        deaf.requests_lost, deaf.answers_lost = 0, 1000
        with pytest.raises(OutcomeUnknownError) as done:
            await state.store(first.mutate(b"third"))

        assert await state.settle(never.value) is None
        third = await state.settle(done.value)

        assert third is not None
        assert await other.fetch("name") == third


@simulated
async def test_a_write_that_is_cancelled_anywhere_is_whole_or_not_at_all(opened: Opened) -> None:
    """Cancelled at each of its waits in turn: the name has the old entry or the new one. Its repetition succeeds, and no earlier attempt
    happens after that."""
    async with opened() as clients:
        for wait in range(1, 1000):
            name = f"name {wait}"
            old, new, last = (clients.entry(b"%d" % number) for number in range(3))
            assert await clients.first.set(name, old, b"", may_create=True)

            was_cancelled = await cancelled_at(
                wait, partial(clients.first.set, name, new, old.version, may_create=False)
            )

            assert await clients.second.get(name) in (old, new)
            assert await clients.first.set(name, new, old.version, may_create=False)
            assert await clients.second.get(name) == new
            assert await clients.first.set(name, last, new.version, may_create=False)
            if not was_cancelled:
                break
        await clients.clock.sleep(LATE_SECONDS)
        for name in await clients.first.names():
            found = await clients.second.get(name)
            assert found is not None
            assert found.value == b"2"
        assert wait < 999


@simulated
async def test_an_expunge_and_a_creation_that_are_cancelled_anywhere(opened: Opened) -> None:
    """The same for these: a creation that comes late does not bring back what was expunged since."""
    async with opened() as clients:
        for wait in range(1, 1000):
            name = f"name {wait}"
            entry = clients.entry(b"value")

            created = not await cancelled_at(wait, partial(clients.first.set, name, entry, b"", may_create=True))
            assert await clients.second.get(name) in (None, entry)
            assert await clients.first.set(name, entry, b"", may_create=True)
            removed = not await cancelled_at(wait, partial(clients.first.expunge, name, entry.version))
            await clients.first.expunge(name, entry.version)
            assert await clients.second.get(name) is None
            if created and removed:
                break
        await clients.clock.sleep(LATE_SECONDS)
        assert await clients.second.names() == set()
        assert wait < 999
