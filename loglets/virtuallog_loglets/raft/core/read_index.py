"""ReadIndex: linearizable reads of the commit index, confirmed by a majority.

A leader may have been deposed without knowing. So it answers a read only after a majority has answered messages that
left behind the read's arrival: then no other leader had committed anything by then.

Rounds are counted by the leader, for each term. A message belongs to the round in which it left; an answer confirms that
round and all before. Not by an id that a client made: a late answer to a first attempt would confirm the second one, on a
leader that has been deposed in between (etcd issue 20418, in all releases for five years).

Until a record of its own term is committed, a leader does not know what is: reads wait (etcd issue 7331).
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from virtuallog.contract.errors import OverloadedError, VirtualLogError
from virtuallog_loglets.raft.core.effects import Ticket
from virtuallog_loglets.raft.messages import LeaderReply

WAITING_MAX: Final = 4096
"""Reads that wait. A round takes milliseconds, or never ends as a majority is away; then their callers give up."""


@attrs.frozen
class RaftRead:
    """Read that waits for a confirmation, then for a commit."""

    ticket: Ticket
    round: int
    stop: int
    """Everything below this offset must be committed before the answer."""
    answer: LeaderReply | VirtualLogError
    """A tail, or a refusal."""


@attrs.define(eq=False)
class ReadIndex:
    """Reads of one term of a leader, in the order of arrival."""

    _unconfirmed: deque[RaftRead] = attrs.field(factory=deque, init=False)
    _confirmed: list[RaftRead] = attrs.field(factory=list, init=False)
    _early: list[tuple[Ticket, VirtualLogError | None]] = attrs.field(factory=list, init=False)
    """Reads that came before a record of the term was committed."""

    @property
    def is_waiting(self) -> bool:
        """True if a read waits for a confirmation or a commit."""
        return bool(self._unconfirmed or self._confirmed)

    @property
    def newest_round(self) -> int:
        """Round that the newest read waits for; 0 if none waits."""
        return self._unconfirmed[-1].round if self._unconfirmed else 0

    def check_room(self) -> None:
        """Raise OverloadedError if too many reads wait."""
        if len(self._unconfirmed) + len(self._confirmed) + len(self._early) >= WAITING_MAX:
            raise OverloadedError(f"{WAITING_MAX} reads wait until a majority confirms the leader")

    def hold(self, ticket: Ticket, error: VirtualLogError | None) -> None:
        """Hold a read until a record of the term is committed."""
        self._early.append((ticket, error))

    def take_held(self) -> list[tuple[Ticket, VirtualLogError | None]]:
        """Remove and return the reads that were held."""
        held, self._early = self._early, []
        return held

    def add(self, read: RaftRead) -> None:
        """Have a read answered once its round is confirmed and everything below its offset is committed."""
        self._unconfirmed.append(read)

    def take_refusals(self) -> list[Ticket]:
        """Remove all that are to be refused; returns their tickets. What their refusals rest on may never be committed."""
        pending = [*self._confirmed, *self._unconfirmed]
        tickets = [read.ticket for read in pending if isinstance(read.answer, VirtualLogError)]
        tickets += [ticket for ticket, error in self._early if error is not None]
        self._confirmed = [read for read in self._confirmed if isinstance(read.answer, LeaderReply)]
        self._unconfirmed = deque(read for read in self._unconfirmed if isinstance(read.answer, LeaderReply))
        self._early = [(ticket, error) for ticket, error in self._early if error is None]
        return tickets

    def ready(self, confirmed: int, tail: int) -> list[RaftRead]:
        """Remove and return the reads that may be answered now that everything below `tail` is committed."""
        while self._unconfirmed and self._unconfirmed[0].round <= confirmed:
            self._confirmed.append(self._unconfirmed.popleft())
        if not self._confirmed:
            return []
        done = [read for read in self._confirmed if read.stop <= tail]
        if done:
            self._confirmed = [read for read in self._confirmed if read.stop > tail]
        return done

    def give_up(self) -> list[Ticket]:
        """Remove all reads, as the term has ended; returns their tickets."""
        tickets = [read.ticket for read in (*self._confirmed, *self._unconfirmed)]
        tickets += [ticket for ticket, _ in self._early]
        self._confirmed, self._early = [], []
        self._unconfirmed.clear()
        return tickets
