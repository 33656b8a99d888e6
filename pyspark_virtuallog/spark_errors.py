"""What went wrong, out of what Spark says of it: some sixty lines of Python and Java, of which one is ours.

An error of a task comes back to the driver as text: Spark wraps it, and wraps that again. The last line of the Python traceback in it
names our error as Python spells it. Nothing here imports PySpark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from virtuallog import errors
from virtuallog.errors import RetryableError, TerminalError, UnavailableError, VirtualLogError

_RAISED: Final = re.compile(r"^(?:\w+: )?virtuallog\.errors\.(\w+): (.+)$", re.MULTILINE)
_OTHER: Final = re.compile(r"^([\w.]+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_SPARKS: Final = ("pyspark.", "py4j.")


@attrs.define
class JobError(TerminalError):
    """A job of Spark failed for good."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def explain(error: BaseException) -> VirtualLogError | None:
    """What an error of Spark's comes from, in one line: UnavailableError if the same job may succeed later, JobError if not. None if
    it is none of Spark's."""
    if not type(error).__module__.startswith(_SPARKS):
        return None
    text = str(error)
    if raised := _RAISED.findall(text):
        name, reason = raised[-1]
        found = getattr(errors, name, TerminalError)
        return UnavailableError(reason) if issubclass(found, RetryableError) else JobError(reason)
    others = _OTHER.findall(text)
    return JobError(": ".join(others[-1]) if others else text.strip().partition("\n")[0])


@contextmanager
def explained() -> Iterator[None]:
    """Errors of Spark as ours; Spark's own text stays below them."""
    try:
        yield
    except Exception as error:
        better = explain(error)
        if better is None:
            raise
        raise better from error
