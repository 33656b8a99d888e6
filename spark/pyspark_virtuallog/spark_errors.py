"""Translation of Spark's errors: finds the one line of ours in some sixty lines of Python and Java.

An error of a task comes back to the driver as text: Spark wraps it, and wraps that again. The last
line of the Python traceback in it names our error as Python spells it. If Java alone has failed,
its last cause is the most informative. Nothing here imports PySpark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from virtuallog.contract import errors
from virtuallog.contract.errors import RetryableError, TerminalError, UnavailableError, VirtualLogError

_OURS: Final = re.compile(
    r"^(?:\w+: )?(?:virtuallog|virtuallog_\w+|pyspark_virtuallog)\.[\w.]*?(\w+Error): (.+)$",
    re.MULTILINE,
)
_OTHERS: Final = re.compile(
    r"^(?:: |Caused by: |Exception in thread \"\S+\" )?([\w.$]+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE
)
_WRAPPED: Final = "Traceback (most recent call last)"
"""Prefix of a Java cause that is Python, whose own cause stands below."""
_SPARKS: Final = ("pyspark.", "py4j.")
_ENDED: Final = "Py4JNetworkError"
"""Error of Py4J when Java does not answer any more."""


@attrs.define
class JobError(TerminalError):
    """A job of Spark failed for good."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def explain(error: BaseException) -> VirtualLogError | None:
    """Cause of one of Spark's errors, in one line: UnavailableError if the same job may succeed
    later, JobError if not. Of a group it is the first one of Spark's. None if the error is not from
    Spark."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := explain(each))), None)
    if not type(error).__module__.startswith(_SPARKS):
        return None
    if type(error).__name__ == _ENDED:
        return JobError("Spark has ended in the middle of the job: its Java was killed, or had no memory left")
    text = str(error)
    if raised := _OURS.findall(text):
        name, reason = raised[-1]
        kind = getattr(errors, name, TerminalError)
        return UnavailableError(reason) if issubclass(kind, RetryableError) else JobError(reason)
    return JobError(reason_in(text))


def reason_in(text: str) -> str:
    """Most informative line of a text of Python and Java: the last cause, of Python if it is in
    there; else the first line."""
    found = [(name, reason) for name, reason in _OTHERS.findall(text) if not reason.startswith(_WRAPPED)]
    of_python = [each for each in found if not each[0].startswith(("java", "org.", "scala."))]
    if found:
        return ": ".join((of_python or found)[-1])
    return text.strip().partition("\n")[0]


@contextmanager
def explained() -> Iterator[None]:
    """Translate errors of Spark into ours; Spark's own text stays below them."""
    try:
        yield
    except Exception as error:
        better = explain(error)
        if better is None:
            raise
        raise better from error
