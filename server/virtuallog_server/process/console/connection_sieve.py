"""New connections of a port: those of use are passed on, and the others cost little.

A connection has neither a task nor a stream until its first bytes are there (`first_bytes`): one task accepts several per turn, looks at
what is in their sockets, and closes those that came for something else. Of a connection that a scanner opens most of the cost is the
wake-up of the process, so after a turn with such a connection the next one is a moment later, and takes all that came meanwhile.

Linux does not even show a connection before its first bytes (`TCP_DEFER_ACCEPT`): silent ones stay in the kernel for some seconds.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Final

import attrs
import trio
from trio.abc import Listener, Stream

from virtuallog.contract.ports import Clock
from virtuallog.rpc.connection_pace import ConnectionPace
from virtuallog.rpc.connection_slots import ConnectionSlots
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog_server.process.console.first_bytes import FirstBytes, OpeningVerdict

PAUSE_SECONDS: Final = 0.1
"""Pause after a turn with a connection that is of no use yet: a caller meanwhile waits no longer than it takes to notice."""
ACCEPTS_AT_ONCE: Final = 64
"""Connections accepted in one turn; with the pause, 640 a second of strangers."""
DEFER_SECONDS: Final = 5
"""Seconds, rounded up to 1, 3 or 7, for which Linux keeps a silent connection to itself."""
_GOODBYE_SECONDS: Final = 1.0
"""Time for a refused peer to read the reason. Bytes it has sent meanwhile would wipe it out if we closed at once."""
_DRAINED_BYTES: Final = 64 << 10


class _Stage(Enum):
    OPENING = auto()
    """Its first bytes are not all there."""
    TURN = auto()
    """It waits for a turn of its address."""
    REFUSED = auto()
    """It may read the refusal."""


@attrs.define(eq=False)
class _Newcomer:
    """A connection that is not passed on."""

    socket: socket.socket
    address: str
    since: float
    due: float
    """Time of the next look at it."""
    slot: int = -1
    stage: _Stage = _Stage.OPENING


@attrs.define(eq=False, kw_only=True)
class ConnectionSieve:
    """The new connections of one listener."""

    opening: FirstBytes
    clock: Clock
    slots: ConnectionSlots
    """Slots for connections that are not passed on yet: of too many the oldest is closed."""
    warnings: RateLimitedLog
    pace: ConnectionPace | None = None
    """Pace of the connections of each address that are passed on. None if there is none."""
    uncounted: Callable[[str], bool] = lambda address: False
    """True for an address that may take any number of the slots."""
    came: Callable[[], None] = lambda: None
    """Called for each connection that is accepted."""
    _waiting: dict[_Newcomer, None] = attrs.field(factory=dict, init=False)

    async def run(self, listener: Listener[Any], serve: Callable[[Stream], Awaitable[object]]) -> None:
        """Accept connections until cancelled, then close all that are not passed on.

        Args:
            listener: listens. It is closed at the end.
            serve: called in a task of its own for each connection of use, with its first bytes still to read. Closes it.
        """
        assert isinstance(listener, trio.SocketListener)
        with socket.socket(fileno=os.dup(listener.socket.fileno())) as port:
            _defer(port)
            try:
                async with listener, trio.open_nursery() as nursery:
                    while True:
                        await self._wait(port)
                        if self._take_turn(port, lambda stream: nursery.start_soon(serve, stream)):
                            await self.clock.sleep(PAUSE_SECONDS)
            finally:
                for each in [*self._waiting]:
                    self._close(each)

    async def _wait(self, port: socket.socket) -> None:
        """Wait until a connection came, or the time for a look at one has come."""
        due = min((each.due for each in self._waiting), default=float("inf"))
        with self.clock.timeout(due - self.clock.monotonic()):
            await trio.lowlevel.wait_readable(port)

    def _take_turn(self, port: socket.socket, serve: Callable[[Stream], None]) -> bool:
        """Accept, and look at all whose time has come. Returns True if there are connections of no use yet."""
        now, useless = self.clock.monotonic(), False
        for each in [each for each in self._waiting if each.due <= now]:
            self._look(each, now, serve)
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                made, (host, *_) = port.accept()
            except BlockingIOError:
                break
            except OSError as error:  # it has broken already, or there are no descriptors left
                self.warnings.warn("connection refused", reason=str(error))
                return True
            self.came()
            each = _Newcomer(made, host, now, now)
            self._waiting[each] = None
            each.slot = self.slots.enter("" if self.uncounted(host) else host, partial(self._drop, each))
            useless |= not self._look(each, now, serve)
        return useless or bool(self._waiting)

    def _look(self, each: _Newcomer, now: float, serve: Callable[[Stream], None]) -> bool:
        """Decide about a connection. Returns True if it was passed on."""
        if each.stage is _Stage.OPENING and self._judge(each, now):
            each.stage = _Stage.TURN
            wait = self.pace.take(each.address, now) if self.pace else 0.0
            if wait is None:
                self._end(each, "too many connections from its address")
                return False
            each.due = now + wait
        if each.due > now or each not in self._waiting:
            return False
        if each.stage is _Stage.TURN:
            self._forget(each)
            serve(trio.SocketStream(trio.socket.from_stdlib_socket(each.socket)))
            return True
        self._close(each)
        return False

    def _judge(self, each: _Newcomer, now: float) -> bool:
        """Look at the first bytes. Returns True if they are whole. A connection that cannot be of use is closed or refused."""
        opening, deadline = self.opening, each.since + self.opening.seconds
        try:
            begin = each.socket.recv(opening.bytes_max, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            verdict = OpeningVerdict.WAIT
        except OSError as error:
            self._end(each, str(error))
            return False
        else:
            if not begin:  # a look whether the port is open, as load balancers take: no complaint
                self._close(each)
                return False
            verdict = opening.judge(begin)
        if refusal := opening.refusals.get(verdict):
            self._refuse(each, refusal, now)
        elif verdict is OpeningVerdict.WAIT:
            each.due = min(now + max(PAUSE_SECONDS, now - each.since), deadline)
            if now >= deadline:
                self._end(each, "its first bytes did not come in time")
        return verdict is OpeningVerdict.SERVE

    def _refuse(self, each: _Newcomer, refusal: bytes, now: float) -> None:
        """Send the refusal, and leave time to read it."""
        self.warnings.warn("connection refused", reason="its first bytes are no request")
        each.stage, each.due = _Stage.REFUSED, now + _GOODBYE_SECONDS
        try:
            each.socket.recv(_DRAINED_BYTES, socket.MSG_DONTWAIT)
            each.socket.send(refusal, socket.MSG_DONTWAIT)
            each.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(each)

    def _end(self, each: _Newcomer, reason: str) -> None:
        self.warnings.warn("connection refused", reason=reason)
        self._close(each)

    def _close(self, each: _Newcomer) -> None:
        self._forget(each)
        each.socket.close()

    def _forget(self, each: _Newcomer) -> None:
        self.slots.leave(each.slot)
        self._waiting.pop(each, None)

    def _drop(self, each: _Newcomer) -> None:
        """Close a connection whose slot another one has taken."""
        self._waiting.pop(each, None)
        each.socket.close()


def _defer(port: socket.socket) -> None:
    """Let the kernel keep connections until their first bytes come, where it can."""
    if hasattr(socket, "TCP_DEFER_ACCEPT"):
        port.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_SECONDS)
