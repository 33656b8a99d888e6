"""Model of the tree as plain dictionaries, slow and obvious, to compare `virtuallog_database.tree`
with.

It gets the same commands and must give the same results, changes and stats. Each command works on a
copy of the dictionaries, which is dropped if it is refused. There are no indexes, no formats and no
counters that could disagree with the znodes. Children are found by looking at every path there is.

Rights are those of `model_acl`, quotas those of `model_quotas`. Left out: the product's own bounds
on long ACLs, deep quotas and their texts.
"""

from __future__ import annotations

from typing import Any

import attrs

from virtuallog_database.testing import model_acl, model_quotas
from virtuallog_database.tree import paths
from virtuallog_database.tree.commands import (  # fmt: skip
    OPEN_ACL,
    TTL_MS_MAX,
    Acl,
    Attach,
    Check,
    CloseSession,
    Command,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Identity,
    Mode,
    Multi,
    Origin,
    Permission,
    Reap,
    SetAcl,
    SetData,
    Touch,
)
from virtuallog_database.tree.results import Attached, Change, ChangeKind, Created, Error, RefusedError, Result, Stat

_SEQUENTIAL = {Mode.PERSISTENT_SEQUENTIAL, Mode.EPHEMERAL_SEQUENTIAL, Mode.TTL_SEQUENTIAL}
_EPHEMERAL = {Mode.EPHEMERAL, Mode.EPHEMERAL_SEQUENTIAL}
_WITH_TTL = {Mode.TTL, Mode.TTL_SEQUENTIAL}


@attrs.frozen
class ModelZnode:
    """One znode."""

    data: bytes | None
    acl: tuple[Acl, ...]
    czxid: int
    time: int
    mode: int = Mode.PERSISTENT
    owner: int = 0
    ttl_ms: int = 0
    version: int = 0
    aversion: int = 0
    created: int = 0
    mzxid: int = attrs.field(default=attrs.Factory(lambda self: self.czxid, takes_self=True))
    pzxid: int = attrs.field(default=attrs.Factory(lambda self: self.czxid, takes_self=True))
    mtime: int = attrs.field(default=attrs.Factory(lambda self: self.time, takes_self=True))


@attrs.frozen
class ModelSession:
    """One session."""

    password: bytes
    timeout_ms: int
    generation: int = 0
    touches: int = 0


def _first_znodes() -> dict[str, ModelZnode]:
    found = {path: ModelZnode(b"", OPEN_ACL, 0, 0) for path in (paths.ROOT, *paths.SYSTEM_PATHS)}
    found[paths.CONFIG] = ModelZnode(b"", (Acl(int(Permission.READ), "world", "anyone"),), 0, 0, aversion=-1)
    return found


@attrs.define
class ModelTree:
    """State after some commands."""

    zxid: int = 0
    znodes: dict[str, ModelZnode] = attrs.field(factory=_first_znodes)
    sessions: dict[int, ModelSession] = attrs.field(factory=dict)
    acls: tuple[tuple[tuple[Acl, ...], tuple[Acl, ...]], ...] = ()
    """For each change of the last command, the ACLs of its znode and of the parent, as they were at
    the change."""

    def apply(self, command: Command) -> Result:
        """Execute one command. `touched` of the result is left empty."""
        operation = command.operation
        step = _Step(self.copy(), command.origin, command.time_ms)
        error, value = step.run(operation)
        if not isinstance(operation, Touch | ExpireSessions | Reap) or step.changes or step.ended:
            step.tree.zxid += 1
        self.zxid, self.znodes, self.sessions = step.tree.zxid, step.tree.znodes, step.tree.sessions
        self.acls = tuple(step.acls)
        return Result(self.zxid, error, value, tuple(step.changes), (), tuple(step.ended))

    def copy(self) -> ModelTree:
        """A copy of the state."""
        return ModelTree(self.zxid, dict(self.znodes), dict(self.sessions))

    def children(self, path: str) -> list[str]:
        """Names of the children, sorted."""
        return sorted(paths.name_of(each) for each in self.znodes if each != "/" and paths.parent_of(each) == path)

    def stat(self, path: str) -> Stat:
        znode, children = self.znodes[path], len(self.children(path))
        deleted_and_created = 2 * znode.created - children
        return Stat(
            znode.czxid, znode.mzxid, znode.time, znode.mtime, znode.version, deleted_and_created, znode.aversion,
            znode.owner, len(znode.data or b""), children, znode.pzxid,
        )  # fmt: skip

    def find(self, path: str) -> Stat | None:
        """Stat of a znode. None if there is no such znode."""
        return self.stat(path) if path in self.znodes else None

    def ephemerals(self, session: int) -> list[str]:
        """Paths of the session's ephemerals, sorted."""
        return sorted(path for path, znode in self.znodes.items() if session and znode.owner == session)


@attrs.define
class _Step:
    """One command on a copy of the tree."""

    tree: ModelTree
    origin: Origin
    time: int
    changes: list[Change] = attrs.field(factory=list)
    acls: list[tuple[tuple[Acl, ...], tuple[Acl, ...]]] = attrs.field(factory=list)
    ended: list[int] = attrs.field(factory=list)

    def run(self, operation: Any) -> tuple[Error, Any]:
        """Execute an operation. A refused command leaves only that its session was heard of."""
        kept = self.tree.copy()
        error, value = Error.OK, None
        try:
            if self.origin.session:
                self._hear()
                kept = self.tree.copy()
            if isinstance(operation, Multi):
                error, value = self._multi(operation)
            else:
                value = self._one(operation)
        except RefusedError as refused:
            error = refused.error
        if error is not Error.OK:
            self.tree, self.changes, self.acls, self.ended = kept, [], [], []
        return error, value

    def _hear(self) -> None:
        session = self._session(self.origin.session)
        _require(session.generation == self.origin.generation, Error.SESSION_MOVED)
        self._touch(self.origin.session)

    def _touch(self, id_: int) -> None:
        session = self.tree.sessions[id_]
        self.tree.sessions[id_] = attrs.evolve(session, touches=session.touches + 1)

    def _change(self, path: str, **changes: Any) -> None:
        self.tree.znodes[path] = attrs.evolve(self.tree.znodes[path], **changes)

    def _multi(self, multi: Multi) -> tuple[Error, tuple[Result, ...]]:
        zxid, results = self.tree.zxid + 1, []
        for number, operation in enumerate(multi.operations):
            try:
                results.append(Result(zxid, Error.OK, self._one(operation)))
            except RefusedError as refused:
                rest = len(multi.operations) - number - 1
                errors = [Error.OK] * number + [refused.error] + [Error.RUNTIME_INCONSISTENCY] * rest
                return refused.error, tuple(Result(zxid, each) for each in errors)
        return Error.OK, tuple(results)

    def _one(self, operation: Any) -> Any:
        match operation:
            case Create():
                return self._create(operation)
            case Delete(path, version):
                _require("/" in path and path not in {"/", *paths.SYSTEM_PATHS}, Error.BAD_ARGUMENTS)
                self._require_right(self._znode(paths.parent_of(path)), Permission.DELETE)
                znode = self._znode(path)
                _require(version in {-1, znode.version}, Error.BAD_VERSION)
                _require(not self.tree.children(path), Error.NOT_EMPTY)
                self._remove(path)
            case SetData(path, data, version):
                znode = self._valid(path)
                self._require_right(znode, Permission.WRITE)
                growth = len(data or b"") - len(znode.data or b"")
                self._require_room(path, 0, growth)
                _require(version in {-1, znode.version}, Error.BAD_VERSION)
                self._change(path, data=data, version=znode.version + 1, mzxid=self._zxid, mtime=self.time)
                self._count(path, 0, growth)
                self._note(ChangeKind.DATA_CHANGED, path, znode)
                return self.tree.stat(path)
            case SetAcl(path, acl, version):
                _require(paths.is_valid(path), Error.BAD_ARGUMENTS)
                stored = self._stored(acl)
                znode = self._znode(path)
                self._require_right(znode, Permission.ADMIN)
                _require(version in {-1, znode.aversion}, Error.BAD_VERSION)
                self._change(path, acl=stored, aversion=znode.aversion + 1)
                return self.tree.stat(path)
            case Check(path, version):
                znode = self._valid(path)
                self._require_right(znode, Permission.READ)
                _require(version in {-1, znode.version}, Error.BAD_VERSION)
            case CreateSession(id_, password, timeout_ms):
                _require(id_ != 0 and id_ not in self.tree.sessions, Error.NODE_EXISTS)
                self.tree.sessions[id_] = ModelSession(password, timeout_ms)
                return self._attached(id_)
            case Attach(id_, password, timeout_ms):
                session = self._session(id_)
                _require(session.password == password, Error.SESSION_EXPIRED)
                self.tree.sessions[id_] = attrs.evolve(session, timeout_ms=timeout_ms)
                return self._attached(id_)
            case CloseSession(id_):
                self._session(id_)
                self._end(id_)
            case Touch(ids):
                for id_ in ids:
                    if id_ in self.tree.sessions:
                        self._touch(id_)
            case ExpireSessions(pairs):
                for id_, touches in pairs:
                    if id_ in self.tree.sessions and self.tree.sessions[id_].touches == touches:
                        self._end(id_)
            case Reap(reaped):
                for path in reaped:
                    if path in self.tree.znodes and self._is_reapable(path):
                        self._remove(path)
        return None

    def _create(self, operation: Create) -> Created:
        mode, path, session = operation.mode, operation.path, self.origin.session
        _require(mode in set(Mode), Error.BAD_ARGUMENTS)
        _require(0 < operation.ttl_ms <= TTL_MS_MAX if mode in _WITH_TTL else not operation.ttl_ms, Error.BAD_ARGUMENTS)
        _require(mode not in _EPHEMERAL or session != 0, Error.BAD_ARGUMENTS)
        _require("/" in path, Error.BAD_ARGUMENTS)
        acl = self._stored(operation.acl)
        parent = self._znode(paths.parent_of(path))
        self._require_right(parent, Permission.CREATE)
        if mode in _SEQUENTIAL:
            path += f"{parent.created:010}"
        _require(paths.is_valid(path), Error.BAD_ARGUMENTS)
        _require(path not in self.tree.znodes, Error.NODE_EXISTS)
        _require(parent.owner == 0, Error.NO_CHILDREN_FOR_EPHEMERALS)
        size = len(operation.data or b"")
        self._require_room(path, 1, size)
        owner = session if mode in _EPHEMERAL else 0
        made = ModelZnode(operation.data, acl, self._zxid, self.time, mode, owner, operation.ttl_ms)
        self.tree.znodes[path] = made
        self._change(paths.parent_of(path), created=parent.created + 1, pzxid=self._zxid)
        created = Created(path, self.tree.stat(path))  # before anything is counted, as ZooKeeper answers
        if path.startswith(paths.QUOTA + "/") and path.endswith(model_quotas.STATS):
            self._count_anew(path)
        self._count(path, 1, size)
        self._note(ChangeKind.CREATED, path, made)
        return created

    def _remove(self, path: str) -> None:
        znode = self.tree.znodes.pop(path)
        self._change(paths.parent_of(path), pzxid=self._zxid)
        self._count(path, -1, -len(znode.data or b""))
        self._note(ChangeKind.DELETED, path, znode)

    def _note(self, kind: ChangeKind, path: str, znode: ModelZnode) -> None:
        self.changes.append((kind, path))
        self.acls.append((znode.acl, self.tree.znodes[paths.parent_of(path)].acl))

    # -- quotas -----------------------------------------------------------------------------------------------------

    def _require_room(self, path: str, znodes: int, growth: int) -> None:
        limited = model_quotas.limited(self.tree.znodes, path)
        if limited is not None:
            limits = self._numbers(paths.QUOTA + limited + model_quotas.LIMITS)
            stats = self._numbers(paths.QUOTA + limited + model_quotas.STATS)
            _require(not model_quotas.is_too_much(limits, stats, znodes, growth), Error.QUOTA_EXCEEDED)

    def _count(self, path: str, znodes: int, growth: int) -> None:
        """Count a change for the path that limits it, if that is counted."""
        limited = model_quotas.limited(self.tree.znodes, path)
        if limited is not None:
            where = paths.QUOTA + limited + model_quotas.STATS
            stats = self._numbers(where)
            count, size = stats.get("count", -1) + znodes, stats.get("bytes", -1) + growth
            self._store_stats(where, {**stats, "count": count, "bytes": size})

    def _count_anew(self, where: str) -> None:
        limited = where[len(paths.QUOTA) : -len(model_quotas.STATS)] or paths.ROOT
        sizes = {path: len(znode.data or b"") for path, znode in self.tree.znodes.items()}
        count, size = model_quotas.counted(sizes, limited)
        self._store_stats(where, {**self._numbers(where), "count": count, "bytes": size})

    def _store_stats(self, where: str, stats: dict[str, int]) -> None:
        """Write statistics without a new version, and without a change for watches."""
        if where in self.tree.znodes:
            self._change(where, data=model_quotas.text(stats))

    def _numbers(self, path: str) -> dict[str, int]:
        znode = self.tree.znodes.get(path)
        return model_quotas.numbers(None if znode is None else znode.data)

    def _is_reapable(self, path: str) -> bool:
        znode = self.tree.znodes[path]
        if self.tree.children(path):
            return False
        if znode.mode == Mode.CONTAINER:
            return znode.created > 0
        return znode.mode in _WITH_TTL and znode.mtime + znode.ttl_ms < self.time

    def _attached(self, id_: int) -> Attached:
        self._touch(id_)
        session = self.tree.sessions[id_]
        self.tree.sessions[id_] = attrs.evolve(session, generation=session.generation + 1)
        return Attached(id_, session.generation + 1, session.timeout_ms)

    def _end(self, id_: int) -> None:
        for path in self.tree.ephemerals(id_):
            self._remove(path)
        del self.tree.sessions[id_]
        self.ended.append(id_)

    @property
    def _zxid(self) -> int:
        return self.tree.zxid + 1

    def _session(self, id_: int) -> ModelSession:
        _require(id_ in self.tree.sessions, Error.SESSION_EXPIRED)
        return self.tree.sessions[id_]

    def _znode(self, path: str) -> ModelZnode:
        _require(path in self.tree.znodes, Error.NO_NODE)
        return self.tree.znodes[path]

    def _valid(self, path: str) -> ModelZnode:
        _require(paths.is_valid(path), Error.BAD_ARGUMENTS)
        return self._znode(path)

    def _require_right(self, znode: ModelZnode, permission: Permission) -> None:
        identities: tuple[Identity, ...] = self.origin.identities
        _require(model_acl.may(znode.acl, int(permission), identities), Error.NO_AUTH)

    def _stored(self, acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
        found = model_acl.stored(acl, self.origin.identities)
        if found is None:
            raise RefusedError(Error.INVALID_ACL)
        return found


def _require(condition: bool, error: Error) -> None:
    if not condition:
        raise RefusedError(error)
