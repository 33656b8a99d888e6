"""Read-only requests about the tree: what each caller sees, page by page, and never past an ACL without an admin's right."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.server.database.test_role import client_of, life_of, start
from tests.server.node.world import World, make_world
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import ForbiddenError, UnavailableError, UnsupportedError
from virtuallog.contract.ports import Handlers, Request
from virtuallog.contract.types import NodeId
from virtuallog.rpc.security.permissions import Permissions
from virtuallog_database.control.tree_messages import (
    AclReport,
    ChildrenReport,
    ListChildren,
    ListSessions,
    ReadZnode,
    SessionsReport,
    ZnodeReport,
)
from virtuallog_database.control.wire import DATABASE
from virtuallog_database.tree.commands import Acl, Create, Mode, Origin
from virtuallog_server.database.tree_service import TreeService
from virtuallog_server.zookeeper.auth.schemes import SUPER

ONE = NodeId(1)
PRIVATE = (Acl(31, "digest", "user:c2VjcmV0"),)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


async def read(world: World, path: str, *, data_bytes_max: int = 1 << 20, as_admin: bool = False) -> ZnodeReport:
    request = ReadZnode(path=path, data_bytes_max=data_bytes_max, as_admin=as_admin)
    return await world.client().call(ONE, request, 5)


async def children(
    world: World, path: str, *, as_admin: bool = False, after: str = "", count: int = 256
) -> ChildrenReport:
    return await world.client().call(ONE, ListChildren(path=path, after=after, count=count, as_admin=as_admin), 5)


async def test_a_znode_is_read_with_its_stat(world: World, autojump_clock: MockClock) -> None:
    """Data up to the wanted length, the ACL, and the stat that clients of ZooKeeper get."""
    one, _, _ = await start(world, 1, 2, 3)
    client = client_of(one)
    await client.create("/a", b"12345")
    await client.create("/a/b")
    stat = await client.exists("/a")
    assert stat is not None
    found = await read(world, "/a", data_bytes_max=3)
    assert (found.found, found.readable, found.data, found.data_bytes) == (True, True, b"123", 5)
    assert found.acl == (AclReport(permissions=31, scheme="world", id="anyone"),)
    assert (found.czxid, found.mzxid, found.pzxid, found.cversion) == (
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.cversion,
    )
    assert (found.children, found.ctime_ms, found.zxid) == (1, stat.ctime, life_of(one).database.tree.last_zxid)
    assert (await read(world, "/a", data_bytes_max=0)).data == b""
    assert (await read(world, "/none")).found is False
    assert (await read(world, "no path")).found is False


async def test_an_acl_holds_for_callers_that_are_no_admins(world: World, autojump_clock: MockClock) -> None:
    """Stat for all, as of `exists`; data, ACL and children for `world` only; an admin sees them without hashes."""
    one, _, _ = await start(world, 1, 2, 3)
    client = client_of(one)
    await client.create("/p", b"secret", acl=PRIVATE)
    await life_of(one).database.proposals.execute(Create("/p/q", b""), Origin(identities=(SUPER,)))
    found = await read(world, "/p")
    assert (found.found, found.readable, found.data, found.acl, found.data_bytes) == (True, False, b"", (), 6)
    listed = await children(world, "/p")
    assert (listed.found, listed.readable, listed.children, listed.total) == (True, False, (), 1)
    seen = await read(world, "/p", as_admin=True)
    assert (seen.readable, seen.data) == (True, b"secret")
    assert seen.acl == (AclReport(permissions=31, scheme="digest", id="user:x"),)
    assert [each.name for each in (await children(world, "/p", as_admin=True)).children] == ["q"]


async def test_children_come_page_by_page(world: World, autojump_clock: MockClock) -> None:
    """Each page goes on behind a name, also one that is gone; each child has what a list shows of it."""
    one, _, _ = await start(world, 1, 2, 3)
    client = client_of(one)
    await client.create("/a")
    names = sorted(f"c{number}" for number in range(12))
    for name in names:
        await client.create(f"/a/{name}", name.encode())
    await client.create("/a/c1/x")
    seen: list[str] = []
    page = await children(world, "/a", count=5)
    while True:
        seen += [each.name for each in page.children]
        assert (page.total, len(page.children) <= 5) == (12, True)
        if not page.has_more:
            break
        await client.set("/a", b"meanwhile")
        page = await children(world, "/a", count=5, after=page.children[-1].name)
    assert seen == names
    (first,) = (await children(world, "/a", count=0, after="c0")).children
    assert (first.name, first.data_bytes, first.children) == ("c1", 2, 1)
    assert [each.name for each in (await children(world, "/a", after="c8zz")).children] == ["c9"]
    assert "zookeeper" in [each.name for each in (await children(world, "/")).children]
    assert (await children(world, "/none")).found is False


async def test_sessions_are_counted_with_their_ephemerals(world: World, autojump_clock: MockClock) -> None:
    """Each page goes on behind a number; a session is attached at the server whose connection serves it."""
    one, two, _ = await start(world, 1, 2, 3)
    async with client_of(one).session(10) as first, client_of(two).session(20) as second:
        await first.create_ephemeral("/e1")
        await first.create_ephemeral("/e2")
        await client_of(one).sync()
        found: SessionsReport = await world.client().call(ONE, ListSessions(), 5)
        rows = {each.session: each for each in found.sessions}
        assert rows.keys() == {first.id, second.id}
        assert (rows[first.id].ephemerals, rows[first.id].timeout_ms, rows[first.id].attached) == (2, 10_000, True)
        assert (rows[second.id].ephemerals, rows[second.id].attached) == (0, False)
        assert (found.total, found.ephemerals, found.has_more) == (2, 2, False)
        page = await world.client().call(ONE, ListSessions(count=1), 5)
        rest = await world.client().call(ONE, ListSessions(after=page.sessions[-1].session), 5)
        assert (page.has_more, len(rest.sessions)) == (True, 1)
        assert (await read(world, "/e1")).ephemeral_owner == first.id


async def test_watches_are_counted_for_admins(world: World, autojump_clock: MockClock) -> None:
    """Other clients do not learn what is watched."""
    one, _, _ = await start(world, 1, 2, 3)
    client = client_of(one)
    await client.create("/a")
    async with client.watch("/a"):
        seen = await read(world, "/a", as_admin=True)
        assert (seen.data_watches, seen.child_watches) == (1, 1)
        assert (await read(world, "/a")).data_watches == 0
        assert (await world.client().call(ONE, ListSessions(), 5)).watches == 2


async def test_ephemerals_are_counted_up_to_a_bound(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may have a hundred thousand: the reply says that there are more."""
    monkeypatch.setattr("virtuallog_server.database.tree_service.EPHEMERALS_MAX", 2)
    one, _, _ = await start(world, 1, 2, 3)
    async with client_of(one).session(10) as session:
        for number in range(3):
            await session.create(f"/e{number}", mode=Mode.EPHEMERAL)
        (row,) = (await world.client().call(ONE, ListSessions(), 5)).sessions
        assert (row.ephemerals, row.has_more_ephemerals) == (2, True)


async def test_a_node_that_serves_no_tree_refuses(world: World, autojump_clock: MockClock) -> None:
    """It has no database, or no replica of it yet."""
    await world.start(1)
    with pytest.raises((UnsupportedError, UnavailableError)):
        await read(world, "/")


async def test_a_certificate_of_a_client_gives_no_admins_view(world: World, autojump_clock: MockClock) -> None:
    """`as_admin` does not count in its requests, and sessions are refused: its program may ask for what it wants."""
    one, _, _ = await start(world, 1, 2, 3)
    await client_of(one).create("/p", b"secret", acl=PRIVATE)
    handlers = TreeService(life_of(one).database, None).handlers
    caller = Principal(cluster="test", role=Role.CLIENT, name="app")
    narrowed = Permissions.of([DATABASE]).narrow(handlers, caller, lambda _: None)
    asked = ReadZnode(path="/p", data_bytes_max=100, as_admin=True)
    assert answer(narrowed, asked).data == b""
    assert answer(handlers, asked).data == b"secret"
    assert isinstance(answer(narrowed, ListSessions()), ForbiddenError)
    assert answer(narrowed, attrs.evolve(asked, path="/")).readable


def answer(handlers: Handlers, request: Request[Any]) -> Any:
    """The reply of a handler that answers at once."""
    found: list[Any] = []
    handlers[type(request)](request, found.append)
    (reply,) = found
    return reply
