"""Bugs of the raft loglet: its elections, its replication, what is committed and what is durable, its sessions and its SEAL.

Most are bugs of published implementations. Random faults do not find those that need a long schedule, such as that of Fig. 8 of the paper;
they are for the explorer of the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import CorruptionError, TrimmedError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import record_check, replication, voter
from virtuallog_loglets.raft.core.effects import Change, RaftAnswer, RaftEffect, TermChanged, Ticket
from virtuallog_loglets.raft.core.election import is_up_to_date
from virtuallog_loglets.raft.core.journal import Journal
from virtuallog_loglets.raft.core.leader_term import RaftTerm
from virtuallog_loglets.raft.core.log import RaftLog, committed_index
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.outbox import RaftOutbox
from virtuallog_loglets.raft.core.proposals import Proposals
from virtuallog_loglets.raft.core.read_index import RaftRead
from virtuallog_loglets.raft.core.record_check import Diverged, Matched
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.replica_requests import ReplicaRequests
from virtuallog_loglets.raft.core.replica_state import LogBase, ReplicaState
from virtuallog_loglets.raft.core.replication import PeerProgress, RaftReplicator
from virtuallog_loglets.raft.core.transitions import Flow
from virtuallog_loglets.raft.drivers.replica_driver import dropped
from virtuallog_loglets.raft.drivers.replica_service import READ_BYTES_MAX, READ_RECORDS_MAX, RaftService
from virtuallog_loglets.raft.messages import (
    NO_NODE,
    AppendRecords,
    LeaderReply,
    RaftRecords,
    ReadRaftRecords,
    RecordsAppended,
)
from virtuallog_loglets.wal.core.record import Address

INSIDE: Final = [
    "committed is on a majority",
    "committed records stay",
    "leaders have what is committed",
    "leaders know their peers",
    "logs match",
    "one leader per term",
    "replicas never go back",
    "replicas recover what they told",
]
TAILS: Final = ["loglet tails move forward", "loglet appends follow the tail", "acknowledged is readable"]
TWICE: Final = [
    "sessions equal the log",
    "one batch per place",
    "loglet keeps sessions in order",
    "one batch per sequence",
]
ASSERTED: Final = ["no unexpected error"]

replayed = ReplicaState.replay
stored_term = Journal.set_term
matched = record_check.match


# -- elections ------------------------------------------------------------------------------------------------------


@mutant(ReplicaState.replay, scenario="raft-elections", found_by=INSIDE, published="HashiCorp Raft, persistVote")
def vote_is_forgotten_at_a_restart(self: ReplicaState, change: Change, address: Address) -> None:
    """The term comes back from the disk, and the vote in it does not."""
    replayed(self, TermChanged(change.term, NO_NODE) if isinstance(change, TermChanged) else change, address)


@mutant(is_up_to_date, used_in=voter, scenario="raft", found_by=[*INSIDE, *TAILS], published="Raft, 5.4.1")
def any_candidate_is_voted_for(last_term: int, last_index: int, own_term: int, own_index: int) -> bool:
    """A voter does not compare the candidate's log with its own."""
    return True


@mutant(Journal.set_term, scenario="raft-elections", found_by=INSIDE, published="OpenRaft, io_ordering")
def term_is_not_stored_without_a_vote(self: Journal, term: int, vote: NodeId) -> None:
    """A follower stores records of a term, and the term itself with its next vote."""
    if vote == NO_NODE:
        self.state.term, self.state.vote = term, vote
    else:
        stored_term(self, term, vote)


@mutant(RaftOutbox.vouch, scenario="raft", found_by=INSIDE, published="etcd issue 14370")
def answered_before_it_is_durable(self: RaftOutbox, effect: RaftEffect) -> None:
    """Votes and acknowledgements of records leave at once."""
    self._effects.append(effect)


@mutant(
    RaftReplica.records_answered, scenario="raft-superseded", found_by=[*INSIDE, *TAILS, "progress"],
    published="HashiCorp Raft issue 666",
)  # fmt: skip
def answers_of_a_later_term_are_taken_for_rejections(
    self: RaftReplica, peer: NodeId, number: int, term: int, reply: RecordsAppended | None
) -> list[RaftEffect]:
    """A deposed leader goes on, and its peers confirm that it leads."""
    leading = self.leading
    if leading is None or term != leading.term:
        return self.outbox.take()
    leading.replicator.answered(peer, number, reply, self.ticks)
    self._advance(leading)
    self.outbox.now(*leading.replicator.pump(self.state.commit))
    self.outbox.now(*leading.confirmed())
    self.begin_round(leading)
    return self.outbox.take()


# -- replication ----------------------------------------------------------------------------------------------------


@mutant(record_check.match, scenario="raft", found_by=[*INSIDE, *ASSERTED], published="RaftOS issue 26")
def log_is_cut_behind_each_message(
    log: RaftLog, commit: int, previous: int, term: int, sent: Sequence[RaftRecord]
) -> Matched | Diverged:
    """A message that arrives late, and is shorter than the log, drops the rest of it."""
    outcome = matched(log, commit, previous, term, sent)
    if isinstance(outcome, Matched) and not outcome.new and log.base.index <= previous < log.last_index:
        kept = [record for record in sent if record.index > previous]
        return Matched(outcome.index, kept, previous)
    return outcome


@mutant(record_check.match, scenario="raft", found_by=[*INSIDE, *ASSERTED], published="Ratis 2605")
def heartbeats_are_accepted_unseen(
    log: RaftLog, commit: int, previous: int, term: int, sent: Sequence[RaftRecord]
) -> Matched | Diverged:
    """A message without records is accepted wherever it says that the logs are equal."""
    return matched(log, commit, previous, term, sent) if sent else Matched(max(previous, commit), (), log.last_index)


followed = RaftReplica._take_records


@mutant(RaftReplica._take_records, scenario="raft", found_by=[*INSIDE, *ASSERTED], published="WRaft issue 118")
def all_that_the_leader_has_committed_is_committed_here(
    self: RaftReplica, request: AppendRecords, base: LogBase | None, sent: list[RaftRecord], ticket: Ticket
) -> None:
    """The commit index of a message counts for the whole log, also behind what the message is about."""
    followed(self, request, base, sent, ticket)
    self.journal.learn(request.commit)


@mutant(Journal.learn, scenario="raft", found_by=INSIDE, published="PySyncObj issue 166")
def commit_index_of_a_late_message_counts(self: Journal, index: int) -> None:
    """A message that was overtaken takes the commit index back."""
    durable = min(index, self.state.log.durable_index)
    if durable > self.state.commit:
        self.commit(durable)
    elif index >= self.state.log.base.index:
        self.state.commit = durable


@mutant(RaftReplicator._accepted, scenario="raft", found_by=INSIDE, published="PySyncObj issue 167")
def match_of_a_late_answer_counts(self: RaftReplicator, progress: PeerProgress, index: int) -> None:
    """An answer that was overtaken takes back what the peer is known to have."""
    progress.match = min(index, self.log.last_index)
    progress.next = max(progress.next, progress.match + 1)
    if progress.flow is not Flow.REPLICATE:
        progress.flow, progress.epoch = Flow.REPLICATE, progress.epoch + 1


@mutant(committed_index, used_in=replication, scenario="raft-members", found_by=INSIDE)
def learners_count_for_a_commit(matches: dict[NodeId, int], configuration: Configuration) -> int:
    """A majority is counted in all members, those without a vote included."""
    reached = sorted((matches.get(member, 0) for member in configuration.members), reverse=True)
    return reached[configuration.quorum - 1]


@mutant(committed_index, used_in=replication, scenario="raft", found_by=INSIDE, published="OpenRaft issue 1802")
def voters_are_not_sorted(matches: dict[NodeId, int], configuration: Configuration) -> int:
    """What the second of three voters has counts as what a majority has."""
    return [matches.get(node, 0) for node in configuration.voters][configuration.quorum - 1]


@mutant(RaftReplicator.committed, scenario="raft", found_by=INSIDE, published="OpenRaft a9f696a9, etcd issue 14370")
def leader_counts_what_it_has_not_synced(self: RaftReplicator) -> int:
    """Its own record counts from the moment that it is made."""
    matches = {node: progress.match for node, progress in self.peers.items()}
    return committed_index({**matches, self.me: self.log.last_index}, self.log.configuration)


@mutant(RaftReplica._advance, scenario="raft", found_by=["progress"], published="RaftOS issue 30")
def earlier_terms_stop_the_commit(self: RaftReplica, leading: RaftTerm) -> None:
    """The next record has to be of the own term, so what an earlier leader left is never committed."""
    if self.state.log.term_at(self.state.commit + 1) == leading.term:
        advanced(self, leading)


advanced = RaftReplica._advance


@mutant(Journal.set_base, scenario="raft", found_by=[*INSIDE, *ASSERTED], published="OpenRaft issue 1892")
def base_replaces_what_is_committed(self: Journal, base: LogBase) -> None:
    """A base that comes late is taken, though more is committed here."""
    self.state.log = RaftLog(base.members, base.point)
    self.state.log.seal, self.state.commit = base.seal, base.point.index


# -- clients --------------------------------------------------------------------------------------------------------


@mutant(RaftTerm._begin_read, scenario="raft-superseded", found_by=TAILS, published="etcd issue 20418")
def read_is_confirmed_by_an_earlier_round(self: RaftTerm, ticket: Ticket, error: VirtualLogError | None) -> None:
    """Answers to messages that left before the read confirm it."""
    answer = self._tail_at(self._commit) if error is None else error
    stop = self._committed_tail if error is None else self.proposals.tail
    self.reads.add(RaftRead(ticket, self.replicator.round, stop, answer))


@mutant(RaftTerm.is_established, scenario="raft", within=100, found_by=TAILS, published="etcd issue 7331")
def new_leader_reads_before_it_has_committed(self: RaftTerm) -> bool:
    """A leader answers with the commit index that it had as a follower."""
    return True


@mutant(RaftTerm._begin_read, scenario="raft", found_by=["loglet refusals are true"])
def refusal_does_not_wait_for_the_queue(self: RaftTerm, ticket: Ticket, error: VirtualLogError | None) -> None:
    """A refusal counts batches that wait for a record, and is answered without them."""
    answer = self._tail_at(self._commit) if error is None else error
    self.reads.add(RaftRead(ticket, self.replicator.round + 1, self._committed_tail, answer))


@mutant(RaftTerm._tail_at, scenario="raft-superseded", found_by=TAILS)
def tail_behind_what_is_not_committed(self: RaftTerm, index: int) -> LeaderReply:
    """The tail is the end of the leader's log."""
    return LeaderReply(place=self.log.next_offset, sealed=0 < self.log.seal <= index)


@mutant(RaftService._read, scenario="raft-superseded", found_by=["acknowledged is readable", "one batch per place"])
async def follower_reads_past_its_commit_index(self: RaftService, request: ReadRaftRecords) -> RaftRecords:
    """What a replica has is read, though another record may be committed in its place."""
    driver = self.drivers.get(request.segment)
    if driver is None:
        raise dropped(request.segment)
    state, blobs, size = driver.replica.state, list[bytes](), 0
    size_max = min(request.max_bytes, READ_BYTES_MAX)
    index = state.log.index_from(max(request.start, state.trim))
    while index <= state.log.last_index and len(blobs) < READ_RECORDS_MAX:
        if state.log.first_at(index) >= request.stop:
            break
        kept = state.log.kept(index)
        try:
            blob = kept.blob if kept is not None else (await self._wal.read(state.log.address(index))).payload
        except (TrimmedError, CorruptionError):
            break
        size += len(blob)
        if index <= state.log.base.index or (blobs and size > size_max):
            break
        blobs.append(blob)
        index += 1
    return RaftRecords(records=tuple(blobs), standing=driver.replica.standing)


@mutant(Proposals.inherit, scenario="raft", found_by=[*TWICE, *ASSERTED], published="YugabyteDB, retryable requests")
def batches_in_flight_are_not_inherited(self: Proposals, record: RaftRecord, now_ms: int) -> None:
    """A new leader knows the sessions of what is committed. A batch of a record that is not comes twice."""
    self._records.append((record.index, []))


@mutant(
    RaftRecord.stop, scenario="raft", found_by=["loglet reads without holes", "acknowledged is readable", *ASSERTED]
)
def noop_takes_an_offset(self: RaftRecord) -> int:
    """The first record of a leader is an entry for readers, who find none."""
    return self.first + self.count + (self.kind is RecordKind.NOOP)


@mutant(RaftTerm.wait, scenario="raft-seals", found_by=[*TAILS, "sealed by another client"])
def sealed_is_answered_before_it_is_committed(self: RaftTerm, index: int, ticket: Ticket) -> list[RaftAnswer]:
    """The leader answers when the SEAL is in its log. It may be truncated."""
    return [RaftAnswer(ticket, self._tail_at(index))]


appended = ReplicaRequests.append


@mutant(ReplicaRequests.append, scenario="raft-seals", found_by=["one SEAL ends the log"])
def batch_leaves_at_once_behind_a_seal(
    self: ReplicaRequests, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int
) -> list[RaftEffect]:
    """A leader looks for a SEAL when it is committed. Until then a batch gets a record of its own."""
    replica, leading = self.replica, self.replica.leading
    if leading is None or not leading.log.seal or replica.state.is_sealed:
        return appended(self, batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)
    try:
        answers = leading.proposals.offer(batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)
    except VirtualLogError as error:
        answers = [RaftAnswer(ticket, error)]
    replica.outbox.now(*answers)
    if leading.proposals.is_waiting:
        replica.append_own([leading.cut(replica.state.commit, replica.time_ms)])
    return replica.outbox.take()


MUTANTS: Final[tuple[Mutant, ...]] = tuple(each for each in list(globals().values()) if isinstance(each, Mutant))
