"""Functions that are wrapped while a trace runs, each with the events that its calls become.

A probe names its function by module and attributes. One whose module is not imported in this process is left out: the floor has no
write-ahead log, and a client neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

import attrs

from virtuallog_lab.trace.events import EventKind

Record: TypeAlias = Callable[[EventKind, str], None]
Function: TypeAlias = Callable[..., Any]
Wrap: TypeAlias = Callable[[Function, Record], Function]


class TracedQueue(SimpleQueue[Any]):
    """`queue.SimpleQueue` as a Python class, whose methods can be replaced. Processes that are to be traced use it from their start."""


@attrs.frozen
class Probe:
    """One wrapped function."""

    module: str
    path: str
    """Attributes from the module to the function, with dots."""
    wrap: Wrap


def install(record: Record) -> Callable[[], None]:
    """Wrap the functions of all probes. Returns a function that takes the wraps away."""
    restores = [_replace(probe, record) for probe in PROBES if probe.module in sys.modules]

    def restore_all() -> None:
        for restore in reversed(restores):
            restore()

    return restore_all


def _replace(probe: Probe, record: Record) -> Callable[[], None]:
    owner: Any = sys.modules[probe.module]
    *outer, name = probe.path.split(".")
    for attribute in outer:
        owner = getattr(owner, attribute)
    is_own, original = name in vars(owner), getattr(owner, name)
    setattr(owner, name, wraps(original)(probe.wrap(original, record)))
    return lambda: setattr(owner, name, original) if is_own else delattr(owner, name)


def _before(kind: EventKind, detail: Callable[..., str] = lambda *_: "") -> Wrap:
    """An event before each call."""

    def wrap(function: Function, record: Record) -> Function:
        def traced(*arguments: Any, **named: Any) -> Any:
            record(kind, detail(*arguments))
            return function(*arguments, **named)

        return traced

    return wrap


def _around(kind: EventKind, end: EventKind) -> Wrap:
    """An event before each call, and one after it."""

    def wrap(function: Function, record: Record) -> Function:
        def traced(*arguments: Any) -> Any:
            record(kind, "")
            result = function(*arguments)
            record(end, "")
            return result

        return traced

    return wrap


def _receive(function: Function, record: Record) -> Function:
    def traced(source: Any, *arguments: Any) -> Any:
        try:
            received = function(source, *arguments)
        except BlockingIOError:
            record(EventKind.READ_IN_VAIN, _descriptor(source))
            raise
        record(EventKind.RECEIVED, _descriptor(source))
        return received

    return traced


def _take(function: Function, record: Record) -> Function:
    def traced(queue: Any, *arguments: Any) -> Any:
        item = function(queue, *arguments)
        record(EventKind.TAKEN, "")
        return item

    return traced


def _post(function: Function, record: Record) -> Function:
    def traced(token: Any, call: Function, *arguments: Any, idempotent: bool = False) -> Any:
        record(EventKind.POSTED, "")
        if idempotent:  # trio compares such calls with each other, so they must stay what they are
            return function(token, call, *arguments, idempotent=True)

        def called(*inner: Any) -> None:
            record(EventKind.CALLED, "")
            call(*inner)

        return function(token, called, *arguments)

    return traced


def _descriptor(source: Any) -> str:
    return str(source if isinstance(source, int) else source.fileno())


def _reached(name: str) -> Wrap:
    return _before(EventKind.REACHED, lambda *_: name)


def _request(_handlers: Any, request: Any, _done: Any) -> str:
    return f"the handler of {type(request).__name__}"


_SEND: Final = _before(EventKind.SENT, lambda target, *_: _descriptor(target))

PROBES: Final = (
    Probe("os", "read", _receive),
    Probe("os", "write", _SEND),
    Probe("socket", "socket.recv", _receive),
    Probe("socket", "socket.send", _SEND),
    Probe("os", "pwritev", _around(EventKind.WRITE, EventKind.WRITTEN)),
    Probe("os", "fdatasync", _around(EventKind.SYNC, EventKind.SYNCED)),
    Probe(__name__, "TracedQueue.put", _before(EventKind.HANDED_OVER)),
    Probe(__name__, "TracedQueue.get", _take),
    Probe("trio", "lowlevel.TrioToken.run_sync_soon", _post),
    Probe("capnp.lib.capnp", "_StructModule.new_message", _before(EventKind.BUILT)),
    Probe("capnp.lib.capnp", "_StructModule.from_bytes", _before(EventKind.PARSED)),
    Probe("capnp.lib.capnp", "_StructModule.from_segments", _before(EventKind.PARSED)),
    Probe("virtuallog.rpc.protocol.message_writer", "_BUILDER", _before(EventKind.BUILT)),
    Probe("virtuallog.rpc.server", "dispatch", _before(EventKind.REACHED, _request)),
    Probe("virtuallog.rpc.local_link", "dispatch", _before(EventKind.REACHED, _request)),
    Probe("virtuallog.rpc.protocol.pending_calls", "PendingCalls.settle", _reached("the caller of an answer")),
    Probe("virtuallog_loglets.wal.log", "WriteAheadLog.append", _reached("the queue of the WAL")),
)
"""System calls and thread hand-overs first; then messages; then places in the product."""
