"""The tree as a viewer sees it: znodes, pages of children, sessions, and exports; ACLs and masks hold in each of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from trio.testing import MockClock

from tests.console.views.test_nodes import log_of
from tests.server.database.test_role import client_of, life_of, start
from tests.server.node.world import World, make_world, until
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import UnavailableError, UnsupportedError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import NodeId
from virtuallog_console.views.masks import Masks
from virtuallog_console.views.plain import plain
from virtuallog_console.views.sessions import describe_sessions, read_sessions
from virtuallog_console.views.subtree_export import ExportBounds, export_lines
from virtuallog_console.views.tree import REFUSED, read_znode
from virtuallog_console.views.values import Decoder
from virtuallog_console.views.viewer import MASKED, NEEDS_ADMIN, Viewer
from virtuallog_database.control.tree_messages import ReadZnode, SessionReport, SessionsReport
from virtuallog_database.tree.commands import Acl, Create, Origin
from virtuallog_server.node.node import Node
from virtuallog_server.zookeeper.auth.schemes import SUPER

CLIENT = Viewer(role=Role.CLIENT)
ADMIN = Viewer(role=Role.ADMIN)
MASKING = Viewer(role=Role.ADMIN, masks=Masks(("/app/*/password",)))
PRIVATE = (Acl(31, "digest", "user:c2VjcmV0"),)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


async def planted(world: World) -> list[Node]:
    """Servers of a database with a small tree: /app/x/password, /app/x/url, and /private/key, which none may read."""
    nodes = await start(world, 1, 2, 3)
    database = life_of(nodes[0]).database
    for operation in (
        Create("/app", b'{"a": 1}'), Create("/app/x", b"\xff"), Create("/app/x/password", b"hunter2"), Create("/app/x/url", b"http://"),
        Create("/private", b"hunter2", PRIVATE), Create("/private/key", b"hunter2"),
    ):  # fmt: skip
        await database.proposals.execute(operation, Origin(identities=(SUPER,)))
    await until(lambda: all(life_of(node).database.tree.last_zxid >= database.tree.last_zxid for node in nodes))
    return nodes


def asked(log: VirtualLog, monkeypatch: pytest.MonkeyPatch) -> list[ReadZnode]:
    """Reads of znodes that leave this client from now on."""
    services, found = log.view.environment.services, []
    call = type(services).call

    async def noted(self: Any, node: NodeId, request: Any, timeout_seconds: float) -> Any:
        if isinstance(request, ReadZnode):
            found.append(request)
        return await call(self, node, request, timeout_seconds)

    monkeypatch.setattr(type(services), "call", noted)
    return found


async def exported(
    log: VirtualLog, viewer: Viewer, path: str, bounds: ExportBounds | None = None
) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in export_lines(log, viewer, path, bounds)]


async def test_a_znode_with_its_children(world: World, autojump_clock: MockClock) -> None:
    """Stat, value with its decoder, ACL in words, children with what a list shows."""
    log = log_of((await planted(world))[0])
    view = await read_znode(log, CLIENT, "/app")
    assert (view.found, view.problem, view.acl) == (True, "", ("world:anyone: rwcda",))
    assert view.stat is not None
    assert view.value is not None
    assert (view.stat.children, view.value.text, view.value.decoder) == (1, '{"a": 1}', Decoder.JSON)
    assert [(child.name, child.path, child.children) for child in view.children] == [("x", "/app/x", 2)]
    assert (view.next, view.data_watches) == (None, None)
    assert {"app", "private", "zookeeper"} <= {child.name for child in (await read_znode(log, CLIENT, "/")).children}
    short = await read_znode(log, CLIENT, "/app", preview_bytes=3)
    assert short.value is not None
    assert (short.value.size, short.value.text, short.value.is_cut) == (8, '{"a', True)
    json.dumps(plain(view))


async def test_children_are_paged(world: World, autojump_clock: MockClock) -> None:
    """`next` names where to go on."""
    log = log_of((await planted(world))[0])
    first = await read_znode(log, ADMIN, "/app/x", count=1)
    assert ([child.name for child in first.children], first.next) == (["password"], "password")
    rest = await read_znode(log, ADMIN, "/app/x", count=1, after="password")
    assert ([child.name for child in rest.children], rest.next, rest.data_watches) == (["url"], None, 0)


async def test_a_client_does_not_see_past_an_acl(world: World, autojump_clock: MockClock) -> None:
    """The stat is shown as by `exists`; an admin sees the rest, without the hash."""
    log = log_of((await planted(world))[0])
    view = await read_znode(log, CLIENT, "/private")
    assert view.value is not None
    assert (view.found, view.value.withheld, view.value.text, view.acl, view.children) == (True, REFUSED, "", (), ())
    assert view.children_withheld == REFUSED
    admins = await read_znode(log, ADMIN, "/private")
    assert admins.value is not None
    assert (admins.value.text, admins.acl) == ("hunter2", ("digest:user:x: rwcda",))
    assert [child.name for child in admins.children] == ["key"]


async def test_a_masked_value_is_not_even_asked_for(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays on the server, in the tree and in an export; its size and its place are shown."""
    log = log_of((await planted(world))[0])
    reads = asked(log, monkeypatch)
    view = await read_znode(log, MASKING, "/app/x/password")
    assert view.value is not None
    assert (view.value.withheld, view.value.size) == (MASKED, 7)
    assert [child.is_masked for child in (await read_znode(log, MASKING, "/app/x")).children] == [True, False]
    lines = await exported(log, MASKING, "/app")
    assert "hunter2" not in str((plain(view), lines))
    assert {request.path: request.data_bytes_max for request in reads}["/app/x/password"] == 0
    assert {request.data_bytes_max for request in reads if request.path == "/app/x/password"} == {0}


async def test_a_subtree_is_exported_as_lines(world: World, autojump_clock: MockClock) -> None:
    """Head, parents before children, text or base64, and an end that says that it is whole."""
    log = log_of((await planted(world))[0])
    head, *rows, end = await exported(log, MASKING, "/app")
    assert (head["export"], head["path"]) == (1, "/app")
    assert [row["path"] for row in rows] == ["/app", "/app/x", "/app/x/password", "/app/x/url"]
    assert [row.get("data", row.get("data_base64", row.get("withheld"))) for row in rows] == [
        '{"a": 1}', "/w==", MASKED, "http://"
    ]  # fmt: skip
    assert end == {"end": True, "znodes": 4, "bytes": 16, "cut": ""}
    private = await exported(log, CLIENT, "/private")
    assert [row.get("withheld") for row in private[1:-1]] == [REFUSED]
    assert "hunter2" not in str(private)
    assert len(await exported(log, ADMIN, "/private")) == 4


async def test_a_wide_subtree_is_exported_page_by_page(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each znode once, however large a page is."""
    monkeypatch.setattr("virtuallog_server.database.tree_service.CHILDREN_MAX", 3)
    nodes = await start(world, 1, 2, 3)
    client = client_of(nodes[0])
    paths = ["/a", *(f"/a/{one}" for one in range(5)), *(f"/a/{one}/{two}" for one in range(5) for two in range(4))]
    for path in paths:
        await client.create(path)
    rows = await exported(log_of(nodes[0]), CLIENT, "/a")
    seen = [row["path"] for row in rows[1:-1]]
    assert sorted(seen) == sorted(paths)
    assert all(seen.index(path.rpartition("/")[0]) < seen.index(path) for path in paths[1:])


@pytest.mark.parametrize(
    ("bounds", "paths", "cut"),
    [
        (ExportBounds(znodes=2), ["/app", "/app/x"], "2 znodes; the next one is /app/x/password"),
        (ExportBounds(data_bytes=10), ["/app", "/app/x"], "9 bytes of data; the next one is /app/x/password"),
        (ExportBounds(seconds=0), ["/app"], "the time is over; the next one is /app/x"),
    ],
    ids=["znodes", "bytes", "seconds"],
)
async def test_an_export_that_is_cut_says_why(
    world: World, autojump_clock: MockClock, bounds: ExportBounds, paths: list[str], cut: str
) -> None:
    """No znode is half in it, and the next one is named."""
    log = log_of((await planted(world))[0])
    _, *rows, end = await exported(log, ADMIN, "/app", bounds)
    assert ([row["path"] for row in rows], end["cut"]) == (paths, cut)


async def test_an_export_of_nothing_is_one_line(world: World, autojump_clock: MockClock) -> None:
    """A missing znode, and a path that is none."""
    nodes = await planted(world)
    assert [row["cut"] for row in await exported(log_of(nodes[0]), ADMIN, "/none")] == ["there is no such znode"]
    assert [row["cut"] for row in await exported(log_of(nodes[0]), ADMIN, "x")] == ["this is no path of a znode"]


async def test_a_cluster_without_a_database_has_no_tree(world: World, autojump_clock: MockClock) -> None:
    """Views and exports name what each node has said."""
    nodes = [await world.start(number) for number in (1, 2, 3)]
    await until(lambda: all(not node.not_ready() for node in nodes))
    (end,) = await exported(log_of(nodes[0]), ADMIN, "/app")
    view = await read_znode(log_of(nodes[0]), ADMIN, "/app")
    assert end["cut"] == view.problem
    assert view.problem.startswith("no server of a database serves (node 1: ")
    assert (await read_sessions(log_of(nodes[0]), ADMIN)).problem == "no server of a database answers"


async def test_what_cannot_be_read_is_a_view_with_a_reason(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such znode, no such node, a path that is none, a server that does not answer."""
    nodes = await planted(world)
    log = log_of(nodes[0])
    assert (await read_znode(log, ADMIN, "/none")).problem == "there is no such znode"
    assert (await read_znode(log, ADMIN, "a//b")).problem == "this is no path of a znode"
    assert (await read_znode(log, ADMIN, "/\ud800")).problem == "this is no path of a znode"
    assert (await read_znode(log, ADMIN, "/app", after="\ud800")).found
    assert (await read_znode(log, ADMIN, "/", node=9)).problem == "the cluster has no node 9"
    view = await read_znode(log, ADMIN, "/app", node=2)
    assert (view.server, view.found) == (2, True)
    world.stop(3)
    gone = await read_znode(log, ADMIN, "/app", node=3)
    assert (gone.server, gone.found, bool(gone.problem)) == (3, False, True)
    assert (await read_znode(log, ADMIN, "/app")).found


async def test_a_silent_node_costs_no_time(world: World, autojump_clock: MockClock) -> None:
    """The tree is read from the first server that answers and is not behind; a click never waits for the dead."""
    nodes = await planted(world)
    log = log_of(nodes[0])
    world.stop(3)
    clock = log.view.environment.clock
    began = clock.monotonic()
    assert (await read_znode(log, ADMIN, "/app")).found
    assert clock.monotonic() - began < 0.5


async def test_sessions_with_their_servers(world: World, autojump_clock: MockClock) -> None:
    """Each server is asked for those that it serves; a page goes on behind the last number."""
    one, two, _ = nodes = await start(world, 1, 2, 3)
    async with client_of(one).session(10) as first, client_of(two).session(20) as second:
        await first.create_ephemeral("/e")
        for node in nodes:
            await client_of(node).sync()
        view = await read_sessions(log_of(one), ADMIN)
        assert [(row.session, row.server, row.ephemerals, row.timeout_ms) for row in view.sessions] == [
            (f"{first.id:#x}", 1, 1, 10_000), (f"{second.id:#x}", 2, 0, 20_000)
        ]  # fmt: skip
        assert (view.total, view.ephemerals, view.next, [row.node for row in view.servers]) == (2, 1, None, [1, 2, 3])
        page = await read_sessions(log_of(one), ADMIN, count=1)
        assert page.next == f"{first.id:#x}"
        rest = await read_sessions(log_of(one), ADMIN, after=page.next)
        assert [row.session for row in rest.sessions] == [f"{second.id:#x}"]


async def test_sessions_are_for_admins(world: World, autojump_clock: MockClock) -> None:
    """And a number that is none is said to be none."""
    (one, *_) = await start(world, 1, 2, 3)
    assert (await read_sessions(log_of(one), CLIENT)).problem == NEEDS_ADMIN
    for number in ("x", "-1", "f" * 17):
        assert (await read_sessions(log_of(one), ADMIN, number)).problem == "this is no number of a session"


def test_silent_servers_are_rows_of_the_sessions() -> None:
    """A session of such a server has none that is known; nodes without a database have no row."""
    row = SessionReport(session=7, timeout_ms=1, generation=2, ephemerals=0, has_more_ephemerals=False, attached=False)
    report = SessionsReport(zxid=5, total=1, ephemerals=0, connections=3, watches=4, sessions=(row,))
    answers: dict[NodeId, Outcome[SessionsReport]] = {
        NodeId(1): report, NodeId(2): UnavailableError("away"), NodeId(3): UnsupportedError("no database")
    }  # fmt: skip
    view = describe_sessions(answers)
    assert [(each.session, each.server) for each in view.sessions] == [("0x7", None)]
    assert [(each.node, each.connections, each.problem) for each in view.servers] == [(1, 3, ""), (2, 0, "away")]
    away: dict[NodeId, Outcome[SessionsReport]] = {NodeId(2): UnavailableError("away")}
    assert describe_sessions(away).problem == "no server of a database answers"
