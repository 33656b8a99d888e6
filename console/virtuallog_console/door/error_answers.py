"""Errors of the log as problems of HTTP: one table.

The outcome of an append that fails is in `outcome`: `nothing` was done, or it is `unknown`. An append of an unknown outcome may be in the
log, now or later; a client that must know appends with `expected_tail` and reads there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract import errors
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog_console.access.admission import RETRY_SECONDS
from virtuallog_console.access.core.problem import Problem

UNKNOWN: Final = "unknown"
NOTHING: Final = "nothing"
_AGAIN: Final = "try again later; the operator finds the reason with `virtuallog explain`"
_OPERATOR: Final = "tell the operator, who finds the reason with `virtuallog explain`"
_SEARCH: Final = "look for the entry before it is sent again, or append with expected_tail"


@attrs.frozen(kw_only=True)
class ErrorAnswer:
    """The answer to requests that fail with one class of errors."""

    status: int
    append_status: int | None = None
    """Status of an append. None if it is the same."""
    kind: str
    title: str
    remedy: str
    append_remedy: str | None = None
    """None if it is the same."""
    outcome: str = NOTHING
    """Outcome of an append."""


ANSWERS: Final[Mapping[type[VirtualLogError], ErrorAnswer]] = {
    errors.UnavailableError: ErrorAnswer(
        status=503, append_status=504, kind="unavailable", title="Not enough nodes answered", remedy=_AGAIN,
        append_remedy=_SEARCH, outcome=UNKNOWN,
    ),
    errors.OverloadedError: ErrorAnswer(status=503, kind="overloaded", title="A queue is full", remedy=_AGAIN),
    errors.UntrustedError: ErrorAnswer(
        status=502, kind="untrusted", title="The console and a node do not trust each other", remedy=_OPERATOR
    ),
    errors.ReconfigurationNeededError: ErrorAnswer(
        status=503, kind="unavailable", title="The log moves to another loglet", remedy=_AGAIN, append_remedy=_SEARCH, outcome=UNKNOWN
    ),
    errors.OutOfOrderError: ErrorAnswer(
        status=503, kind="unavailable", title="A session is out of order", remedy=_AGAIN, append_remedy=_SEARCH, outcome=UNKNOWN
    ),
    errors.SealedError: ErrorAnswer(
        status=409, kind="closed", title="The log is closed", remedy="an operator extends the chain: virtuallog reconfigure"
    ),
    errors.ChainConflictError: ErrorAnswer(status=503, kind="unavailable", title="The chain is being changed", remedy=_AGAIN),
    errors.TrimmedError: ErrorAnswer(
        status=410, kind="trimmed", title="The position has been trimmed", remedy="begin at trim_point"
    ),
    errors.BeyondTailError: ErrorAnswer(
        status=416, kind="beyond-tail", title="The position is past the tail", remedy="wait for it with /v1/tail, or ask for less"
    ),
    errors.TailMismatchError: ErrorAnswer(
        status=412, kind="tail-mismatch", title="The tail is not the expected one", remedy="read from expected_tail on, decide anew"
    ),
    errors.TooLargeError: ErrorAnswer(
        status=413, kind="too-large", title="The entry is too large",
        remedy="send fewer or smaller entries, or store a large value elsewhere and append a reference",
    ),
    errors.MalformedError: ErrorAnswer(
        status=502, kind="malformed", title="A node sent what this console does not understand", remedy=_OPERATOR, outcome=UNKNOWN
    ),
    errors.UnsupportedError: ErrorAnswer(
        status=501, kind="unsupported", title="The loglet cannot do this", remedy="leave expected_tail out, or ask the operator"
    ),
    errors.ForbiddenError: ErrorAnswer(
        status=403, kind="forbidden-by-log", title="The console's certificate has not the right",
        remedy="the log of a database takes entries from nodes and admins only; use a log of your own",
    ),
    errors.UnknownKindError: ErrorAnswer(
        status=501, kind="unknown-kind", title="The console lacks a kind of loglet", remedy="install it where the console runs"
    ),
    errors.InvalidSettingError: ErrorAnswer(status=500, kind="invalid-setting", title="A setting is wrong", remedy=_OPERATOR),
    errors.WrongRecipientError: ErrorAnswer(
        status=502, kind="wrong-node", title="Another node answered than the one meant", remedy=_OPERATOR
    ),
    errors.CorruptionError: ErrorAnswer(
        status=500, kind="corruption", title="Stored entries are damaged", remedy=_OPERATOR, outcome=UNKNOWN
    ),
    errors.StorageError: ErrorAnswer(status=500, kind="storage", title="A disk failed", remedy=_OPERATOR, outcome=UNKNOWN),
    errors.DiskFullError: ErrorAnswer(status=507, kind="disk-full", title="A disk is full", remedy=_OPERATOR),
}  # fmt: skip
"""Answer to each class of errors. `VirtualLogError` itself is not raised."""

_OTHER: Final = ErrorAnswer(status=500, kind="failed", title="The log failed", remedy=_OPERATOR, outcome=UNKNOWN)


def problem_of(error: VirtualLogError, *, append: bool = False) -> Problem:
    """The problem that tells a caller of this error.

    Args:
        error: the error.
        append: True if an append failed.
    """
    answer = ANSWERS.get(type(error), _OTHER)
    status = (answer.append_status if append else None) or answer.status
    more: dict[str, Any] = {"outcome": answer.outcome} if append else {}
    remedy = (answer.append_remedy if append else None) or answer.remedy
    match error:
        case errors.TrimmedError(first=first):
            more["trim_point"] = first
        case errors.BeyondTailError(tail=tail) | errors.TailMismatchError(found=tail):
            more["tail"] = tail
        case errors.TooLargeError(limit=limit):
            more["limit"] = limit
    headers = {"Retry-After": str(RETRY_SECONDS)} if isinstance(error, RetryableError) and status == 503 else {}
    return Problem(
        status=status,
        kind=answer.kind,
        title=answer.title,
        detail=str(error)[:1000],
        remedy=remedy,
        more=more,
        headers=headers,
    )
