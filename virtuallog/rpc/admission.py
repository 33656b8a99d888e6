"""Admission of connections to a server: their number, their bytes, and their timeouts.

* A connection that arrives at a full server: the one that has been silent for longest is closed. If
  all have made a call, the one that has been idle for longest is closed; it comes back when it
  needs to. Busy ones stay: if all are busy the new one is closed.
* Over the limit of bytes: the one that has been stuck for longest is closed, be it with half a
  frame or with replies that it does not take. If none is stuck, the one that holds most.
* A connection that says nothing, or is stuck, is closed when its time is over.

So a well-behaved client is closed last, however many others are not.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from virtuallog.contract.errors import InvalidSettingError


@attrs.frozen(kw_only=True)
class ServerLimits:
    """Limits of all connections of a server together. Sizes in bytes, times in seconds.

    The limits of one connection are in `server.py`; docs/reference/limits.md has all bounds.
    """

    connections_max: int = 1024
    """Connections at a time.

    A node has one of each other node and of each client; more is a leak, or an attack. Each costs a
    descriptor and some 20 KB, with TLS 160 KiB. At the limit another one is closed for a new one.
    """

    held_bytes_max: int = 256 << 20
    """Bytes that all connections together may make the node hold.

    Counts incomplete frames, calls without an answer, and replies that are not taken. Ten honest
    clients hold a few MiB each; a connection that is alone may hold some 50 MiB.
    """

    silent_seconds: float = 10.0
    """Time until a connection has made a call. Our clients do so with their first bytes; TLS takes
    two round trips."""

    stalled_seconds: float = 30.0
    """Time until a started frame is whole, and until 256 KiB of replies are taken.

    That is at least half a MiB a second for the largest frame, and 9 KB a second for replies. A
    slower client cannot follow this log anyway.
    """

    def __attrs_post_init__(self) -> None:
        if self.connections_max < 1 or self.held_bytes_max < 1:
            raise InvalidSettingError("limits of connections", "must be positive")


class AdmittedConnection(Protocol):
    """A connection, as admission sees it."""

    @property
    def arrived_at(self) -> float: ...

    @property
    def active_at(self) -> float:
        """Time of the last bytes received."""
        ...

    @property
    def has_asked(self) -> bool:
        """True if it has made a call."""
        ...

    @property
    def is_idle(self) -> bool:
        """True if nothing is held for it, and it waits for nothing."""
        ...

    @property
    def stuck_since(self) -> float | None:
        """Time since when a frame is incomplete, or a reply not taken, by fault of the other side;
        None if not stuck."""
        ...

    @property
    def held_bytes(self) -> int:
        """Bytes that it makes this node hold now."""
        ...

    def end(self, reason: str) -> None:
        """Close it. Does not call back: see `Admission.leave`."""
        ...


@attrs.define(eq=False)
class Admission:
    """The connections of one server, in order of arrival."""

    limits: ServerLimits
    held_bytes: int = 0
    """Bytes held by all of them, as last weighed. May include bytes that have been sent since."""
    _connections: dict[AdmittedConnection, int] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._connections)

    def enter(self, connection: AdmittedConnection) -> bool:
        """Admit a connection, if need be in place of another one. False if it must be closed."""
        if len(self._connections) >= self.limits.connections_max:
            victim = self._most_dispensable()
            if victim is None:
                return False
            self._end(victim, f"{self.limits.connections_max} connections are open, and this one is not used")
        self._connections[connection] = 0
        return True

    def leave(self, connection: AdmittedConnection) -> None:
        """Remove a closed connection. Safe to call twice."""
        self.held_bytes -= self._connections.pop(connection, 0)

    def weigh(self, connection: AdmittedConnection) -> None:
        """Account for a connection that may hold more than before."""
        self._weigh(connection)
        if self.held_bytes > self.limits.held_bytes_max:
            self._weigh_all()
            while self.held_bytes > self.limits.held_bytes_max:
                self._end(self._heaviest(), f"all connections together hold {self.held_bytes} bytes")

    def _weigh(self, connection: AdmittedConnection) -> None:
        before = self._connections.get(connection)
        if before is not None:
            self._connections[connection] = now = connection.held_bytes
            self.held_bytes += now - before

    def _weigh_all(self) -> None:
        for connection in self._connections:
            self._weigh(connection)

    def expire(self, now: float) -> None:
        """Close connections with an expired timeout."""
        limits = self.limits
        self._weigh_all()
        for connection in list(self._connections):
            since = connection.stuck_since
            if since is not None and now - since >= limits.stalled_seconds:
                self._end(connection, f"no whole frame came, or no reply was taken, for {limits.stalled_seconds:g} s")
            elif not connection.has_asked and now - connection.arrived_at >= limits.silent_seconds:
                self._end(connection, f"asked nothing for {limits.silent_seconds:g} s")

    def _most_dispensable(self) -> AdmittedConnection | None:
        for connection in self._connections:
            if not connection.has_asked:
                return connection
        idle = [connection for connection in self._connections if connection.is_idle]
        return min(idle, key=lambda connection: connection.active_at, default=None)

    def _heaviest(self) -> AdmittedConnection:
        stuck = [
            (since, connection)
            for connection in self._connections
            if connection.held_bytes and (since := connection.stuck_since) is not None
        ]
        if stuck:
            return min(stuck, key=lambda pair: pair[0])[1]
        return max(self._connections, key=lambda connection: connection.held_bytes)

    def _end(self, connection: AdmittedConnection, reason: str) -> None:
        self.leave(connection)
        connection.end(reason)
