"""Who waits until a replica has learned more: bounded in number, and in time.                                       Pure."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_loglets.paxos.core.effects import ReplicaTicket

WAITERS_MAX: Final = 4096
"""Parked `WaitLearned`s: a few hundred bytes each."""
WAIT_TICKS: Final = 4
"""A parked `WaitLearned` is answered after so many ticks in any case: its client may have gone, or may look elsewhere."""


@attrs.frozen
class _Waiter:
    past: int
    ticket: ReplicaTicket
    expires: int
    """In ticks."""


@attrs.define(eq=False)
class LearnWaiters:
    """In order of arrival."""

    _waiters: list[_Waiter] = attrs.field(factory=list, init=False)
    _now: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, past: int, ticket: ReplicaTicket) -> bool:
        """Until the position is learned. False: there is no room."""
        if len(self._waiters) >= WAITERS_MAX:
            return False
        self._waiters.append(_Waiter(past, ticket, self._now + WAIT_TICKS))
        return True

    def tick(self) -> None:
        """Some time has passed."""
        self._now += 1

    def released(self, learned: int, *, is_closed: bool) -> list[ReplicaTicket]:
        """Those who wait no longer, as all below `learned` is learned; nobody waits for more of a closed log."""
        if not self._waiters:  # as nearly always
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
        """Everybody."""
        waiters, self._waiters = self._waiters, []
        return [waiter.ticket for waiter in waiters]
