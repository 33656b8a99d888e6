"""One replica of a Raft log: roles, terms, votes and records. Ongaro and Ousterhout, USENIX ATC'14.

Rules that hold everywhere (numbers R of the specification):
* **Durable before visible.** An answer that vouches for a term, a vote or a record leaves once all that was written before
  it is durable (`_vouch`). Records to peers, questions for votes and heartbeats vouch for nothing and leave at once.
* **Terms before records.** Both go through one write-ahead log, so neither can be durable without what came before it.
* R1, R2: a higher term makes a follower; a lower one is answered with the own term.
* A committed record never changes. A message that would change one is refused, and nothing is done.
* A replica whose disk has stood still for an election timeout does not lead and does not stand.
* A log whose SEAL is committed, and known so to all, is at rest: no heartbeats, no elections. A replica that does not know
  asks for votes, a learner too, and wakes the others.

`voter.py` is a replica's part in elections, `leader_term.py` the work of a leader, `record_check.py` that of a follower, `replication.py` the flow between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    InvalidSettingError,
    MalformedError,
    OverloadedError,
    StorageError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.rejected_conditions import RejectedConditions
from virtuallog.exactly_once.session_digest import SessionDigest
from virtuallog.exactly_once.session_table import SessionTable
from virtuallog_loglets.raft.core import record_check, records
from virtuallog_loglets.raft.core.effects import (
    RaftAnswer,
    RaftEffect,
    RaftFail,
    RaftPersist,
    Ticket,
)
from virtuallog_loglets.raft.core.election import ELECTION_TICKS, HEARTBEAT_TICKS
from virtuallog_loglets.raft.core.leader_term import RaftTerm
from virtuallog_loglets.raft.core.log import RaftLog
from virtuallog_loglets.raft.core.proposals import Proposals
from virtuallog_loglets.raft.core.record_check import Diverged
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind
from virtuallog_loglets.raft.core.replica_state import LogBase, point_before
from virtuallog_loglets.raft.core.replication import RaftReplicator
from virtuallog_loglets.raft.core.transitions import RaftRole, RunState
from virtuallog_loglets.raft.core.voter import Voter
from virtuallog_loglets.raft.messages import (
    NO_NODE,
    AppendRecords,
    RaftStanding,
    RecordsAppended,
)
from virtuallog_loglets.wal.core.record import Address

REMIND_TICKS_MAX: Final = 512
"""Most ticks between two messages to a peer of a sealed log that does not answer. A peer that comes back asks for votes, and
is answered at once."""


@attrs.define(eq=False)
class RaftReplica(Voter):
    """Core: takes messages, answers, ticks and turns; returns effects."""

    leading: RaftTerm | None = attrs.field(default=None, init=False)
    time_ms: int = attrs.field(default=0, init=False)
    """Time of day, as the driver told last; for records without batches."""
    now_ms: int = attrs.field(default=0, init=False)
    """Set by the owner, now and then: time in ms by a clock that does not jump; that of requests. For sessions."""
    has_waiters: bool = attrs.field(default=False, init=False)
    """Set by the owner: True if a client waits here for the next commit."""
    _remind_at: int = attrs.field(default=0, init=False)
    """Tick at which the leader of a sealed log tells its peers again."""
    _remind_ticks: int = attrs.field(default=HEARTBEAT_TICKS, init=False)
    _refusals: RejectedConditions = attrs.field(factory=RejectedConditions, init=False)
    """Refused conditions, kept across terms: a copy of a refused call may arrive at any time."""

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def is_at_rest(self) -> bool:
        """True if the log is sealed and nothing is left to do: no tick is needed."""
        if not self.state.is_sealed or self._is_awake or self.outbox.is_writing:
            return False
        return self.leading is None or self.leading.is_done(self.state.commit)

    @property
    def standing(self) -> RaftStanding:
        """Knowledge of this replica about the log."""
        state = self.state
        return RaftStanding(
            tail=state.tail, sealed=state.is_sealed, trim=state.trim, leader=self.leader, term=state.term,
            role=self.role.value, state=self.run_state.value, last_index=state.log.last_index,
            commit_index=state.commit,
        )  # fmt: skip

    @property
    def has_work(self) -> bool:
        """True if `turn` would cut a record."""
        return self.leading is not None and self.leading.has_work(self.state.commit)

    @property
    def may_hurry(self) -> bool:
        """True if a batch should leave before the scheduler turn ends; see `RaftTerm.may_hurry`."""
        return self.leading is not None and self.leading.may_hurry(self.state.commit)

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, time_ms: int) -> list[RaftEffect]:
        """Take note that one tick has passed; `time_ms` is the time of day."""
        self.journal.now += 1
        self.time_ms = time_ms
        if self.is_stalled:
            if self.leading is not None:
                self._step_down("its disk stands still")
        elif self.leading is not None:
            self._tick_leader(self.leading)
        elif self.ticks >= self._deadline and (self._is_awake or not self.state.is_sealed):
            if self.role is RaftRole.LEARNER and not self._may_stand():
                self._call_for_leader()
            else:
                self._stand(pre=True)
        return self.outbox.take()

    def _tick_leader(self, leading: RaftTerm) -> None:
        if self.is_at_rest:
            return
        if leading.transfer is not None and self.ticks - leading.transfer_since >= ELECTION_TICKS:
            self.outbox.now(*leading.end_transfer(UnavailableError("the other replica was not elected in time")))
        if self.state.is_sealed:
            self._remind(leading)
            return
        if not leading.replicator.hears_majority(self.ticks - ELECTION_TICKS):
            self._step_down("no majority answers")
            return
        if self.ticks % HEARTBEAT_TICKS == 0:
            self.outbox.now(*leading.replicator.beat(self.state.commit, self.ticks - HEARTBEAT_TICKS))

    def _remind(self, leading: RaftTerm) -> None:
        """Tell peers of the SEAL that have not heard of it, less and less often: they may be gone for good."""
        if self.ticks >= self._remind_at:
            self._remind_ticks = min(2 * self._remind_ticks, REMIND_TICKS_MAX)
            self._remind_at = self.ticks + self._remind_ticks
            self.outbox.now(*leading.replicator.beat(self.state.commit, self.ticks))

    # -- leading ---------------------------------------------------------------------------------------------------

    def found(self) -> list[RaftEffect]:
        """Save the state of a new replica, before all its changes."""
        self.journal.save()
        return self.outbox.take()

    def lead_first_term(self) -> list[RaftEffect]:
        """Lead term 1 of an empty log without an election.

        The config of the loglet, which is decided, names one start of one process for that. So this is called at most once
        for a log, ever. All replicas begin in term 1, having voted for it.
        """
        assert self.state.log.last_index == 0 and self.state.term == 1 and self.state.vote == self.node
        self._lead(first=None)
        return self.outbox.take()

    def _lead(self, first: RecordKind | None) -> None:
        """Lead the present term, beginning with a record of this kind; None if nothing is older than the term."""
        state, now_ms = self.state, self.now_ms
        self._become(RaftRole.LEADER)
        self.campaign, self.leader, self._is_awake = None, self.node, False
        log = state.log
        replicator = RaftReplicator(
            self.segment, self.node, state.term, log, self._encode_base, self.limits.message_bytes
        )
        proposals = Proposals(
            SessionTable.of_digest(state.digest, now_ms), self._refusals, log.next_offset, self.limits.record_bytes
        )
        for index in range(state.commit + 1, log.last_index + 1):
            record = log.kept(index)
            assert record is not None, "what is not committed is in memory"
            proposals.inherit(record, now_ms)
        since = 0 if first is None else log.last_index + 1
        leading = self.leading = RaftTerm(log, replicator, proposals, since)
        for progress in replicator.peers.values():
            progress.heard = self.ticks
        self.outbox.now(*leading.committed(state.commit))
        if first is None:
            self._progress(RunState.RUNNING)
        else:
            self.append_own([records.build(leading.place(state.commit, self.time_ms), first)])
        for ticket in self._sealers:
            self.outbox.now(*leading.wait(log.seal, ticket))
        self._sealers.clear()

    def _end_leading(self, reason: str) -> None:
        leading, self.leading = self.leading, None
        if leading is not None:
            error = UnavailableError(f"unknown outcome: this replica leads no longer: {reason}")
            self.outbox.now(*leading.give_up(error))
        self._dismiss_sealers("this replica leads no longer")

    def give_up(self, error: VirtualLogError) -> list[RaftAnswer]:
        """Answer all that waits with `error`, as the replica is dropped: calls to a leader, for a seal, and for the disk."""
        answers = [] if self.leading is None else self.leading.give_up(error)
        tickets = self._sealers + [each.ticket for each in self.outbox.dismiss() if isinstance(each, RaftAnswer)]
        self._sealers.clear()
        return answers + [RaftAnswer(ticket, error) for ticket in tickets]

    def _wake(self, candidate: NodeId) -> None:
        if self.leading is None:
            super()._wake(candidate)
        elif (progress := self.leading.replicator.peers.get(candidate)) is not None:
            progress.commit_known = 0  # it has begun anew before that was durable
            self._remind_at, self._remind_ticks = self.ticks, HEARTBEAT_TICKS

    def yield_for_room(self) -> None:
        """Lead no longer: the own disk is full, and a majority of the voters has room."""
        self._step_down("its disk is full")

    # -- replication: a leader's side -----------------------------------------------------------------------------

    def append_own(self, new: list[RaftRecord]) -> None:
        """Append records of the own term. They leave for the peers before the own disk has them."""
        leading = self.leading
        assert leading is not None
        self.journal.append(new)
        if new[-1].kind is RecordKind.CONFIGURATION:
            leading.replicator.follow_members(self.ticks)
        self.outbox.now(*leading.replicator.pump(self.state.commit))
        self.journal.write(new)

    def records_answered(self, peer: NodeId, number: int, term: int, reply: RecordsAppended | None) -> list[RaftEffect]:
        """Take in the answer to records that were sent in `term`; None if there was none in time."""
        if reply is not None and self._is_absurd(reply.term):
            reply = None
        if reply is not None and reply.term > self.state.term:
            self._become_follower(reply.term, NO_NODE)
        leading = self.leading
        if leading is None or term != leading.term or (reply is not None and reply.term != term):
            return self.outbox.take()
        leading.replicator.answered(peer, number, reply, self.ticks)
        self._advance(leading)
        self.outbox.now(*leading.replicator.pump(self.state.commit))
        self.outbox.now(*leading.confirmed())
        self.begin_round(leading)
        return self.outbox.take()

    def begin_round(self, leading: RaftTerm) -> None:
        """Have a majority confirm the leader to the reads that wait, unless a round is on already."""
        replicator = leading.replicator
        if leading.reads.newest_round > replicator.round and replicator.confirmed >= replicator.round:
            replicator.round += 1
            self.outbox.now(*replicator.beat(self.state.commit, self.ticks + 1))
            self.outbox.now(*leading.confirmed())  # of a log with one voter

    def _advance(self, leading: RaftTerm) -> None:
        """Commit what a majority has, if its last record is of the own term (R11)."""
        commit = leading.replicator.committed
        if commit > self.state.commit and self.state.log.term_at(commit) == leading.term:
            self.journal.commit(commit)
            self.outbox.now(*leading.committed(commit))
            self._progress(RunState.RUNNING)
            self.outbox.now(*leading.replicator.announce(commit))
            self._leave_if_removed(leading)

    def _leave_if_removed(self, leading: RaftTerm) -> None:
        """Step down once a configuration without this replica as a voter is committed (R15)."""
        configuration = self.state.log.configuration
        if configuration.index <= self.state.commit and not configuration.is_voter(self.node):
            self.outbox.now(*leading.replicator.beat(self.state.commit, self.ticks))
            self._step_down("it is no voter any more")

    # -- replication: a follower's side ---------------------------------------------------------------------------

    def records_requested(self, request: AppendRecords, ticket: Ticket) -> list[RaftEffect]:
        """Take a leader's records, or say where the logs part."""
        state = self.state
        if state.is_copy:
            self.outbox.now(RaftAnswer(ticket, UnavailableError("this replica is a copy of a sealed loglet")))
            return self.outbox.take()
        if state.is_removed:
            self.outbox.now(RaftAnswer(ticket, UnsupportedError("this replica was removed from its log, for good")))
            return self.outbox.take()
        if self._refuses_term(request.term, ticket):
            return self.outbox.take()
        if request.term < state.term:
            self.outbox.vouch(RaftAnswer(ticket, RecordsAppended(term=state.term, accepted=False, index=0)))
            return self.outbox.take()
        try:
            base = LogBase.decode_untrusted(request.base) if request.base else None
            sent = record_check.parse_all_untrusted(self.segment, request.previous_index, request.term, request.records)
        except VirtualLogError as error:  # damaged on its way: nothing here is corrupt
            self.outbox.now(RaftAnswer(ticket, MalformedError(f"records cannot be read: {error}")))
            return self.outbox.take()
        if request.term == state.term and (self.leading is not None or self.leader not in (NO_NODE, request.leader)):
            broken = CorruptionError(f"two leaders of term {request.term}: {request.leader} and {self.leader}")
            self.outbox.now(RaftAnswer(ticket, broken), RaftFail(broken))
            return self.outbox.take()
        if request.term > state.term or self.leader == NO_NODE:
            self._become_follower(request.term, request.leader)
        self._hear_leader()
        try:
            self._take_records(request, base, sent, ticket)
        except VirtualLogError as error:
            self.outbox.now(RaftAnswer(ticket, error))
        return self.outbox.take()

    def _take_records(
        self, request: AppendRecords, base: LogBase | None, sent: list[RaftRecord], ticket: Ticket
    ) -> None:
        state = self.state
        if base is not None:
            self.journal.set_base(base)
            self._follow_configuration()
        outcome = record_check.match(state.log, state.commit, request.previous_index, request.previous_term, sent)
        if isinstance(outcome, Diverged):
            self.outbox.vouch(RaftAnswer(ticket, self._answer(accepted=False, index=outcome.index, hint=outcome.term)))
            return
        if outcome.new:
            self._append_sent(outcome.keep, outcome.new)
        self.journal.learn(min(request.commit, outcome.index))
        self._progress(RunState.RUNNING)
        self.outbox.vouch(RaftAnswer(ticket, self._answer(accepted=True, index=outcome.index)))

    def _append_sent(self, keep: int, new: Sequence[RaftRecord]) -> None:
        log = self.state.log
        members = log.configuration
        log.truncate(keep)
        self.journal.append(new)
        self.journal.write(new)
        if log.configuration is not members:
            self._follow_configuration()

    def _answer(self, *, accepted: bool, index: int, hint: int = 0) -> RecordsAppended:
        return RecordsAppended(
            term=self.state.term, accepted=accepted, index=index, hint_term=hint, waiting=self.has_waiters,
            full=self.lacks_room,
        )  # fmt: skip

    def copy_records(self, sent: Sequence[RaftRecord], trim: int, ticket: Ticket) -> list[RaftEffect]:
        """Take committed records of a sealed loglet, which an administrator copies here. What is here already is passed over.

        If the loglet was trimmed past the end of the copy, it begins anew behind what was trimmed.
        """
        log = self.state.log
        new = [record for record in sent if record.index > log.last_index]
        is_behind = bool(new) and new[0].index > log.last_index + 1 and new[0].first <= trim  # trimmed in between
        try:
            if not self.state.is_copy or (new and not is_behind and new[0].index != log.last_index + 1):
                raise UnavailableError(f"no copy that ends before record {new[0].index if new else 0} is here")
            log = RaftLog(log.configuration, point_before(new[0])) if is_behind else log
            record_check.check_new(log, log.last_index, new)
        except VirtualLogError as error:
            self.outbox.now(RaftAnswer(ticket, error))
            return self.outbox.take()
        if is_behind:
            digest = SessionDigest(has_forgotten=True).encode()
            self.journal.set_base(LogBase(point=log.base, seal=0, trim=trim, members=log.origin, digest=digest))
        if new:
            self._append_sent(log.last_index, new)
        self.journal.learn(self.state.log.last_index)
        self.journal.trim(trim)
        self.outbox.vouch(RaftAnswer(ticket, None))
        return self.outbox.take()

    def retire(self, index: int, ticket: Ticket) -> list[RaftEffect]:
        """Become a tombstone: the members of the committed record at `index` leave this replica out. Answered once it is durable."""
        state = self.state
        known = state.log.configuration_at(state.commit)
        if self.node in known.members and known.index >= index:
            reason = f"{self.node} is a member by the record at {known.index}, which is not before {index}"
            self.outbox.now(RaftAnswer(ticket, InvalidSettingError("members", reason)))
            return self.outbox.take()
        self._retire()
        self.outbox.vouch(RaftAnswer(ticket, None))
        return self.outbox.take()

    # -- the disk -------------------------------------------------------------------------------------------------

    def persisted(self, write: RaftPersist, addresses: Sequence[Address]) -> list[RaftEffect]:
        """Take note that `write` is durable: what rests on it leaves, and a leader counts itself."""
        self.journal.persisted(write, addresses)
        leading = self.leading
        if leading is not None:
            self._advance(leading)
            self.begin_round(leading)  # for the reads that waited for a record of this term
            return self.outbox.take()
        self.journal.learn(0)
        if self.campaign is not None and not self.campaign.pre and write.number == self._ballot:
            self.campaign.granted.add(self.node)
            self._judge(self.campaign)
        return self.outbox.take()

    def failed(self, write: RaftPersist, error: VirtualLogError) -> list[RaftEffect]:
        """Take note that `write` was refused or lost.

        A refusal, for a disk without room or a full queue, comes at once, or once the disk turns out to be full; writes of
        records behind it are refused next. The records are taken back. A leader leads no longer, and a candidate gives up: it
        may have told of these records. What cannot be taken back ends the role, which begins anew from the disk. After anything
        else the disk cannot be trusted.
        """
        is_refusal = isinstance(error, DiskFullError | OverloadedError | TooLargeError)
        if is_refusal and self.outbox.was_taken_back(write):
            return self.outbox.take()
        if not is_refusal or write.essential or not self.journal.take_back(write, error):
            is_plain = is_refusal or isinstance(error, StorageError)
            self.outbox.now(RaftFail(error if is_plain else StorageError(str(error))))
        elif self.leading is not None or self.campaign is not None:
            self._step_down(f"its disk takes no records: {error}")
        else:
            self._follow_configuration()
        return self.outbox.take()

    def _encode_base(self) -> bytes:
        """State at the log's base, for a peer that is behind it."""
        return self.state.base_at(self.state.log.base).encode()
