"""The tree of the database: one znode, its value, its ACL, and a page of its children.

A view costs a status of each node and two reads of one server. A caller with the role CLIENT reads as ZooKeeper's `world`; an admin reads past
ACLs. A value below a masked path is not asked for.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import VirtualLogError
from virtuallog_console.views.database_commands import acl_texts
from virtuallog_console.views.tree_server import TreeServer, find_server
from virtuallog_console.views.values import PREVIEW_BYTES, PREVIEW_BYTES_MAX, Decoder, Value, decode, readable, withhold
from virtuallog_console.views.viewer import MASKED, Viewer
from virtuallog_database.control.tree_messages import (
    CHILDREN_MAX,
    ChildReport,
    ListChildren,
    ReadZnode,
    ZnodeReport,
)
from virtuallog_database.tree import paths
from virtuallog_database.tree.commands import Acl

REFUSED: Final = "its ACL refuses clients that have not logged in"


@attrs.frozen(kw_only=True)
class StatRow:
    """Stat of a znode, by ZooKeeper's names."""

    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    children: int
    data_bytes: int


@attrs.frozen(kw_only=True)
class ChildRow:
    """One child."""

    name: str
    path: str
    data_bytes: int
    children: int
    owner: str
    """Session of an ephemeral, in hexadecimal. Empty for other znodes."""
    mtime_ms: int
    version: int
    is_masked: bool
    """True if its value is masked."""


@attrs.frozen(kw_only=True)
class ZnodeView:
    """One znode, as one server has applied it."""

    path: str
    server: int | None = None
    """Node that was asked. None if there is none to ask."""
    zxid: int = 0
    """Zxid of the last command that the server has applied."""
    found: bool = False
    stat: StatRow | None = None
    value: Value | None = None
    """None if there is no such znode."""
    acl: tuple[str, ...] = ()
    """Entries as `scheme:id: rwcda`, the first ones, without hashes."""
    owner: str = ""
    """Session of an ephemeral, in hexadecimal. Empty for other znodes."""
    children: tuple[ChildRow, ...] = ()
    children_withheld: str = ""
    """Reason why children are not listed. Empty if they are."""
    next: str | None = None
    """Name behind which the next page of children begins. None if this is the last one."""
    data_watches: int | None = None
    """Watches of this server's clients on its data, without recursive ones above. None unless the viewer is an admin."""
    child_watches: int | None = None
    problem: str = ""
    """Reason why there is no answer, or not all of it. Empty if there is."""


async def read_znode(
    log: VirtualLog,
    viewer: Viewer,
    path: str,
    *,
    after: str = "",
    count: int = CHILDREN_MAX,
    decoder: Decoder = Decoder.AUTO,
    preview_bytes: int = PREVIEW_BYTES,
    node: int | None = None,
) -> ZnodeView:
    """One znode and a page of its children.

    Args:
        log: an open client that knows the interface `DATABASE`.
        viewer: the caller.
        path: of the znode.
        after: name of a child behind which the page begins; empty: the first one.
        count: children in the page, at most `CHILDREN_MAX`.
        decoder: of the value.
        preview_bytes: bytes that are shown of the value, at most 1 MiB.
        node: the server to ask; None: the one that has applied most.
    """
    view = ZnodeView(path=path)
    if not paths.is_valid(path):
        return attrs.evolve(view, problem="this is no path of a znode")
    try:
        server = await find_server(log, node)
        view = attrs.evolve(view, server=server.node)
        view = await _with_znode(view, server, viewer, decoder, preview_bytes)
        return await _with_children(view, server, viewer, after, count) if view.found else view
    except VirtualLogError as error:
        return attrs.evolve(view, problem=str(error))


async def _with_znode(
    view: ZnodeView, server: TreeServer, viewer: Viewer, decoder: Decoder, preview_bytes: int
) -> ZnodeView:
    is_masked = viewer.masks.covers(view.path)
    wanted = 0 if is_masked else max(0, min(preview_bytes, PREVIEW_BYTES_MAX))
    report = await server.ask(ReadZnode(path=view.path, data_bytes_max=wanted, as_admin=viewer.is_admin))
    if not report.found:
        return attrs.evolve(view, zxid=report.zxid, problem="there is no such znode")
    return attrs.evolve(
        view,
        zxid=report.zxid,
        found=True,
        stat=stat_row(report),
        value=_value(report, decoder, is_masked=is_masked),
        acl=acl_texts([Acl(each.permissions, each.scheme, each.id) for each in report.acl]),
        owner=hex_session(report.ephemeral_owner),
        data_watches=report.data_watches if viewer.is_admin else None,
        child_watches=report.child_watches if viewer.is_admin else None,
    )


def _value(report: ZnodeReport, decoder: Decoder, *, is_masked: bool) -> Value:
    if is_masked:
        return withhold(report.data_bytes, MASKED)
    if not report.readable:
        return withhold(report.data_bytes, REFUSED)
    shown = decode(report.data, decoder, len(report.data))
    return attrs.evolve(shown, size=report.data_bytes, is_cut=len(report.data) < report.data_bytes)


async def _with_children(view: ZnodeView, server: TreeServer, viewer: Viewer, after: str, count: int) -> ZnodeView:
    request = ListChildren(
        path=view.path, after=readable(after), count=max(1, min(count, CHILDREN_MAX)), as_admin=viewer.is_admin
    )
    report = await server.ask(request)
    if not report.found:  # deleted meanwhile
        return attrs.evolve(view, problem="the znode was deleted while it was read")
    if not report.readable:
        return attrs.evolve(view, children_withheld=REFUSED)
    rows = tuple(_child_row(view.path, each, viewer) for each in report.children)
    return attrs.evolve(view, children=rows, next=rows[-1].name if report.has_more and rows else None)


def _child_row(parent: str, child: ChildReport, viewer: Viewer) -> ChildRow:
    path = child_path(parent, child.name)
    return ChildRow(
        name=child.name,
        path=path,
        data_bytes=child.data_bytes,
        children=child.children,
        owner=hex_session(child.ephemeral_owner),
        mtime_ms=child.mtime_ms,
        version=child.version,
        is_masked=viewer.masks.covers(path),
    )


def child_path(parent: str, name: str) -> str:
    return f"/{name}" if parent == paths.ROOT else f"{parent}/{name}"


def hex_session(session: int) -> str:
    """A session as it is shown. Empty for none."""
    return f"{session:#x}" if session else ""


def stat_row(report: ZnodeReport) -> StatRow:
    return StatRow(**{each.name: getattr(report, each.name) for each in attrs.fields(StatRow)})
