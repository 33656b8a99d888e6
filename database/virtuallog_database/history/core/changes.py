"""Changes of znodes by one entry of the log: by the commands in it, by counts of quotas, and by raw writes.

A command has been executed by the engines before this looks at it: its result says what has changed, and with which
stats. What no command explains is found by a comparison of the records before the entry and after it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.history.core.subtree import Subtree
from virtuallog_database.history.core.znode_state import ZnodeState, state_of
from virtuallog_database.ports import RecordReader
from virtuallog_database.tree import acl, paths
from virtuallog_database.tree.commands import (
    CloseSession,
    Command,
    Create,
    Delete,
    ExpireSessions,
    Mode,
    Multi,
    Operation,
    Origin,
    Reap,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.records import ZnodeKind
from virtuallog_database.tree.results import Result
from virtuallog_database.tree.znode_operations import KINDS

_BELOW_QUOTA: Final = paths.QUOTA + "/"


class Effect(enum.StrEnum):
    """Effect of a change on a znode."""

    CREATED = "created"
    DELETED = "deleted"
    DATA = "data"
    ACL = "acl"


class Cause(enum.StrEnum):
    """Cause of a change: an operation, or other work of the database."""

    CREATE = "create"
    DELETE = "delete"
    SET = "set"
    SET_ACL = "set-acl"
    MULTI = "multi"
    CLOSE_SESSION = "close-session"
    EXPIRE_SESSION = "expire-session"
    REAP = "reap"
    """A container without children, or a znode whose time to live is over."""
    QUOTA = "quota"
    """The tree has counted for a quota."""
    RAW_WRITE = "raw-write"
    """An operator has written to the stores."""


_CAUSES: Final[dict[type[Operation], Cause]] = {
    Create: Cause.CREATE,
    Delete: Cause.DELETE,
    SetData: Cause.SET,
    SetAcl: Cause.SET_ACL,
    Multi: Cause.MULTI,
    CloseSession: Cause.CLOSE_SESSION,
    ExpireSessions: Cause.EXPIRE_SESSION,
    Reap: Cause.REAP,
}


@attrs.frozen(kw_only=True)
class ZnodeChange:
    """One change of one znode."""

    position: int
    """Position of the entry. The state before is that at this position, the state after that at the next one."""
    time_ms: int
    """Wall-clock time in milliseconds at which the log ordered the entry."""
    path: str
    effect: Effect
    cause: Cause
    zxid: int
    """Zxid of the command; 0 if no command has done it."""
    origin: Origin
    """Session and identities of the client; empty for work of servers."""
    before: ZnodeState | None
    """State before the change. None if there was no such znode."""
    after: ZnodeState | None
    """State after the change. None if it was deleted."""


@attrs.frozen
class Executed:
    """A command that was executed, and has changed something."""

    command: Command
    result: Result


def changes_of(
    position: int,
    time_ms: int,
    executed: Sequence[Executed],
    touched: Iterable[str],
    subtree: Subtree,
    before: RecordReader,
    after: RecordReader,
    *,
    is_raw: bool,
) -> list[ZnodeChange]:
    """Changes in a subtree by one entry, in the order in which they happened.

    Args:
        position: position of the entry.
        time_ms: time of the entry.
        executed: its commands that have changed znodes of the subtree, or ACLs.
        touched: paths in the subtree whose records it has written.
        subtree: the subtree.
        before: records before the entry.
        after: records after it.
        is_raw: True if the entry has no commands at all, so records were written past them.

    Raises:
        CorruptionError: a record is torn or missing.
    """
    found = list[ZnodeChange]()
    known: dict[str, ZnodeState | None] = {}
    """States as the changes so far have left them, by path."""

    def state_now(path: str) -> ZnodeState | None:
        return known[path] if path in known else state_of(before, path)

    def note(path: str, effect: Effect, cause: Cause, zxid: int, origin: Origin, state: ZnodeState | None) -> None:
        change = ZnodeChange(
            position=position, time_ms=time_ms, path=path, effect=effect, cause=cause, zxid=zxid, origin=origin,
            before=state_now(path), after=state,
        )  # fmt: skip
        known[path] = state
        found.append(change)

    for each in executed:
        cause, zxid, origin = _CAUSES[type(each.command.operation)], each.result.zxid, each.command.origin
        for step in _steps(each):
            if subtree.covers(step.path):
                state = step.state_after(state_now(step.path), each.command, zxid)
                note(step.path, step.effect, cause, zxid, origin, state)
    for path in touched:
        if is_raw or path.startswith(_BELOW_QUOTA):
            for effect, state in _between(state_now(path), state_of(after, path)):
                note(path, effect, Cause.RAW_WRITE if is_raw else Cause.QUOTA, 0, Origin(), state)
    return found


@attrs.frozen
class _Step:
    """One change by one operation."""

    path: str
    effect: Effect
    operation: Create | SetData | SetAcl | None = None
    """Operation that says the new state. None for a deletion."""
    value: Any = None
    """Value of its result."""

    def state_after(self, former: ZnodeState | None, command: Command, zxid: int) -> ZnodeState | None:
        match self.operation:
            case None:
                return None
            case Create() as create:
                kind = KINDS[Mode(create.mode)]
                return ZnodeState(
                    kind=kind,
                    owner=command.origin.session if kind is ZnodeKind.EPHEMERAL else create.ttl_ms,
                    czxid=zxid,
                    version=0,
                    aversion=0,
                    data=create.data,
                    acl=acl.settled(create.acl, command.origin.identities),
                    mzxid=zxid,
                    mtime_ms=command.time_ms,
                )
        if former is None:
            raise CorruptionError(f"the log changes {self.path}, which does not exist there")
        if isinstance(self.operation, SetAcl):
            rights = acl.settled(self.operation.acl, command.origin.identities)
            return attrs.evolve(former, acl=rights, aversion=self.value.aversion)
        return attrs.evolve(
            former, data=self.operation.data, version=self.value.version, mzxid=zxid, mtime_ms=command.time_ms
        )


def _steps(executed: Executed) -> Iterator[_Step]:
    """Changes by a command that was not refused."""
    operation, result = executed.command.operation, executed.result
    if isinstance(operation, Multi):
        for part, done in zip(operation.operations, result.value, strict=True):
            yield from _steps_of(part, done.value)
    elif isinstance(operation, CloseSession | ExpireSessions | Reap):
        yield from (_Step(path, Effect.DELETED) for _, path in result.changes)
    else:
        yield from _steps_of(operation, result.value)


def _steps_of(operation: Operation, value: Any) -> Iterator[_Step]:
    match operation:
        case Create():
            yield _Step(value.path, Effect.CREATED, operation, value)
        case Delete(path=path):
            yield _Step(path, Effect.DELETED)
        case SetData(path=path):
            yield _Step(path, Effect.DATA, operation, value)
        case SetAcl(path=path):
            yield _Step(path, Effect.ACL, operation, value)


def _between(former: ZnodeState | None, now: ZnodeState | None) -> Iterator[tuple[Effect, ZnodeState | None]]:
    """Effects that lead from one state to another, each with the state that it leaves."""
    if former == now:
        return
    if former is None or now is None or former.identity != now.identity:
        if former is not None:
            yield Effect.DELETED, None
        if now is not None:
            yield Effect.CREATED, now
        return
    if (former.data, former.version) != (now.data, now.version):
        yield Effect.DATA, attrs.evolve(now, acl=former.acl, aversion=former.aversion)
    if (former.acl, former.aversion) != (now.acl, now.aversion):
        yield Effect.ACL, now
