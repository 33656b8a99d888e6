"""Replies to requests of other nodes, computed in a task of the replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Done


async def reply_with_result(work: Callable[[Any], Awaitable[Any]], request: Any, done: Done) -> None:
    """Pass the result of `work(request)`, or its VirtualLogError, to `done`. Also replies if this
    task is cancelled because the replica ends. Otherwise the caller would wait for its timeout, and
    its connection would count one more unanswered call."""
    outcome: Any = UnavailableError("unknown outcome: the replica of this node has ended, or begins anew")
    try:
        outcome = await work(request)
    except VirtualLogError as error:
        outcome = error
    finally:
        done(outcome)
