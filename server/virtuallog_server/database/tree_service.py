"""The service for read-only requests about the tree. Each is answered at once, from the state that the replica has applied.

A reply takes a millisecond or two of the event loop, within the bounds of `virtuallog_database.control.tree_messages`. So requests need no
tasks and no places of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from virtuallog.contract.errors import StorageError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Done, Handler, Handlers
from virtuallog_database.control.tree_messages import (
    CHILDREN_MAX,
    DATA_BYTES_MAX,
    SESSIONS_MAX,
    AclReport,
    ChildrenReport,
    ChildReport,
    ListChildren,
    ListSessions,
    ReadZnode,
    SessionReport,
    SessionsReport,
    ZnodeReport,
)
from virtuallog_database.replica.database import Database
from virtuallog_database.tree import acl
from virtuallog_database.tree.acl import READ
from virtuallog_database.tree.results import Error, RefusedError, Stat
from virtuallog_database.tree.tree import Identities
from virtuallog_server.zookeeper.auth.schemes import SUPER, WORLD
from virtuallog_server.zookeeper.server import ZooKeeperServer

WORK_BYTES_MAX: Final = 4 << 20
"""Bytes of records that a list of children looks at. Only records of a former version are so large that it ends early."""
EPHEMERALS_MAX: Final = 4096
"""Ephemerals that one list of sessions counts in all."""


@attrs.define(eq=False)
class TreeService:
    """The handlers, for one life of the replica. `_server` is None if it serves no clients."""

    _database: Database
    _server: ZooKeeperServer | None

    @property
    def handlers(self) -> Handlers:
        return {
            ReadZnode: _answering(self._read),
            ListChildren: _answering(self._list_children),
            ListSessions: _answering(self._list_sessions),
        }

    def _read(self, request: ReadZnode) -> ZnodeReport:
        database, path, readers = self._database, request.path, _identities(as_admin=request.as_admin)
        tree = database.tree
        try:
            stat, rights = tree.look(path)
        except RefusedError:
            return ZnodeReport(zxid=tree.last_zxid, found=False)
        report = _stat_report(tree.last_zxid, stat)
        if request.as_admin:
            watches = database.watches
            report = attrs.evolve(
                report, data_watches=watches.data.count_at(path), child_watches=watches.child.count_at(path)
            )
        if not acl.allows(rights, READ, readers):
            return report
        most = min(request.data_bytes_max, DATA_BYTES_MAX)
        data = (tree.get_data(path, readers)[0] or b"")[:most] if most > 0 else b""
        shown = tuple(
            AclReport(permissions=each.permissions & 0xFFFF_FFFF, scheme=each.scheme, id=each.id)
            for each in acl.masked(rights)
        )
        return attrs.evolve(report, readable=True, data=data, acl=shown)

    def _list_children(self, request: ListChildren) -> ChildrenReport:
        tree, path = self._database.tree, request.path
        count = max(1, min(request.count, CHILDREN_MAX))
        try:
            total = tree.exists(path).children
            found, has_more = tree.get_children_behind(
                path, _identities(as_admin=request.as_admin), request.after, count, WORK_BYTES_MAX
            )
        except RefusedError as refused:
            if refused.error is Error.NO_AUTH:
                return ChildrenReport(zxid=tree.last_zxid, found=True, total=total)
            return ChildrenReport(zxid=tree.last_zxid, found=False)
        children = tuple(
            ChildReport(
                name=name,
                data_bytes=stat.data_length,
                children=stat.children,
                ephemeral_owner=stat.ephemeral_owner,
                mtime_ms=stat.mtime,
                version=stat.version,
            )
            for name, stat in found
        )
        return ChildrenReport(
            zxid=tree.last_zxid, found=True, readable=True, total=total, children=children, has_more=has_more
        )

    def _list_sessions(self, request: ListSessions) -> SessionsReport:
        tree, expiry = self._database.tree, self._database.expiry
        count = max(1, min(request.count, SESSIONS_MAX))
        records = tree.sessions_behind(request.after, count + 1)
        left = EPHEMERALS_MAX
        found = []
        for session, record in [*records.items()][:count]:
            ephemerals = tree.count_ephemerals(session, left + 1)
            found.append(
                SessionReport(
                    session=session,
                    timeout_ms=record.timeout_ms,
                    generation=record.generation,
                    ephemerals=min(ephemerals, left),
                    has_more_ephemerals=ephemerals > left,
                    attached=expiry.is_attached(session),
                )
            )
            left -= min(ephemerals, left)
        meta = tree.meta
        return SessionsReport(
            zxid=tree.last_zxid,
            total=meta.sessions,
            ephemerals=meta.ephemerals,
            connections=len(self._server.traffic().connections) if self._server is not None else 0,
            watches=self._database.watches.count,
            sessions=tuple(found),
            has_more=len(records) > count,
        )


def _identities(*, as_admin: bool) -> Identities:
    return (SUPER,) if as_admin else (WORLD,)


def _stat_report(zxid: int, stat: Stat) -> ZnodeReport:
    return ZnodeReport(
        zxid=zxid,
        found=True,
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        pzxid=stat.pzxid,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        version=stat.version,
        cversion=stat.cversion,
        aversion=stat.aversion,
        ephemeral_owner=stat.ephemeral_owner,
        children=stat.children,
        data_bytes=stat.data_length,
    )


def _answering(work: Callable[[Any], Any]) -> Handler:
    def handle(request: Any, done: Done) -> None:
        try:
            outcome = work(request)
        except StorageError as error:
            outcome = UnavailableError(f"this replica has no state to read: {error}")
        except VirtualLogError as error:
            outcome = error
        done(outcome)

    return handle
