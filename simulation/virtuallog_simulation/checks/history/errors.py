"""Errors that a client may receive: those that `virtuallog.contract.loglet` and
`virtuallog.client.virtual_log` promise, and no others.

An undocumented error is a broken promise even if nothing else is wrong: no caller knows what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from virtuallog.contract import errors
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.testing.checker.actions import (
    CloseChange,
    ExtendChange,
    LogAppend,
    LogCheckTail,
    LogFindTrimPoint,
    LogFollow,
    LogletAppend,
    LogletRead,
    LogletSeal,
    LogletTail,
    LogletTrim,
    LogRead,
    LogTrim,
    MembersChange,
    ModifyChange,
    Reconfigure,
    RegisterGet,
    RegisterPut,
    TruncateChange,
)
from virtuallog.testing.checker.history import Fault, History, Operation
from virtuallog.testing.checker.violation import Check, Violation, once, proof

_BIT_ROT: Final = "bit rot"
"""Name in the history of the fault that damages durable bytes."""

_CONDITIONAL: Final = (errors.TailMismatchError, errors.UnsupportedError)
"""Errors of conditional appends only."""
_DROPPED: Final = (UnavailableError, errors.SealedError)
"""Every method of a loglet may say that it has been dropped."""

DOCUMENTED: Final[Mapping[type, tuple[type[VirtualLogError], ...]]] = {
    LogAppend: (UnavailableError, errors.SealedError, errors.TooLargeError, *_CONDITIONAL),
    LogCheckTail: (UnavailableError,),
    LogRead: (UnavailableError, errors.BeyondTailError, errors.CorruptionError),
    LogFollow: (errors.CorruptionError,),  # servers that do not answer make it wait
    LogTrim: (UnavailableError,),
    LogFindTrimPoint: (UnavailableError,),
    ExtendChange: (UnavailableError, errors.UnknownKindError, errors.InvalidSettingError),
    ModifyChange: (UnavailableError, errors.UnknownKindError, errors.InvalidSettingError),
    TruncateChange: (UnavailableError,),
    CloseChange: (UnavailableError,),
    MembersChange: (UnavailableError, errors.InvalidSettingError),
    LogletAppend: (
        *_DROPPED,
        errors.ReconfigurationNeededError,
        errors.OutOfOrderError,
        errors.OverloadedError,
        *_CONDITIONAL,
    ),
    LogletTail: (*_DROPPED, errors.ReconfigurationNeededError),
    LogletSeal: _DROPPED,
    LogletRead: (*_DROPPED, errors.CorruptionError),
    LogletTrim: _DROPPED,
    RegisterGet: (UnavailableError,),
    RegisterPut: (UnavailableError, errors.ChainConflictError, errors.TooLargeError),
}
"""Documented errors by action, or by kind of change."""

_LOG: Final = (LogAppend, LogCheckTail, LogRead, LogFollow, LogTrim, LogFindTrimPoint, Reconfigure)
_LOGLET: Final = (LogletAppend, LogletTail, LogletSeal, LogletRead, LogletTrim)


def log_errors_as_documented(history: History) -> Iterator[Violation]:
    """Operations of the log return documented errors only."""
    yield from _undocumented(history, _LOG)


def loglet_errors_as_documented(history: History) -> Iterator[Violation]:
    """Operations of loglets return documented errors only."""
    yield from _undocumented(history, _LOGLET)


def register_errors_as_documented(history: History) -> Iterator[Violation]:
    """Operations of the MetaStore return documented errors only."""
    yield from _undocumented(history, (RegisterGet, RegisterPut))


LOG_ERROR_CHECKS: Final[tuple[Check, ...]] = (log_errors_as_documented,)
LOGLET_ERROR_CHECKS: Final[tuple[Check, ...]] = (loglet_errors_as_documented,)
REGISTER_ERROR_CHECKS: Final[tuple[Check, ...]] = (register_errors_as_documented,)


def _undocumented(history: History, kinds: tuple[type, ...]) -> Iterator[Violation]:
    for kind in kinds:
        for operation in history.operations(kind):
            error = operation.error
            if isinstance(error, VirtualLogError) and not _may_hear(history, operation, error):
                message = f"{operation.action} failed with {type(error).__name__}: {error}"
                yield Violation("errors as documented", message, proof(operation))


def _may_hear(history: History, operation: Operation, error: VirtualLogError) -> bool:
    action = operation.action
    if type(error) not in DOCUMENTED[type(action.change if isinstance(action, Reconfigure) else action)]:
        return False
    if isinstance(error, errors.CorruptionError):
        return _before(_first_rot(history), operation)
    if isinstance(action, LogAppend | LogletAppend) and isinstance(error, _CONDITIONAL):
        return action.expected_tail is not None
    if isinstance(action, LogAppend) and isinstance(error, errors.SealedError):
        return _before(_first_close(history), operation)
    return True


def _before(event: int | None, operation: Operation) -> bool:
    return event is not None and operation.ended is not None and event < operation.ended


@once
def _first_rot(history: History) -> int | None:
    """Event at which durable bytes were damaged first."""
    rotten = (
        index
        for index, event in enumerate(history.events)
        if isinstance(event, Fault) and event.what.startswith(_BIT_ROT)
    )
    return next(rotten, None)


@once
def _first_close(history: History) -> int | None:
    """Event at which a client first tried to close the log on purpose."""
    changes = history.operations(Reconfigure)
    return next((change.invoked for change in changes if isinstance(change.action.change, CloseChange)), None)
