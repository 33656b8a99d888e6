"""Proposals of one replica that are not known to be applied: the proposer's half of SessionOrderEngine.                 Pure.

    add -> under way -> applied            the usual life
                     -> lost               its copy came back without having been applied in order

As long as nothing is lost, each proposal is sent as it comes. Once something is, what comes only waits; when every copy under way
has come back, all that is not applied is sent again, in order. Before that it would be in vain: what is sent behind a lost one
is passed over by everybody.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, repeat, takewhile

import attrs

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Done
from virtuallog_database.engines.core.entry import Entry


@attrs.frozen(eq=False)
class PendingProposal:
    """One entry and whom to tell."""

    sequence: int
    entry: Entry
    done: Done


@attrs.define
class PendingProposals:
    """In the order of their sequence numbers, which begin at 0 with each incarnation."""

    incarnation: bytes
    pending: deque[PendingProposal] = attrs.field(factory=deque, init=False)
    """Not applied, the oldest first."""
    error: VirtualLogError | None = attrs.field(default=None, init=False)
    """Why the log takes no more from us, as far as anybody knows: to propose again would be in vain."""
    _next_sequence: int = attrs.field(default=0, init=False)
    _under_way: int = attrs.field(default=0, init=False)
    """Copies of this incarnation that have not come back."""
    _lost: bool = attrs.field(default=False, init=False)
    _unknown: set[int] = attrs.field(factory=set, init=False)
    """Pending ones of which a copy may be in the log, or get there."""

    def add(self, entry: Entry, done: Done) -> PendingProposal | None:
        """One more; returned if it is to be sent now."""
        proposal = PendingProposal(self._next_sequence, entry, done)
        self._next_sequence += 1
        self.pending.append(proposal)
        if self._lost:
            return None
        self._under_way += 1
        return proposal

    def applied(self, incarnation: bytes, sequence: int) -> Done | None:
        """An entry of this replica was applied in order; returns whom to tell, unless that was given up before."""
        if incarnation != self.incarnation:
            return None
        proposal = self.pending.popleft()
        assert proposal.sequence == sequence, "only the next one is let up"
        self._unknown.discard(sequence)
        return proposal.done

    def settled(
        self, incarnation: bytes, sequence: int, *, error: VirtualLogError | None = None, is_unknown: bool = False
    ) -> bool:
        """A copy of proposal `sequence` has come back. If that is not applied by now it is lost, whatever has become of the copy.
        Returns whether it is time for `again`.

        Args:
            incarnation: that of the copy.
            sequence: that of the copy.
            error: the copy is not in the log, and why.
            is_unknown: it may be, where nobody has read it yet. Neither: it was met there, and passed over.
        """
        if incarnation != self.incarnation:
            return False
        self._under_way -= 1
        if self.pending and self.pending[0].sequence <= sequence:
            self._lost = True
            if is_unknown:
                self._unknown.add(sequence)
            self.error = self.error or error
        return self._lost and not self._under_way

    def again(self) -> list[PendingProposal]:
        """All that is to be sent now, in order."""
        if self._under_way or not self._lost:
            return []
        self._lost = False
        self._under_way = len(self.pending)
        return list(self.pending)

    def renew(self, incarnation: bytes) -> None:
        """Go on as another incarnation with the same proposals, which are all to be sent again. The caller knows that no copy of a pending
        one was applied, or can be."""
        self.pending = deque(attrs.evolve(each, sequence=number) for number, each in enumerate(self.pending))
        self._unknown.clear()
        self.incarnation, self.error = incarnation, None
        self._next_sequence, self._under_way, self._lost = len(self.pending), 0, True

    def abandon(self, incarnation: bytes, error: VirtualLogError) -> list[tuple[Done, VirtualLogError]]:
        """Give up all of them, and go on as another incarnation; returns whom to tell what. `error` holds from the first one on that
        cannot be in the log: what is behind it would be passed over. Those before may still be applied."""
        doubtful = sum(1 for _ in takewhile(lambda each: each.sequence in self._unknown, self.pending))
        errors = chain(repeat(UnavailableError(f"unknown outcome: {error}"), doubtful), repeat(error))
        given_up = [(proposal.done, told) for proposal, told in zip(self.pending, errors, strict=False)]
        self.pending.clear()
        self._unknown.clear()
        self.incarnation, self.error = incarnation, None
        self._next_sequence, self._under_way, self._lost = 0, 0, False
        return given_up
