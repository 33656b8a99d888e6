"""Dispatch of a request to its handler; survives bugs of the handler."""

from __future__ import annotations

from typing import Any

from virtuallog.contract.errors import UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Done, Handlers, Request
from virtuallog.runtime import log


def dispatch(handlers: Handlers, request: Request[Any], done: Done) -> None:
    """Call the handler of `request`.

    `done` is called by the handler, or here with the error that it raised. An error that virtuallog
    did not raise on purpose is a bug in the handler. It is logged, the outcome of this request is
    unknown, and other requests are still served. Only such a bug calls `done` twice: it must drop
    the second outcome.
    """
    handler = handlers.get(type(request))
    if handler is None:
        done(UnsupportedError(f"this node does not serve {type(request).__name__}"))
        return
    try:
        handler(request, done)
    except VirtualLogError as error:
        done(error)
    except Exception:
        log.exception("a handler failed", request=type(request).__name__)
        done(UnavailableError(f"the node failed to handle {type(request).__name__}"))
