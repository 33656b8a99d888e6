"""Events of a connection machine, for its driver.

Not frozen: one is made for each message, and frozen classes take twice as long to make.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Request


@attrs.define
class CallArrived:
    """A call of the other side: answer it with `Connection.respond`, now or later."""

    answer: int
    request: Request[Any]


@attrs.define
class ReturnArrived:
    """The return of a question of ours."""

    question: int
    outcome: Any
    """The reply, or a VirtualLogError."""


@attrs.define
class OpenRefused:
    """The other side cannot talk to the node that we offer, and knows it."""

    error: VirtualLogError


@attrs.define
class ConnectionFailed:
    """The end of the connection, by their abort or ours. Send what is in the outbox, then close."""

    error: VirtualLogError


Event: TypeAlias = CallArrived | ReturnArrived | OpenRefused | ConnectionFailed
