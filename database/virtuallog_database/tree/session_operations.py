"""Operations on sessions: they begin, move, are touched, and end through the log.

A session is a record that all replicas have. One server cannot decide by itself that a client is
gone. The server that the session was attached to last proposes to expire it a timeout after its client
was heard; any other one, a timeout and a half after the last touch. The proposal names the number of
touches that its server knows. The session ends only if there has been no other touch at that place in
the log. So a server that was away for a while, or is behind, cannot end a live session.
"""

from __future__ import annotations

from virtuallog_database.tree import keys
from virtuallog_database.tree.commands import Attach, CloseSession, CreateSession, ExpireSessions, Reap, Touch
from virtuallog_database.tree.execution import Execution, find_session
from virtuallog_database.tree.records import SessionRecord, Znode, ZnodeKind
from virtuallog_database.tree.results import Attached, Error, RefusedError
from virtuallog_database.tree.znode_operations import remove


def touch_origin(execution: Execution) -> None:
    """Touch the session of a command: every command says that its client lives.

    Raises:
        RefusedError: SESSION_EXPIRED: it is over. SESSION_MOVED: it goes on at another connection.
    """
    origin = execution.origin
    key = keys.session(origin.session)
    known = execution.transaction.record(key)
    session = _session(execution, origin.session) if known is None else known
    if session.generation != origin.generation:
        raise RefusedError(Error.SESSION_MOVED)
    session.touches += 1
    if known is None:
        execution.transaction.put_record(key, session)
    execution.touched.append(origin.session)


def create(execution: Execution, operation: CreateSession) -> Attached:
    if operation.session == 0 or find_session(execution.transaction, operation.session) is not None:
        raise RefusedError(Error.NODE_EXISTS)
    execution.counters().sessions += 1
    return _attached(execution, operation.session, SessionRecord(1, operation.timeout_ms, 0, operation.password))


def attach(execution: Execution, operation: Attach) -> Attached:
    session = _session(execution, operation.session)
    if not session.has_password(operation.password):
        raise RefusedError(Error.SESSION_EXPIRED)  # as in ZooKeeper: the answer does not say which of the two was wrong
    session.generation += 1
    session.timeout_ms = operation.timeout_ms
    return _attached(execution, operation.session, session)


def _attached(execution: Execution, id_: int, session: SessionRecord) -> Attached:
    _touch(execution, id_, session)
    return Attached(id_, session.generation, session.timeout_ms)


def close(execution: Execution, operation: CloseSession) -> None:
    _session(execution, operation.session)
    _end(execution, operation.session)


def touch(execution: Execution, operation: Touch) -> None:
    """Touch sessions; those that have ended meanwhile are skipped."""
    for id_ in operation.sessions:
        session = find_session(execution.transaction, id_)
        if session is not None:
            _touch(execution, id_, session)


def expire(execution: Execution, operation: ExpireSessions) -> None:
    for id_, touches in operation.sessions:
        session = find_session(execution.transaction, id_)
        if session is not None and session.touches == touches:
            _end(execution, id_)


def reap(execution: Execution, operation: Reap) -> None:
    """Delete containers and TTL znodes whose time is over, by the clock of the proposer, as in
    ZooKeeper by the leader's."""
    for path in operation.paths:
        znode = execution.find(path)
        if znode is not None and is_reapable(znode, execution.time_ms):
            remove(execution, path, znode)


def is_reapable(znode: Znode, now_ms: int) -> bool:
    """True if the znode may be reaped. A container that never had a child may still be waiting for
    its first."""
    if znode.children:
        return False
    if znode.kind == ZnodeKind.CONTAINER:
        return znode.created > 0
    return znode.kind == ZnodeKind.TTL and now_ms - znode.mtime > znode.owner


def _session(execution: Execution, id_: int) -> SessionRecord:
    found = find_session(execution.transaction, id_)
    if found is None:
        raise RefusedError(Error.SESSION_EXPIRED)
    return found


def _touch(execution: Execution, id_: int, session: SessionRecord) -> None:
    session.touches += 1
    execution.transaction.put_record(keys.session(id_), session)
    execution.touched.append(id_)


def _end(execution: Execution, id_: int) -> None:
    """End a session with its ephemerals, in one step. They have no children."""
    owned = [keys.decoded(key[9:]) for key, _ in keys.scan_all(execution.transaction, keys.ephemerals(id_))]
    for path in owned:
        remove(execution, path, execution.znode(path))
    execution.transaction.delete(keys.session(id_))
    execution.counters().sessions -= 1
    execution.ended.append(id_)
