"""Answers what other nodes ask of a replica, in a task of that replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Done


async def reply_with_result(work: Callable[[Any], Awaitable[Any]], request: Any, done: Done) -> None:
    """Tell `done` what `work` makes of the request, or the error that it ends with. Also if this task is cancelled, as the replica
    ends: the asker would wait for its time to be over, and its connection would count one more call without an answer."""
    outcome: Any = UnavailableError("unknown outcome: the replica of this node has ended, or begins anew")
    try:
        outcome = await work(request)
    except VirtualLogError as error:
        outcome = error
    finally:
        done(outcome)
