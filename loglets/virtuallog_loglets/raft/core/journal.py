"""Changes of a replica's durable state, and what is committed of it.

Every change is made in memory at once, and written behind all earlier ones. What vouches for it waits in the `RaftOutbox`.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.errors import DiskFullError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.effects import (
    BaseSet,
    Change,
    CommitKnown,
    RaftAnswer,
    RaftPersist,
    TermChanged,
    TrimRaised,
)
from virtuallog_loglets.raft.core.outbox import RaftOutbox
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind
from virtuallog_loglets.raft.core.replica_state import LogBase, ReplicaState
from virtuallog_loglets.raft.messages import NO_NODE, RecordsAppended
from virtuallog_loglets.wal.core.record import Address


@attrs.define(eq=False)
class Journal:
    """State of one replica, and its writes."""

    state: ReplicaState
    outbox: RaftOutbox
    now: int = attrs.field(default=0, init=False)
    """Ticks since the start."""
    _told: int = attrs.field(default=0, init=False)
    """Everything up to here is committed, as a leader has said; not all of it may be durable here."""
    _durable_trim: int = attrs.field(default=0, init=False)
    """A trim that is durable: records below it may go."""

    def save(self) -> None:
        """Save the state of a new replica, before all its changes."""
        self._persist(self.state.save(), essential=True)

    def set_term(self, term: int, vote: NodeId) -> None:
        """Change term and vote, in one write."""
        state = self.state
        assert term > state.term or (term == state.term and state.vote == NO_NODE)
        state.term, state.vote = term, vote
        self._persist(TermChanged(term, vote), essential=True)

    def append(self, new: Sequence[RaftRecord]) -> None:
        """Append records that follow. They are in the log at once, and durable once `write` has written them."""
        write = self.outbox.newest_write + 1
        for record in new:
            self.state.log.append(record, write)

    def write(self, new: Sequence[RaftRecord]) -> None:
        """Write the records that `append` has appended last.

        A record without batches may use the last room of a full disk: otherwise a full one could not be sealed.
        """
        self._persist(*new, essential=any(record.kind is not RecordKind.BATCHES for record in new))

    def set_base(self, base: LogBase) -> None:
        """Begin the log behind a base that a leader has sent; what is committed here is equal to what it says.

        If the log has the record of the base, nothing is replaced: all up to there is committed.
        """
        point, state = base.point, self.state
        if point.index <= state.commit:
            return
        if state.log.matches(point.index, point.term):
            self.learn(point.index)  # and no more than is durable: the disk may refuse the rest
            self.trim(base.trim)
        else:
            state.set_base(base)
            self._persist(BaseSet(base.encode()), essential=True)

    def trim(self, offset: int) -> None:
        """Note that committed entries below `offset` are not needed."""
        if offset > self.state.trim:
            self.state.trim_to(offset)
            self._persist(TrimRaised(offset), essential=True)

    # -- what is committed ----------------------------------------------------------------------------------------

    def commit(self, index: int) -> None:
        """Note that everything up to `index` is committed. A leader may know so before its own disk has it."""
        was_sealed = self.state.is_sealed
        self.state.advance(index)
        self._drop_trimmed()
        if self.state.is_sealed and not was_sealed:
            self._persist(CommitKnown(index), essential=True)

    def learn(self, index: int) -> None:
        """Note that everything up to `index` is committed, as a leader says.

        A follower takes that in as far as its own disk has it: the disk may refuse the rest.
        """
        self._told = max(self._told, index)
        durable = min(self._told, self.state.log.durable_index)
        if durable > self.state.commit:
            self.commit(durable)

    # -- what is durable ------------------------------------------------------------------------------------------

    def persisted(self, write: RaftPersist, addresses: Sequence[Address]) -> None:
        """Note that a write is durable."""
        found: dict[int, Address] = {}
        for change, address in zip(write.changes, addresses, strict=True):
            if isinstance(change, RaftRecord):
                found[change.index] = address
            elif isinstance(change, TrimRaised):
                self._durable_trim = max(self._durable_trim, change.offset)
        if found:
            self.state.log.synced(write.number, found)
        self.outbox.persisted(write)
        self._drop_trimmed()

    def take_back(self, write: RaftPersist, error: VirtualLogError) -> bool:
        """Take back records whose write was refused, and all behind them; what rests on them is answered with `error`.

        Not so a leader: it hears that a full disk took no records, from a replica that follows it all the same.
        Returns False, and does nothing, if one of them is committed: a leader learns that before its own disk has it.
        """
        first = self.state.log.unsynced_since(write.number)
        if first <= self.state.commit:
            return False
        log = self.state.log
        log.truncate(first - 1)
        for effect in self.outbox.refused(write):
            if not isinstance(effect, RaftAnswer):
                continue
            if isinstance(effect.outcome, RecordsAppended) and isinstance(error, DiskFullError):
                refusal = RecordsAppended(
                    term=effect.outcome.term, accepted=False, index=log.last_index, hint_term=log.last_term, full=True
                )
                self.outbox.vouch(RaftAnswer(effect.ticket, refusal))
            else:
                self.outbox.now(RaftAnswer(effect.ticket, error))
        return True

    def _drop_trimmed(self) -> None:
        if not self.outbox.is_writing:
            self._durable_trim = self.state.trim
        self.state.drop_trimmed(self._durable_trim)

    def _persist(self, *changes: Change, essential: bool) -> None:
        self.outbox.persist(changes, self.now, essential=essential)
