"""Parked `WaitLearned` requests of a replica, bounded in number and time."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_loglets.paxos.core.effects import ReplicaTicket

WAITERS_MAX: Final = 4096
"""Cap on parked requests; each takes a few hundred bytes."""
WAIT_TICKS: Final = 4
"""Ticks after which a parked request is answered in any case: its client may have gone, or may ask
another replica."""


@attrs.frozen
class _Waiter:
    past: int
    ticket: ReplicaTicket
    expires: int
    """Tick at which it is answered in any case."""


@attrs.define(eq=False)
class LearnWaiters:
    """Parked requests, in order of arrival."""

    _waiters: list[_Waiter] = attrs.field(factory=list, init=False)
    _now: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, past: int, ticket: ReplicaTicket) -> bool:
        """Park a request until `past` is learned; False if there is no room."""
        if len(self._waiters) >= WAITERS_MAX:
            return False
        self._waiters.append(_Waiter(past, ticket, self._now + WAIT_TICKS))
        return True

    def tick(self) -> None:
        """Advance the time by one tick."""
        self._now += 1

    def released(self, learned: int, *, is_closed: bool) -> list[ReplicaTicket]:
        """Remove and return the requests to answer now that all below `learned` is learned: all, if the log is closed."""
        if not self._waiters:  # nearly always
            return []
        waiters, self._waiters = self._waiters, []
        ready: list[ReplicaTicket] = []
        for waiter in waiters:
            if is_closed or waiter.past < learned or waiter.expires <= self._now:
                ready.append(waiter.ticket)
            else:
                self._waiters.append(waiter)
        return ready

    def dismiss(self) -> list[ReplicaTicket]:
        """Remove and return all requests."""
        waiters, self._waiters = self._waiters, []
        return [waiter.ticket for waiter in waiters]
