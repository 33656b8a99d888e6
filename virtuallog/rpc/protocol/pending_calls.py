"""Pending calls, and the events that end the wait for their outcome."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import attrs

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Done, Request


@attrs.define(eq=False)
class PendingCall:
    """One call, settled once."""

    request: type[Request[Any]]
    done: Done
    deadline: float
    timeout_seconds: float


@attrs.define(eq=False)
class PendingCalls:
    """The calls to one node, by a number that the caller chooses."""

    next_deadline: float = math.inf
    """Earliest time at which `expire` has work. May be too early: settled calls leave it as it is."""
    _calls: dict[int, PendingCall] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, number: int, request: Request[Any], done: Done, now: float, timeout_seconds: float) -> None:
        deadline = now + timeout_seconds
        self._calls[number] = PendingCall(type(request), done, deadline, timeout_seconds)
        self.next_deadline = min(self.next_deadline, deadline)

    def settle(self, number: int, outcome: Any) -> None:
        """Settle a call. A late outcome of a call that is already settled is dropped."""
        call = self._calls.pop(number, None)
        if call is not None:
            call.done(outcome)

    def fail_all(self, error: VirtualLogError) -> None:
        """Settle every call with a copy of `error`: each caller that raises it adds its own traceback."""
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.done(copy(error))

    def expire(self, now: float) -> list[int]:
        """Settle calls past their deadline; return their numbers."""
        if now < self.next_deadline:
            return []
        expired = {number: call for number, call in self._calls.items() if call.deadline <= now}
        for number, call in expired.items():
            error = UnavailableError(f"no answer to {call.request.__name__} within {call.timeout_seconds:g} s")
            self.settle(number, error)
        self.next_deadline = min((call.deadline for call in self._calls.values()), default=math.inf)
        return list(expired)
