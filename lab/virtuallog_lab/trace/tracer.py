"""Recorder of one process: events go into a ring in memory while it records, and cost nothing before and after."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import trio
from trio.abc import Instrument

from virtuallog.contract.ports import Clock
from virtuallog_lab.trace import probes
from virtuallog_lab.trace.events import SOCKET_KINDS, EventKind, ProcessTrace, TraceEvent

EVENTS_MAX: Final = 1 << 20
"""Events kept; the oldest go first. Some ten thousand appends, and 200 MB."""


class Tracer(Instrument):
    """Records the process whose event loop runs in this thread."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._loop = threading.get_ident()
        self._events: deque[tuple[float, EventKind, str, int]] = deque(maxlen=EVENTS_MAX)
        self._restore: Callable[[], None] | None = None

    def begin(self) -> None:
        """Record from now on."""
        self._events.clear()
        self._restore = probes.install(self._record)
        trio.lowlevel.add_instrument(self)

    def end(self) -> ProcessTrace:
        """Record no more. Returns all since `begin`."""
        assert self._restore is not None
        trio.lowlevel.remove_instrument(self)
        self._restore()
        events = [TraceEvent(at, kind, detail, thread == self._loop) for at, kind, detail, thread in self._events]
        used = {event.detail for event in events if event.kind in SOCKET_KINDS}
        found = {descriptor: _ports(int(descriptor)) for descriptor in used}
        return ProcessTrace(events, {descriptor: ports for descriptor, ports in found.items() if ports is not None})

    def _record(self, kind: EventKind, detail: str = "") -> None:
        self._events.append((self._now(), kind, detail, threading.get_ident()))

    # -- the names that trio calls --------------------------------------------------------------------------------

    def after_io_wait(self, timeout: float) -> None:
        self._record(EventKind.TURN)

    def before_io_wait(self, timeout: float) -> None:
        self._record(EventKind.TURN_END)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        self._record(EventKind.WOKEN, _short(task.name))

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._record(EventKind.STEP, _short(task.name))


def _short(name: str) -> str:
    """Class and function of a task."""
    return ".".join(name.replace(".<locals>", "").split(".")[-2:])


def _ports(descriptor: int) -> tuple[int, int] | None:
    """Own port and port of the peer; None unless it is a connected TCP socket by now."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            return (copy.getsockname()[1], copy.getpeername()[1]) if copy.family == socket.AF_INET else None
    except OSError:
        return None
