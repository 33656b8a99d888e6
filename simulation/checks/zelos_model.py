"""A tree of znodes that is as simple as can be: what ZooKeeper's documentation says, in dicts.                      Pure.

It shares nothing with the product but the words of its commands and results. Rights and quotas are not in it: clients of the
simulator ask for nothing that they may not do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from database.kv.commands import (
    ANY_VERSION,
    Attach,
    Check,
    CloseSession,
    Command,
    Create,
    CreateSession,
    Delete,
    Expire,
    Mode,
    Multi,
    Origin,
    Reap,
    SetData,
    Touch,
)
from database.kv.results import ChangeKind, Error, Stat

Change: TypeAlias = tuple[ChangeKind, str]
"""That the children of the parent have changed is said as well, right behind a creation or deletion."""
SYSTEM: Final = ("/zookeeper", "/zookeeper/config", "/zookeeper/quota")
UNSEEN: Final = (Touch, Expire, Reap)
"""What servers tell each other."""
_EPHEMERAL: Final = (Mode.EPHEMERAL, Mode.EPHEMERAL_SEQUENTIAL)
_SEQUENTIAL: Final = (Mode.PERSISTENT_SEQUENTIAL, Mode.EPHEMERAL_SEQUENTIAL, Mode.TTL_SEQUENTIAL)


@attrs.define
class Znode:
    """One of them."""

    data: bytes | None
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    owner: int = 0
    mode: Mode = Mode.PERSISTENT
    ttl_ms: int = 0
    version: int = 0
    created: int = 0
    """Children, ever."""
    children: set[str] = attrs.field(factory=set)


@attrs.define
class Session:
    """One that is alive."""

    timeout_ms: int
    password: bytes
    generation: int
    touches: int = 0
    """Commands of or about it."""


@attrs.frozen
class Outcome:
    """What one command did."""

    error: Error
    value: Any = None
    """As a client of the wire sees it."""
    changes: tuple[Change, ...] = ()
    ended: tuple[int, ...] = ()
    """Sessions."""


class RefusedError(Exception):
    """A command, or one operation of a multi, is refused."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error


@attrs.define(eq=False)
class Model:
    """See above. Commands are given in the order of their zxids."""

    nodes: dict[str, Znode] = attrs.field(
        factory=lambda: {"/": Znode(b"", 0, 0, 0, 0, 0, children={"zookeeper"}), **_system()}
    )
    sessions: dict[int, Session] = attrs.field(factory=dict)
    zxid: int = 0
    _changes: list[Change] = attrs.field(factory=list, init=False)

    # -- reading ----------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> Stat | None:
        node = self.nodes.get(path)
        if node is None:
            return None
        return Stat(
            czxid=node.czxid,
            mzxid=node.mzxid,
            ctime=node.ctime,
            mtime=node.mtime,
            version=node.version,
            cversion=2 * node.created - len(node.children),
            aversion=0,
            ephemeral_owner=node.owner,
            data_length=len(node.data or b""),
            children=len(node.children),
            pzxid=node.pzxid,
        )

    # -- commands ---------------------------------------------------------------------------------------------------

    def apply(self, command: Command) -> Outcome:
        """What this command does as the next one. It takes the next zxid, unless nobody can see that it was there."""
        self._changes = []
        self.zxid += 1
        outcome = self._outcome(command)
        if isinstance(command.operation, UNSEEN) and not (outcome.changes or outcome.ended):
            self.zxid -= 1
        return outcome

    def _outcome(self, command: Command) -> Outcome:
        try:
            self._check_session(command.origin)
            if isinstance(command.operation, Multi):
                parts = self._multi(command.operation, command)
                error = next((part.error for part in parts if part.error is not Error.OK), Error.OK)
                return Outcome(error, parts, tuple(self._changes))
            value, ended = self._execute(command)
        except RefusedError as refused:
            return Outcome(refused.error)
        return Outcome(Error.OK, value, tuple(self._changes), ended)

    def _check_session(self, origin: Origin) -> None:
        if not origin.session:
            return
        session = self.sessions.get(origin.session)
        if session is None:
            raise RefusedError(Error.SESSION_EXPIRED)
        if session.generation != origin.generation:
            raise RefusedError(Error.SESSION_MOVED)
        session.touches += 1

    def _execute(self, command: Command) -> tuple[Any, tuple[int, ...]]:
        operation, ended = command.operation, list[int]()
        value: Any = None
        match operation:
            case CreateSession():
                self._create_session(operation)
            case Attach():
                self._attach(operation)
            case CloseSession():
                ended = self._end([operation.session])
            case Touch():
                for number in operation.sessions:
                    if number in self.sessions:
                        self.sessions[number].touches += 1
            case Expire():
                ended = self._expire(operation)
            case Reap():
                self._reap(operation, command.time_ms)
            case _:
                value = self._operate(operation, command)
        return value, tuple(ended)

    def _multi(self, multi: Multi, command: Command) -> tuple[Outcome, ...]:
        """All or nothing; one that is refused says which of its operations it was."""
        before = copy.deepcopy(self.nodes)
        done: list[Outcome] = []
        for operation in multi.operations:
            try:
                done.append(Outcome(Error.OK, self._operate(operation, command)))
            except RefusedError as refused:
                self.nodes, self._changes = before, []
                later = len(multi.operations) - len(done) - 1
                first, last = Outcome(Error.OK), Outcome(Error.RUNTIME_INCONSISTENCY)
                return (*[first] * len(done), Outcome(refused.error), *[last] * later)
        return tuple(done)

    def _operate(self, operation: Any, command: Command) -> Any:
        doing: Mapping[type, Callable[[Any, Command], Any]] = {
            Create: self._create,
            Delete: self._delete,
            SetData: self._set_data,
            Check: self._check,
        }
        return doing[type(operation)](operation, command)

    def _create(self, create: Create, command: Command) -> tuple[str, Stat | None]:
        parent_path = create.path.rpartition("/")[0] or "/"
        parent = self.nodes.get(parent_path)
        if parent is None:
            raise RefusedError(Error.NO_NODE)
        path = create.path + (f"{parent.created:010d}" if create.mode in _SEQUENTIAL else "")
        if path in self.nodes:
            raise RefusedError(Error.NODE_EXISTS)
        if parent.owner:
            raise RefusedError(Error.NO_CHILDREN_FOR_EPHEMERALS)
        owner = command.origin.session if create.mode in _EPHEMERAL else 0
        zxid, time_ms = self.zxid, command.time_ms
        mode = Mode(create.mode)
        self.nodes[path] = Znode(create.data, zxid, zxid, zxid, time_ms, time_ms, owner, mode, create.ttl_ms)
        parent.children.add(path.rpartition("/")[2])
        parent.created += 1
        parent.pzxid = zxid
        self._changed(ChangeKind.CREATED, path)
        return path, self.stat(path)

    def _delete(self, delete: Delete, command: Command) -> None:
        if delete.path == "/" or delete.path in SYSTEM:
            raise RefusedError(Error.BAD_ARGUMENTS)
        self._check(delete, command)
        if self.nodes[delete.path].children:
            raise RefusedError(Error.NOT_EMPTY)
        self._drop(delete.path)

    def _set_data(self, change: SetData, command: Command) -> Stat | None:
        self._check(change, command)
        node = self.nodes[change.path]
        node.data, node.mzxid, node.mtime, node.version = change.data, self.zxid, command.time_ms, node.version + 1
        self._changed(ChangeKind.DATA_CHANGED, change.path)
        return self.stat(change.path)

    def _check(self, operation: Check | Delete | SetData, command: Command) -> None:
        node = self.nodes.get(operation.path)
        if node is None:
            raise RefusedError(Error.NO_NODE)
        if operation.version not in {ANY_VERSION, node.version}:
            raise RefusedError(Error.BAD_VERSION)

    def _create_session(self, create: CreateSession) -> None:
        if create.session in self.sessions:
            raise RefusedError(Error.NODE_EXISTS)
        self.sessions[create.session] = Session(create.timeout_ms, create.password, generation=1, touches=1)

    def _attach(self, attach: Attach) -> None:
        session = self.sessions.get(attach.session)
        if session is None or session.password != attach.password:
            raise RefusedError(Error.SESSION_EXPIRED)
        session.generation += 1
        session.touches += 1
        session.timeout_ms = attach.timeout_ms

    def _expire(self, expire: Expire) -> list[int]:
        return self._end(
            [
                number
                for number, touches in expire.sessions
                if number in self.sessions and self.sessions[number].touches == touches
            ]
        )

    def _end(self, numbers: list[int]) -> list[int]:
        for number in numbers:
            if self.sessions.pop(number, None) is None:
                raise RefusedError(Error.SESSION_EXPIRED)
            for path in sorted(path for path, node in self.nodes.items() if node.owner == number):
                self._drop(path)
        return numbers

    def _reap(self, reap: Reap, time_ms: int) -> None:
        for path in reap.paths:
            node = self.nodes.get(path)
            if node is not None and not node.children and _is_over(node, time_ms):
                self._drop(path)

    def _drop(self, path: str) -> None:
        del self.nodes[path]
        parent = self.nodes[path.rpartition("/")[0] or "/"]
        parent.children.discard(path.rpartition("/")[2])
        parent.pzxid = self.zxid
        self._changed(ChangeKind.DELETED, path)

    def _changed(self, kind: ChangeKind, path: str) -> None:
        self._changes.append((kind, path))
        if kind is not ChangeKind.DATA_CHANGED:
            self._changes.append((ChangeKind.CHILDREN_CHANGED, path.rpartition("/")[0] or "/"))


def _is_over(node: Znode, time_ms: int) -> bool:
    """An empty container that had a child, or a TTL node whose time has come."""
    if node.mode is Mode.CONTAINER:
        return node.created > 0
    return node.mode in {Mode.TTL, Mode.TTL_SEQUENTIAL} and node.mtime + node.ttl_ms < time_ms


def _system() -> dict[str, Znode]:
    return {
        SYSTEM[0]: Znode(b"", 0, 0, 0, 0, 0, children={"config", "quota"}),
        SYSTEM[1]: Znode(b"", 0, 0, 0, 0, 0),
        SYSTEM[2]: Znode(b"", 0, 0, 0, 0, 0),
    }
