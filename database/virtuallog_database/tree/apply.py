"""Execution of commands: a function of the transaction and the command alone.

Each command that clients can see takes the next zxid, also a refused one. A refused one changes
nothing else, except that its session counts as heard. Messages between servers (`Touch`;
`ExpireSessions` and `Reap` of what is gone or alive again) take no zxid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import bounds, commands, session_operations, znode_operations
from virtuallog_database.tree.commands import Command, Multi, Operation
from virtuallog_database.tree.execution import Execution, load_meta, store_meta
from virtuallog_database.tree.results import Error, RefusedError, Result

_UNSEEN: Final = frozenset({commands.Touch, commands.ExpireSessions, commands.Reap})


def apply(transaction: StoreTransaction, command: Command) -> Result:
    """Execute a command on the transaction, whole or, if it is refused, only as a sign of life of
    its session."""
    operation = command.operation
    execution = Execution(transaction, load_meta(transaction), command)
    try:
        if execution.origin.session:
            session_operations.touch_origin(execution)
        if type(operation) is Multi:
            error, value = _multi(execution, operation)
        else:
            error, value = Error.OK, _OPERATIONS[type(operation)](execution, operation)
    except RefusedError as refused:
        execution.take_back()
        error, value = refused.error, None
    return _finish(execution, operation, error, value)


def _multi(execution: Execution, multi: Multi) -> tuple[Error, tuple[Result, ...]]:
    """Execute all operations or none. If it is refused, the results say which operation it was, as
    in ZooKeeper."""
    zxid = execution.zxid
    results: list[Result] = []
    for operation in multi.operations:
        try:
            results.append(Result(zxid, Error.OK, _OPERATIONS[type(operation)](execution, operation)))
        except RefusedError as refused:
            execution.take_back()
            done, left = len(results), len(multi.operations) - len(results) - 1
            errors = [Error.OK] * done + [refused.error] + [Error.RUNTIME_INCONSISTENCY] * left
            return refused.error, tuple(Result(zxid, error) for error in errors)
    return Error.OK, tuple(results)


def _finish(execution: Execution, operation: Operation, error: Error, value: Any) -> Result:
    meta = execution.meta
    execution.transaction.operations += (
        len(operation.operations) if type(operation) is Multi else 1 + len(execution.changes)
    )
    execution.finish()
    if execution.recounted and meta.is_bounded:
        meta.recounted_ms = bounds.after_recount(meta.recounted_ms, execution.time_ms, execution.recounted)
    if type(operation) not in _UNSEEN or execution.changes or execution.ended:
        meta.zxid = execution.zxid
        store_meta(execution.transaction, meta)
    return Result(
        meta.zxid, error, value, tuple(execution.changes), tuple(execution.touched), tuple(execution.ended),
        tuple(execution.rights),
    )  # fmt: skip


_OPERATIONS: Final[dict[type, Callable[[Execution, Any], Any]]] = {
    commands.Create: znode_operations.create,
    commands.Delete: znode_operations.delete,
    commands.SetData: znode_operations.set_data,
    commands.SetAcl: znode_operations.set_acl,
    commands.Check: znode_operations.check,
    commands.CreateSession: session_operations.create,
    commands.Attach: session_operations.attach,
    commands.CloseSession: session_operations.close,
    commands.Touch: session_operations.touch,
    commands.ExpireSessions: session_operations.expire,
    commands.Reap: session_operations.reap,
}
