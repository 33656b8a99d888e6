"""Errors of `State`: a store may be stale or of unknown outcome, which Mesos reports as one."""

from __future__ import annotations

import attrs

from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog_database.state.variable import Variable


@attrs.define
class StaleVersionError(VirtualLogError):
    """The variable has another version now, or is expunged: fetch it and decide anew."""

    name: str
    is_unsure: bool = False
    """True if an earlier attempt of this call got no answer: it may have stored the value, which another writer then replaced. False: the value
    was never stored."""

    def __str__(self) -> str:
        tail = "; it may have been stored for a while" if self.is_unsure else "; nothing was stored"
        return f"'{self.name}' has another version now{tail}"


@attrs.define
class OutcomeUnknownError(RetryableError):
    """No storage answered in time: the write has happened, or will, or never does. `State.settle` finds out."""

    variable: Variable
    """The variable that was being written, with its new version."""
    reason: str
    """Error of the last attempt."""

    def __str__(self) -> str:
        return f"it is unknown whether '{self.variable.name}' was written: {self.reason}"
