"""Proposals of one replica that are not known to be applied: the proposer's half of
SessionOrderEngine.

    add -> in flight -> applied            the usual life
                     -> lost               its copy came back without having been applied in order

As long as nothing is lost, each proposal is sent as it comes. Once one is lost, new ones only wait.
When every copy in flight has come back, all unapplied proposals are sent again, in order. An
earlier repetition would be in vain: all replicas skip what is sent behind a lost one.
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
    """One entry and its callback."""

    sequence: int
    entry: Entry
    done: Done


@attrs.define
class PendingProposals:
    """Unapplied proposals by sequence number, which begins at 0 in each incarnation."""

    incarnation: bytes
    pending: deque[PendingProposal] = attrs.field(factory=deque, init=False)
    """Proposals that are not applied, oldest first."""
    error: VirtualLogError | None = attrs.field(default=None, init=False)
    """Reason why the log accepts nothing more from this replica. None if it does; otherwise
    proposing again is in vain."""
    _next_sequence: int = attrs.field(default=0, init=False)
    _under_way: int = attrs.field(default=0, init=False)
    """Copies of this incarnation that have not come back."""
    _lost: bool = attrs.field(default=False, init=False)
    _unknown: set[int] = attrs.field(factory=set, init=False)
    """Pending sequence numbers of which a copy may be in the log, or get there."""

    def add(self, entry: Entry, done: Done) -> PendingProposal | None:
        """Add a proposal. Returned if it is to be sent now, else None."""
        proposal = PendingProposal(self._next_sequence, entry, done)
        self._next_sequence += 1
        self.pending.append(proposal)
        if self._lost:
            return None
        self._under_way += 1
        return proposal

    def applied(self, incarnation: bytes, sequence: int) -> Done | None:
        """Note that an entry of this replica was applied in order. Returns its callback, or None if
        it was given up before."""
        if incarnation != self.incarnation:
            return None
        proposal = self.pending.popleft()
        assert proposal.sequence == sequence, "only the next one is let up"
        self._unknown.discard(sequence)
        return proposal.done

    def settled(
        self, incarnation: bytes, sequence: int, *, error: VirtualLogError | None = None, is_unknown: bool = False
    ) -> bool:
        """Note that a copy of proposal `sequence` has come back. If the proposal is not applied by
        now it is lost, whatever became of the copy. Returns True if it is time for `again`.

        Args:
            incarnation: of the copy.
            sequence: of the copy.
            error: reason, if the copy is not in the log.
            is_unknown: True if the copy may be in the log, unread so far. With neither, it was read
                there, and skipped.
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
        """All proposals to be sent now, in order."""
        if self._under_way or not self._lost:
            return []
        self._lost = False
        self._under_way = len(self.pending)
        return list(self.pending)

    def renew(self, incarnation: bytes) -> None:
        """Start another incarnation with the same proposals, which must all be sent again. The
        caller guarantees that no copy of a pending one was applied, or can be."""
        self.pending = deque(attrs.evolve(each, sequence=number) for number, each in enumerate(self.pending))
        self._unknown.clear()
        self.incarnation, self.error = incarnation, None
        self._next_sequence, self._under_way, self._lost = len(self.pending), 0, True

    def abandon(self, incarnation: bytes, error: VirtualLogError) -> list[tuple[Done, VirtualLogError]]:
        """Give up all proposals, and start another incarnation. Returns each callback with its
        error. `error` goes to the first proposal that cannot be in the log and to all behind it,
        which would be skipped. Those before may still be applied."""
        doubtful = sum(1 for _ in takewhile(lambda each: each.sequence in self._unknown, self.pending))
        errors = chain(repeat(UnavailableError(f"unknown outcome: {error}"), doubtful), repeat(error))
        given_up = [(proposal.done, told) for proposal, told in zip(self.pending, errors, strict=False)]
        self.pending.clear()
        self._unknown.clear()
        self.incarnation, self.error = incarnation, None
        self._next_sequence, self._under_way, self._lost = 0, 0, False
        return given_up
