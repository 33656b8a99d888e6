"""Who of a server's connections may stay: for one more there must be room, and all together fill only so much. Pure.

* Full, and somebody comes: the one that has been silent for longest goes; if all have asked something, the one that has
  been idle for longest, which comes back when it needs to. Busy ones stay: then the newcomer goes.
* Over the limit of bytes: the one goes that has been stuck for longest, be it with half a frame or with replies that it
  does not take. If none is stuck, the one that holds most.
* A connection that says nothing, or is stuck, goes when its time is over.

So whoever works in order goes last, however many do not.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from virtuallog.contract.errors import InvalidSettingError

# FOLDED from virtuallog.rpc.limits: What a server grants all its connections together. What each may take is in `server.py`; docs/concepts/bounds.md has all bounds.


@attrs.frozen(kw_only=True)
class ServerLimits:
    """Sizes in bytes, times in seconds."""

    connections_max: int = 1024
    """At a time. A node has one of each other node and of each client; more is a leak, or an attack. Each costs a
    descriptor and some 20 KB, with TLS 160 KiB. For one more, another one has to go (see `admission.py`)."""

    held_bytes_max: int = 256 << 20
    """What all connections together may make the node hold: frames that are not whole, calls without an answer, replies
    that are not taken. Ten honest clients hold a few MiB each; a connection may hold some 50 MiB when it is alone."""

    silent_seconds: float = 10.0
    """Until a connection has asked something. Our clients do so with their first bytes; TLS takes two round trips."""

    stalled_seconds: float = 30.0
    """Until a frame that has begun is whole, and until 256 KiB of replies are taken. Half a MiB a second at least for the
    largest frame, 9 KB a second for replies: whoever is slower cannot follow this log anyway."""

    def __attrs_post_init__(self) -> None:
        if self.connections_max < 1 or self.held_bytes_max < 1:
            raise InvalidSettingError("limits of connections", "must be positive")


class AdmittedConnection(Protocol):
    """One connection, as far as it matters here."""

    @property
    def arrived_at(self) -> float: ...

    @property
    def active_at(self) -> float:
        """When bytes last came."""
        ...

    @property
    def has_asked(self) -> bool:
        """It has made a call."""
        ...

    @property
    def is_idle(self) -> bool:
        """Nothing is held for it, and it waits for nothing."""
        ...

    @property
    def stuck_since(self) -> float | None:
        """Since when a frame is not whole, or a reply not taken, though it is their turn."""
        ...

    @property
    def held_bytes(self) -> int:
        """What it makes this node hold now."""
        ...

    def end(self, reason: str) -> None:
        """Close it. Tells nobody here: see `Admission.leave`."""
        ...


@attrs.define(eq=False)
class Admission:
    """The connections of one server, in order of their arrival."""

    limits: ServerLimits
    held_bytes: int = 0
    """By all of them, as each was weighed last. What has been sent since may still be in it."""
    _guests: dict[AdmittedConnection, int] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: AdmittedConnection) -> bool:
        """Let a connection in, if need be in place of another one; False: it has to go."""
        if len(self._guests) >= self.limits.connections_max:
            victim = self._most_dispensable()
            if victim is None:
                return False
            self._end(victim, f"{self.limits.connections_max} connections are open, and this one is not used")
        self._guests[guest] = 0
        return True

    def leave(self, guest: AdmittedConnection) -> None:
        """It is closed. Safe to call twice."""
        self.held_bytes -= self._guests.pop(guest, 0)

    def weigh(self, guest: AdmittedConnection) -> None:
        """A connection may hold more than before."""
        self._weigh(guest)
        if self.held_bytes > self.limits.held_bytes_max:
            self._weigh_all()
            while self.held_bytes > self.limits.held_bytes_max:
                self._end(self._heaviest(), f"all connections together hold {self.held_bytes} bytes")

    def _weigh(self, guest: AdmittedConnection) -> None:
        before = self._guests.get(guest)
        if before is not None:
            self._guests[guest] = now = guest.held_bytes
            self.held_bytes += now - before

    def _weigh_all(self) -> None:
        for guest in self._guests:
            self._weigh(guest)

    def expire(self, now: float) -> None:
        """End those whose time is over."""
        limits = self.limits
        self._weigh_all()
        for guest in list(self._guests):
            since = guest.stuck_since
            if since is not None and now - since >= limits.stalled_seconds:
                self._end(guest, f"no whole frame came, or no reply was taken, for {limits.stalled_seconds:g} s")
            elif not guest.has_asked and now - guest.arrived_at >= limits.silent_seconds:
                self._end(guest, f"asked nothing for {limits.silent_seconds:g} s")

    def _most_dispensable(self) -> AdmittedConnection | None:
        for guest in self._guests:
            if not guest.has_asked:
                return guest
        idle = [guest for guest in self._guests if guest.is_idle]
        return min(idle, key=lambda guest: guest.active_at, default=None)

    def _heaviest(self) -> AdmittedConnection:
        stuck = [
            (since, guest) for guest in self._guests if guest.held_bytes and (since := guest.stuck_since) is not None
        ]
        if stuck:
            return min(stuck, key=lambda pair: pair[0])[1]
        return max(self._guests, key=lambda guest: guest.held_bytes)

    def _end(self, guest: AdmittedConnection, reason: str) -> None:
        self.leave(guest)
        guest.end(reason)
