"""Reads of a client: for each kind of request, the function that makes its answer.

Each runs when everything before it on its connection is answered, against the state that is applied then. A watch is set in the
same step, so that no change falls in between. Refusals of the tree are raised as RefusedError. The tree checks rights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias

import attrs

from virtuallog_database.replica.database import Database
from virtuallog_database.tree.commands import Origin
from virtuallog_database.tree.results import Error, RefusedError
from virtuallog_database.tree.tree import Tree
from virtuallog_database.tree.watches import Watcher, WatchMode, WatchTable
from virtuallog_server.zookeeper.wire import replies, requests
from virtuallog_server.zookeeper.wire.jute import Reader
from virtuallog_server.zookeeper.wire.opcodes import OpCode


@attrs.frozen
class ReadContext:
    """The tree that a connection reads, and the receiver of its watch events."""

    database: Database
    watcher: Watcher

    @property
    def tree(self) -> Tree:
        return self.database.tree


Find: TypeAlias = Callable[[ReadContext, int, Any, Origin], bytes]
"""Reads for an origin, and makes the frame with this xid."""


def _data(view: ReadContext, xid: int, asked: requests.Read, origin: Origin) -> bytes:
    database, (path, watch) = view.database, asked
    data, stat = database.tree.get_data(path, origin.identities)
    if watch:
        database.watches.data.add(path, view.watcher)
    return replies.data(xid, database.tree.last_zxid, data, stat)


def _stat(view: ReadContext, xid: int, asked: requests.Read, origin: Origin) -> bytes:
    """Answer `exists`. The watch is set in either case: the client may wait for the znode to be created."""
    if asked.watch:
        view.database.watches.data.add(asked.path, view.watcher)
    return replies.stat(xid, view.tree.last_zxid, view.tree.exists(asked.path))


def _children(view: ReadContext, xid: int, asked: requests.Read, origin: Origin, *, with_stat: bool = False) -> bytes:
    names, stat = view.tree.get_children(asked.path, origin.identities)
    if asked.watch:
        view.database.watches.child.add(asked.path, view.watcher)
    return replies.children(xid, view.tree.last_zxid, names, stat if with_stat else None)


def _acl(view: ReadContext, xid: int, path: str, origin: Origin) -> bytes:
    acl, stat = view.tree.get_acl(path, origin.identities)
    return replies.acl(xid, view.tree.last_zxid, acl, stat)


def _ephemerals(view: ReadContext, xid: int, prefix: str, origin: Origin) -> bytes:
    return replies.children(xid, view.tree.last_zxid, view.tree.get_ephemerals(origin.session, prefix), None)


def _count(view: ReadContext, xid: int, path: str, origin: Origin) -> bytes:
    return replies.number(xid, view.tree.last_zxid, view.tree.count_descendants(path, origin.identities))


def _many(view: ReadContext, xid: int, asked: requests.MultiRead, origin: Origin) -> bytes:
    find = {OpCode.GET_DATA: view.tree.get_data, OpCode.GET_CHILDREN: view.tree.get_children}
    once = cache(lambda opcode, path: find[opcode](path, origin.identities))  # nothing changes in between
    reads = ((opcode, partial(once, opcode, one.path)) for opcode, one in asked.reads)
    return replies.multi_read(xid, view.tree.last_zxid, reads, lambda: view.tree.looked)


def _add_watch(view: ReadContext, xid: int, asked: requests.AddWatch, origin: Origin) -> bytes:
    view.database.watches.add(asked.path, view.watcher, asked.mode)
    return replies.number(xid, view.tree.last_zxid, 0)


def _find_watches(
    view: ReadContext, xid: int, asked: requests.NamedWatches, origin: Origin,
    *, find: Callable[[WatchTable, str, Watcher, WatchMode | None], bool],
) -> bytes:  # fmt: skip
    watches = view.database.watches
    tables = (*((watches.child,) if asked.child else ()), *((watches.data,) if asked.data else ()))
    found = [find(table, asked.path, view.watcher, asked.mode) for table in tables]
    if not any(found):
        raise RefusedError(Error.NO_WATCHER)
    return replies.reply(xid, view.tree.last_zxid)


def _restore_watches(view: ReadContext, xid: int, asked: requests.SetWatches, origin: Origin) -> bytes:
    view.database.set_watches(
        view.watcher,
        asked.relative_zxid,
        data=asked.data,
        exist=asked.exist,
        child=asked.child,
        persistent=asked.persistent,
        recursive=asked.recursive,
    )
    return replies.reply(xid, view.tree.last_zxid)


READS: Final[Mapping[int, tuple[Callable[[Reader], Any], Find]]] = {
    OpCode.EXISTS: (requests.read, _stat),
    OpCode.GET_DATA: (requests.read, _data),
    OpCode.GET_ACL: (requests.path, _acl),
    OpCode.GET_CHILDREN: (requests.read, _children),
    OpCode.GET_CHILDREN2: (requests.read, partial(_children, with_stat=True)),
    OpCode.MULTI_READ: (requests.multi_read, _many),
    OpCode.GET_EPHEMERALS: (requests.path, _ephemerals),
    OpCode.GET_ALL_CHILDREN_NUMBER: (requests.path, _count),
    OpCode.ADD_WATCH: (requests.add_watch, _add_watch),
    OpCode.CHECK_WATCHES: (requests.named_watches, partial(_find_watches, find=WatchTable.contains)),
    OpCode.REMOVE_WATCHES: (requests.named_watches, partial(_find_watches, find=WatchTable.remove)),
    OpCode.SET_WATCHES: (requests.set_watches, _restore_watches),
    OpCode.SET_WATCHES2: (requests.set_watches2, _restore_watches),
}
"""Parser of the body of each request, and its function."""
SCANS: Final = frozenset({
    OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2, OpCode.MULTI_READ, OpCode.GET_EPHEMERALS, OpCode.GET_ALL_CHILDREN_NUMBER
})  # fmt: skip
"""Requests that scan the store, which may take longer than the size of their answer suggests."""
