"""Agreements between the real ZooKeeper and the simulated one. Each is asked through two clients,
below its own znode."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.znodes import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    NotEmptyError,
    NoZnodeError,
    Operation,
    RefusedError,
    Set,
    Stat,
    ZnodeExistsError,
    Znodes,
)

Agreement: TypeAlias = Callable[[Znodes, Znodes, str], Awaitable[None]]
MIB = 1 << 20


async def what_was_created_is_read(one: Znodes, other: Znodes, root: str) -> None:
    """Data, also none, and a version of 0; a fresh read of another client sees it."""
    assert await one.multi([Create(f"{root}/a", b"data"), Create(f"{root}/b")]) == [f"{root}/a", f"{root}/b"]
    full, empty, missing = await other.read([f"{root}/a", f"{root}/b", f"{root}/c"], fresh=True)
    assert full is not None
    assert empty is not None
    assert (full.data, empty.data, missing) == (b"data", b"", None)
    assert (full.stat.version, full.stat.data_bytes, full.stat.children) == (0, 4, 0)
    assert sorted(await other.children(root, fresh=True) or ()) == ["a", "b"]
    assert await other.children(f"{root}/c") is None
    assert await one.stats([f"{root}/a", f"{root}/c"]) == [full.stat, None]


async def one_transaction_has_one_number_and_time(one: Znodes, _: Znodes, root: str) -> None:
    """All that it creates and sets shows both; the next one has a higher number."""
    await one.multi([Create(f"{root}/a")])
    stat, *_made = await one.multi([Set(f"{root}/a", b"1"), Create(f"{root}/b"), Create(f"{root}/b/c")])
    assert isinstance(stat, Stat)
    a, b, c = [found for found in await one.stats([f"{root}/a", f"{root}/b", f"{root}/b/c"]) if found is not None]
    assert a == stat
    assert a.czxid < a.mzxid == b.czxid == b.mzxid == c.czxid
    assert b.ctime_ms == c.ctime_ms >= a.ctime_ms
    await one.multi([Set(f"{root}/b", b"1")])
    (later,) = await one.stats([f"{root}/b"])
    assert later is not None
    assert later.mzxid > later.czxid == b.czxid


async def versions_count_sets(one: Znodes, other: Znodes, root: str) -> None:
    """A set or check of another version is refused, also if a transaction has set it itself before."""
    await one.multi([Create(f"{root}/a"), Set(f"{root}/a", b"1", 0), Set(f"{root}/a", b"2", 1), Check(f"{root}/a", 2)])
    (stat,) = await one.multi([Set(f"{root}/a", b"3", 2)])
    assert isinstance(stat, Stat)
    assert stat.version == 3
    await refused(other, BadVersionError, 0, [Set(f"{root}/a", b"x", 2)])
    await refused(other, BadVersionError, 1, [Check(f"{root}/a", 3), Check(f"{root}/a", 0)])
    await refused(other, BadVersionError, 1, [Set(f"{root}/a", b"x"), Set(f"{root}/a", b"y", 3)])
    await refused(other, BadVersionError, 0, [Delete(f"{root}/a", 2)])
    assert await other.multi([Check(f"{root}/a", ANY_VERSION), Check("/", ANY_VERSION)]) == [None, None]
    (found,) = await other.read([f"{root}/a"], fresh=True)
    assert found is not None
    assert (found.data, found.stat.version) == (b"3", 3)


async def a_refused_transaction_does_nothing(one: Znodes, _: Znodes, root: str) -> None:
    """The first operation that is not possible is named; what came before it is undone."""
    await one.multi([Create(f"{root}/a", b"1"), Create(f"{root}/a/child")])
    first: list[Operation] = [Create(f"{root}/b"), Set(f"{root}/a", b"2"), Delete(f"{root}/a/child")]
    await refused(one, ZnodeExistsError, 3, [*first, Create(f"{root}/a"), Delete(f"{root}/nothing")])
    await refused(one, NoZnodeError, 3, [*first, Delete(f"{root}/nothing"), Create(f"{root}/a")])
    await refused(one, NoZnodeError, 0, [Set(f"{root}/nothing", b"")])
    await refused(one, NoZnodeError, 0, [Check(f"{root}/nothing", 0), *first])
    await refused(one, NoZnodeError, 0, [Create(f"{root}/nothing/child")])
    await refused(one, NotEmptyError, 0, [Delete(f"{root}/a")])
    a, b, child = await one.read([f"{root}/a", f"{root}/b", f"{root}/a/child"], fresh=True)
    assert a is not None
    assert (a.data, a.stat.version, b) == (b"1", 0, None)
    assert child is not None


async def numbers_count_all_children_ever(one: Znodes, other: Znodes, root: str) -> None:
    """Also those with a name of their own, and those that are gone; a refused transaction uses none up."""
    await one.multi([Create(f"{root}/a")])
    await one.multi([Create(f"{root}/a/x-", sequence=True), Create(f"{root}/a/named")])
    await other.multi([Delete(f"{root}/a/x-0000000000")])
    await refused(one, NoZnodeError, 1, [Create(f"{root}/a/x-", sequence=True), Check(f"{root}/nothing", 0)])
    await refused(one, NoZnodeError, 0, [Check(f"{root}/nothing", 0), Create(f"{root}/a/x-", sequence=True)])
    made = await one.multi([Create(f"{root}/a/y-", sequence=True), Create(f"{root}/a/x-", sequence=True)])
    assert made == [f"{root}/a/y-0000000002", f"{root}/a/x-0000000003"]
    assert sorted(await one.children(f"{root}/a") or ()) == ["named", "x-0000000003", "y-0000000002"]


async def the_version_of_children_tells_how_many_there_were(one: Znodes, _: Znodes, root: str) -> None:
    """It counts creations and deletions, so with those that are left it gives the number of the next one."""
    await one.multi([Create(f"{root}/a")])
    for created, deletes in ((3, ()), (5, (0, 2)), (6, (1, 3, 4))):
        (stat,) = await one.stats([f"{root}/a"])
        assert stat is not None
        count = (stat.cversion + stat.children) // 2
        await one.multi([Create(f"{root}/a/x-", sequence=True) for _ in range(created - count)])
        await one.multi([Delete(f"{root}/a/x-{number:010d}") for number in deletes] or [Check(root, ANY_VERSION)])
        (stat,) = await one.stats([f"{root}/a"], fresh=True)
        assert stat is not None
        assert (stat.cversion + stat.children) // 2 == created
        assert stat.version == 0


async def a_znode_that_is_made_again_is_another_one(one: Znodes, _: Znodes, root: str) -> None:
    """Its version begins at 0, in another transaction; within one transaction, too."""
    await one.multi([Create(f"{root}/a"), Set(f"{root}/a", b"1")])
    (before,) = await one.stats([f"{root}/a"])
    await one.multi([Delete(f"{root}/a"), Create(f"{root}/a")])
    (after,) = await one.stats([f"{root}/a"])
    assert before is not None
    assert after is not None
    assert (before.version, after.version) == (1, 0)
    assert before.czxid < after.czxid


async def a_fresh_read_shows_what_was_done_before(one: Znodes, other: Znodes, root: str) -> None:
    """However far the server lags that answers."""
    await one.multi([Create(f"{root}/a")])
    for number in range(1, 6):
        await one.multi([Set(f"{root}/a", b"%d" % number)])
        (stat,) = await other.stats([f"{root}/a"], fresh=True)
        assert stat is not None
        assert stat.version == number


async def a_fresh_read_takes_a_transaction(one: Znodes, _: Znodes, root: str) -> None:
    """One with a number of its own, which a quorum has to agree to; a plain read takes none."""
    await one.multi([Create(f"{root}/a")])
    for fresh in (False, True):
        before = await _set_number(one, f"{root}/a")
        await one.stats([root], fresh=fresh)
        after = await _set_number(one, f"{root}/a")
        assert after - before == 1 + fresh


async def _set_number(znodes: Znodes, path: str) -> int:
    (stat,) = await znodes.multi([Set(path, b"")])
    assert isinstance(stat, Stat)
    return stat.mzxid


async def too_large_a_request_is_not_answered(one: Znodes, other: Znodes, root: str) -> None:
    """ZooKeeper closes the connection. Nothing was done, and afterwards the client is as good as before."""
    await one.multi([Create(f"{root}/a", bytes(MIB - 50_000))])
    with pytest.raises(UnavailableError):
        await one.multi([Create(f"{root}/b", bytes(MIB + 50_000))])
    a, b = await one.stats([f"{root}/a", f"{root}/b"], fresh=True)
    assert a is not None
    assert b is None
    assert (await other.multi([Delete(f"{root}/a")])) == [None]


async def refused(znodes: Znodes, error_class: type[RefusedError], index: int, operations: Sequence[Operation]) -> None:
    with pytest.raises(RefusedError) as caught:
        await znodes.multi(operations)
    assert (type(caught.value), caught.value.index) == (error_class, index)
    assert caught.value.operation is operations[index]


AGREEMENTS: Sequence[Agreement] = (
    what_was_created_is_read,
    one_transaction_has_one_number_and_time,
    versions_count_sets,
    a_refused_transaction_does_nothing,
    numbers_count_all_children_ever,
    the_version_of_children_tells_how_many_there_were,
    a_znode_that_is_made_again_is_another_one,
    a_fresh_read_shows_what_was_done_before,
    a_fresh_read_takes_a_transaction,
    too_large_a_request_is_not_answered,
)
