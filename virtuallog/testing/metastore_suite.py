"""The conformance suite for MetaStores: tests the promises of `virtuallog.contract.metastore.MetaStore`.

For authors of MetaStores, ours and third-party ones. It needs a fixture that makes one fresh
register per clause, and no test framework. Each clause is an async function with the promise as its
docstring; under pytest, parametrize over `CLAUSES` and call `run_clause`. The suite cannot break
your servers: that belongs to the simulator.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias

import trio

from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import RegisterPut
from virtuallog.testing.checker.expectations import expect, expect_error
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.recorders import RecordedMetaStore
from virtuallog.testing.checker.register_checks import check_register
from virtuallog.testing.clauses.cancel_points import cancel_at

__all__ = ["CLAUSES", "Clause", "MetaStoreFixture", "run_clause"]


class MetaStoreFixture(Protocol):
    """One register at version 0, used by one clause."""

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Nodes that may be members; at least one that is not a member now is useful."""
        ...

    @property
    def random(self) -> random.Random: ...

    @property
    def clock(self) -> Clock: ...

    async def open(self) -> MetaStore:
        """Return a new client object with no knowledge yet."""
        ...


Clause: TypeAlias = Callable[[MetaStoreFixture], Awaitable[None]]

CLAUSE_SECONDS: Final = 120.0
"""Timeout of one clause on the fixture's clock. It ends an operation that hangs."""

AWAITS_MAX: Final = 200
"""Limit of suspensions of one operation; cancellation clauses stop there."""


async def run_clause(clause: Clause, fixture: MetaStoreFixture) -> None:
    """Run one clause. Raises AssertionError if the promise is broken, or not kept in time."""
    with fixture.clock.timeout(CLAUSE_SECONDS) as scope:
        await clause(fixture)
    expect(not scope.cancelled_caught, f"{clause.__name__}: no result after {CLAUSE_SECONDS} seconds")


async def begins_empty(fixture: MetaStoreFixture) -> None:
    """A register without a write is version 0, and empty."""
    first, second = await fixture.open(), await fixture.open()
    expect(await first.get() == (0, b""), "the first client sees something in a new register")
    expect(await second.get() == (0, b""), "a get has written something")


async def what_was_put_is_read_by_everybody(fixture: MetaStoreFixture) -> None:
    """After a put has returned, every get returns its value, or a newer one; bytes come back as they were."""
    writer, reader = await fixture.open(), await fixture.open()
    values = [b"first", b"", b"\x00\xff" * 1000, fixture.random.randbytes(64 << 10)]
    for version, value in enumerate(values, start=1):
        put = await writer.put(value, version - 1, _attempt(fixture))
        expect(put == version, f"put after version {version - 1} gave version {put}")
        for client in (writer, reader, await fixture.open()):
            expect(await client.get() == (version, value), f"version {version} came back changed")


async def one_writer_wins_a_version(fixture: MetaStoreFixture) -> None:
    """One of many puts for one version returns, the others raise ChainConflictError; all then read
    the winner's."""
    clients = [await fixture.open() for _ in range(5)]
    won: list[bytes] = []

    async def write(client: MetaStore, value: bytes) -> None:
        try:
            await client.put(value, 0, _attempt(fixture))
        except ChainConflictError as error:
            expect(error.expected == 0 and error.found >= 1, f"lost with {error!r}")
        else:
            won.append(value)

    async with trio.open_nursery() as nursery:
        for number, client in enumerate(clients):
            nursery.start_soon(write, client, b"%d" % number)
    expect(len(won) == 1, f"{len(won)} of 5 writers won")
    for client in clients:
        expect(await client.get() == (1, won[0]), "a client does not read the winner's value")


async def equal_bytes_do_not_win(fixture: MetaStoreFixture) -> None:
    """Two puts of identical bytes are two attempts: one wins. A win is known by its attempt."""
    first, second = await fixture.open(), await fixture.open()
    await first.put(b"same", 0, _attempt(fixture))
    error = await expect_error(ChainConflictError, second.put(b"same", 0, _attempt(fixture)), "the same bytes again")
    expect((error.expected, error.found) == (0, 1), f"lost with {error!r}")


async def an_attempt_wins_once(fixture: MetaStoreFixture) -> None:
    """The same attempt may be put again, by any client, also after later versions: it returns its
    version each time."""
    first, second = await fixture.open(), await fixture.open()
    attempt = _attempt(fixture)
    for client in (first, first, second, await fixture.open()):
        expect(await client.put(b"mine", 0, attempt) == 1, "a repeated attempt did not return its version")
    await second.put(b"next", 1, _attempt(fixture))
    for client in (first, second, await fixture.open()):
        expect(await client.put(b"mine", 0, attempt) == 1, "a repeated attempt forgot that it had won")
    expect(await first.get() == (2, b"next"), "a repeated attempt wrote something")


async def a_stale_put_changes_nothing(fixture: MetaStoreFixture) -> None:
    """A put made from an old version raises ChainConflictError, also from a client that knows no newer one."""
    writer, stale = await fixture.open(), await fixture.open()
    await stale.get()
    for version in range(3):
        await writer.put(b"%d" % version, version, _attempt(fixture))
    for client in (stale, writer, await fixture.open()):
        await expect_error(ChainConflictError, client.put(b"late", 0, _attempt(fixture)), "a put made from version 0")
    expect(await stale.get() == (3, b"2"), "a stale put has changed the register")


async def members_change_through_the_register(fixture: MetaStoreFixture) -> None:
    """Members may change with any version; clients that know only the old ones still find the
    newest version."""
    writer, stale = await fixture.open(), await fixture.open()
    await stale.get()
    nodes = sorted(fixture.nodes)
    for version in range(2 * len(nodes)):
        count = 1 + version % len(nodes)
        members = [nodes[(version + offset) % len(nodes)] for offset in range(count)]
        await writer.put(b"%d" % version, version, _attempt(fixture), members)
    newest = (2 * len(nodes), b"%d" % (2 * len(nodes) - 1))
    for client in (stale, await fixture.open(), writer):
        expect(await client.get() == newest, "a client did not find the newest version")


async def a_cancelled_put_may_be_repeated(fixture: MetaStoreFixture) -> None:
    """A put that is cancelled at any await has happened or not; the same attempt, put again,
    settles it."""
    client = await fixture.open()
    for number in range(AWAITS_MAX):
        version, _ = await client.get()
        attempt, value = _attempt(fixture), b"%d" % number
        more = await cancel_at(number, lambda: client.put(value, version, attempt))  # noqa: B023 - run here and now
        put = await client.put(value, version, attempt)
        expect(put == version + 1, f"cancelled at await {number}, a put after version {version} gave {put}")
        expect(await client.get() == (version + 1, value), "the repeated put is not what is read")
        if not more:
            return


async def a_cancelled_get_does_no_harm(fixture: MetaStoreFixture) -> None:
    """A get that is cancelled at any await leaves the client and the register as they were."""
    writer, reader = await fixture.open(), await fixture.open()
    for number in range(AWAITS_MAX):
        await writer.put(b"%d" % number, number, _attempt(fixture))
        more = await cancel_at(number, reader.get)
        expect(await reader.get() == (number + 1, b"%d" % number), "a get after a cancelled one is wrong")
        if not more:
            return


async def concurrent_clients_see_one_register(fixture: MetaStoreFixture) -> None:
    """Many clients that read and write at once agree on one history of versions, in real time."""
    history = History()
    async with trio.open_nursery() as nursery:
        for number in range(4):
            client = RecordedMetaStore(await fixture.open(), history, f"{number}")
            nursery.start_soon(read_and_write, client, fixture, number, 12)
    check_register(history)
    expect(any(put.returned for put in history.operations(RegisterPut)), "no put ever won")


async def read_and_write(client: MetaStore, fixture: MetaStoreFixture, number: int, times: int) -> None:
    """Run a workload: read, change, and put an attempt in doubt again until it is settled."""
    source = random.Random(f"{fixture.random.random()} {number}")
    for change in range(times):
        await fixture.clock.sleep(source.random() * 0.05)
        try:
            version, _ = await client.get()
        except UnavailableError:
            continue
        if source.random() < 0.6:
            await _settled(client, b"%d of %d" % (change, number), version, source.getrandbits(63))


async def _settled(client: MetaStore, value: bytes, version: int, attempt: int) -> None:
    for _ in range(3):  # then it stays in doubt, as if this client had died
        try:
            await client.put(value, version, attempt)
        except UnavailableError:
            continue
        except ChainConflictError:
            pass
        return


def _attempt(fixture: MetaStoreFixture) -> int:
    return fixture.random.getrandbits(63)


CLAUSES: Final[Sequence[Clause]] = (
    begins_empty,
    what_was_put_is_read_by_everybody,
    one_writer_wins_a_version,
    equal_bytes_do_not_win,
    an_attempt_wins_once,
    a_stale_put_changes_nothing,
    members_change_through_the_register,
    a_cancelled_put_may_be_repeated,
    a_cancelled_get_does_no_harm,
    concurrent_clients_see_one_register,
)
