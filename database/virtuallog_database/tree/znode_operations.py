"""Operations on znodes: create, delete and change. Errors have ZooKeeper 3.8's precedence.

Each function executes one operation of an `Execution` and returns the value of its `Result`, or
raises RefusedError. The caller rolls back what it has done by then.
"""

from __future__ import annotations

from typing import Final

from virtuallog_database.tree import keys, paths, quotas
from virtuallog_database.tree.acl import ADMIN, CREATE, DELETE, READ, WRITE
from virtuallog_database.tree.commands import (
    ANY_VERSION,
    OPEN_ACL,
    TTL_MS_MAX,
    Check,
    Create,
    Delete,
    Mode,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.execution import Execution
from virtuallog_database.tree.records import Znode, ZnodeKind, signed
from virtuallog_database.tree.results import ChangeKind, Created, Error, RefusedError, Stat

KINDS: Final = {
    Mode.PERSISTENT: ZnodeKind.PERSISTENT,
    Mode.EPHEMERAL: ZnodeKind.EPHEMERAL,
    Mode.PERSISTENT_SEQUENTIAL: ZnodeKind.PERSISTENT,
    Mode.EPHEMERAL_SEQUENTIAL: ZnodeKind.EPHEMERAL,
    Mode.CONTAINER: ZnodeKind.CONTAINER,
    Mode.TTL: ZnodeKind.TTL,
    Mode.TTL_SEQUENTIAL: ZnodeKind.TTL,
}
"""Mode of a created znode -> its kind."""
_SEQUENTIAL: Final = frozenset({Mode.PERSISTENT_SEQUENTIAL, Mode.EPHEMERAL_SEQUENTIAL, Mode.TTL_SEQUENTIAL})


def create(execution: Execution, operation: Create) -> Created:
    kind, owner = _kind_and_owner(execution, operation)
    path = operation.path
    if "/" not in path or "\0" in path:
        raise RefusedError(Error.BAD_ARGUMENTS)
    rights = execution.settle(operation.acl)
    parent_path = paths.parent_of(path)
    parent = execution.znode(parent_path)
    parent_rights = execution.check(parent_path, parent, CREATE)
    if operation.mode in _SEQUENTIAL:
        path += f"{signed(parent.created):010d}"
    if not paths.is_valid(path):
        raise RefusedError(Error.BAD_ARGUMENTS)
    if path == paths.ROOT or execution.exists(path):
        raise RefusedError(Error.NODE_EXISTS)
    if parent.kind == ZnodeKind.EPHEMERAL:
        raise RefusedError(Error.NO_CHILDREN_FOR_EPHEMERALS)
    quotas.check(execution, path, operation.data, len(operation.data or b""), 1)
    zxid, now = execution.zxid, execution.time_ms
    znode = Znode(kind, zxid, zxid, zxid, now, now, owner=owner, acl=rights, data=operation.data)
    parent.created = parent.created + 1 & 0xFFFF_FFFF
    parent.children += 1
    parent.pzxid = zxid
    execution.put(parent_path, parent)
    execution.put(path, znode)
    stat = znode.stat()  # as it was created: a quota may count in it at once
    _index(execution, parent_path, path, znode)
    quotas.created(execution, path, znode)
    execution.changed(ChangeKind.CREATED, path, rights, parent_rights)
    return Created(path, stat)


def _kind_and_owner(execution: Execution, operation: Create) -> tuple[ZnodeKind, int]:
    """Kind and owner of the new znode, from its flags. Raises RefusedError: BAD_ARGUMENTS."""
    mode = operation.mode
    kind = KINDS.get(mode)  # type: ignore[call-overload]
    has_ttl = 0 < operation.ttl_ms <= TTL_MS_MAX
    is_unowned = kind is ZnodeKind.EPHEMERAL and not execution.origin.session
    if kind is None or has_ttl != (kind is ZnodeKind.TTL) or (operation.ttl_ms and not has_ttl) or is_unowned:
        raise RefusedError(Error.BAD_ARGUMENTS)
    if kind is ZnodeKind.EPHEMERAL:
        return kind, execution.origin.session
    return kind, operation.ttl_ms


def _index(execution: Execution, parent_path: str, path: str, znode: Znode) -> None:
    execution.index(keys.child(parent_path, paths.name_of(path)), b"")
    execution.grew(path, len(znode.data or b""), 1)
    if znode.kind == ZnodeKind.EPHEMERAL:
        execution.counters().ephemerals += 1
        execution.index(keys.ephemeral(znode.owner, path), b"")
    elif znode.kind != ZnodeKind.PERSISTENT:
        execution.index(keys.reapable(path), b"")


def delete(execution: Execution, operation: Delete) -> None:
    path = operation.path
    if "/" not in path or "\0" in path or path == paths.ROOT or path in paths.SYSTEM_PATHS:
        raise RefusedError(Error.BAD_ARGUMENTS)
    parent_path = paths.parent_of(path)
    execution.check(parent_path, execution.znode(parent_path), DELETE)
    znode = execution.znode(path)
    _check_version(znode.version, operation.version)
    if znode.children:
        raise RefusedError(Error.NOT_EMPTY)
    remove(execution, path, znode)


def remove(execution: Execution, path: str, znode: Znode) -> None:
    """Delete a znode without children; rights are not checked."""
    parent_path = paths.parent_of(path)
    parent = execution.znode(parent_path)
    rights = execution.stored_acl_of(path, znode)
    parent.children -= 1
    parent.pzxid = execution.zxid
    execution.put(parent_path, parent)
    execution.remove(path, znode)
    execution.index(keys.child(parent_path, paths.name_of(path)), None)
    execution.grew(path, -len(znode.data or b""), -1)
    if znode.kind == ZnodeKind.EPHEMERAL:
        execution.counters().ephemerals -= 1
        execution.index(keys.ephemeral(znode.owner, path), None)
    elif znode.kind != ZnodeKind.PERSISTENT:
        execution.index(keys.reapable(path), None)
    quotas.deleted(execution, path, znode)
    execution.changed(ChangeKind.DELETED, path, rights, execution.stored_acl_of(parent_path, parent))


def set_data(execution: Execution, operation: SetData) -> Stat:
    path, data = operation.path, operation.data
    znode = execution.find(path)
    if znode is None:  # otherwise the path was valid when the znode was created
        raise RefusedError(Error.NO_NODE if paths.is_valid(path) else Error.BAD_ARGUMENTS)
    rights = execution.check(path, znode, WRITE)
    growth = len(data or b"") - len(znode.data or b"")
    quotas.check(execution, path, data, growth, 0)
    version = znode.version
    if operation.version != ANY_VERSION:
        _check_version(version, operation.version)
    znode.data = data
    znode.version = signed(version + 1)
    znode.mzxid = execution.zxid
    znode.mtime = execution.time_ms
    execution.put(path, znode)
    stat = znode.stat()
    execution.grew(path, growth, 0)
    quotas.changed(execution, path, growth, 0)
    execution.changed(ChangeKind.DATA_CHANGED, path, rights, OPEN_ACL)
    return stat


def set_acl(execution: Execution, operation: SetAcl) -> Stat:
    path = operation.path
    if not paths.is_valid(path):
        raise RefusedError(Error.BAD_ARGUMENTS)
    rights = execution.settle(operation.acl)
    znode = execution.znode(path)
    execution.check(path, znode, ADMIN)
    _check_version(znode.aversion, operation.version)
    znode.acl = rights
    znode.aversion = signed(znode.aversion + 1)
    execution.put(path, znode)
    return znode.stat()


def check(execution: Execution, operation: Check) -> None:
    if not paths.is_valid(operation.path):
        raise RefusedError(Error.BAD_ARGUMENTS)
    znode = execution.znode(operation.path)
    execution.check(operation.path, znode, READ)
    _check_version(znode.version, operation.version)


def _check_version(found: int, expected: int) -> None:
    if expected not in (ANY_VERSION, found):
        raise RefusedError(Error.BAD_VERSION)
