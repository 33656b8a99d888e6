"""What a connection machine tells its driver."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Request


@attrs.frozen
class CallArrived:
    """Theirs: answer it with `Connection.respond`, now or later."""

    answer: int
    request: Request[Any]


@attrs.frozen
class ReturnArrived:
    """A question of ours is settled."""

    question: int
    outcome: Any
    """The reply, or a VirtualLogError."""


@attrs.frozen
class OpenRefused:
    """They cannot talk to the node that we offer; they have been told."""

    error: VirtualLogError


@attrs.frozen
class ConnectionFailed:
    """The connection is over, by their abort or by ours. Send what is in the outbox, then close."""

    error: VirtualLogError


Event: TypeAlias = CallArrived | ReturnArrived | OpenRefused | ConnectionFailed
