"""Bugs of Raft implementations, planted in the core. Numbers are those of section 12 of the specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tests.simulation.explorer.mutant import ExploredMutant, explored
from virtuallog.contract.batch import Batch
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import record_check, replication, voter
from virtuallog_loglets.raft.core.effects import Change, RaftAnswer, RaftEffect, TermChanged, Ticket
from virtuallog_loglets.raft.core.election import Campaign, is_up_to_date
from virtuallog_loglets.raft.core.journal import Journal
from virtuallog_loglets.raft.core.leader_term import RaftTerm
from virtuallog_loglets.raft.core.log import RaftLog, committed_index
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.record_check import Diverged, Matched
from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.replica_state import LogBase, ReplicaState
from virtuallog_loglets.raft.core.replication import PeerProgress, RaftReplicator
from virtuallog_loglets.raft.core.voter import Voter
from virtuallog_loglets.raft.messages import AppendRecords, LeaderReply, RecordsAppended, VoteAnswer
from virtuallog_loglets.wal.core.record import Address

replayed = ReplicaState.replay
matched = record_check.match
took = RaftReplica._take_records
answered = RaftReplica._answer
accepted = RaftReplicator._accepted
received = RaftReplicator.answered
offered = RaftTerm.offer
voted = Voter.vote_answered
judged = Voter._judge
records_came = RaftReplica.records_answered


@explored(
    RaftReplica._advance,
    configuration="raft-fig8",
    says="lacks a committed record",
    number="1",
    schedule="raft-fig8",
    is_long=True,
)
def records_of_older_terms_are_counted(self: RaftReplica, leading: RaftTerm) -> None:
    """A leader commits what a majority has, of any term: figure 8 of the paper."""
    commit = leading.replicator.committed
    if commit > self.state.commit:
        self.journal.commit(commit)
        self.outbox.now(*leading.committed(commit))
        self.outbox.now(*leading.replicator.announce(commit))


@explored(ReplicaState.replay, configuration="raft-crash", says="two leaders of term 1", number="2")
def the_vote_is_forgotten_at_a_restart(self: ReplicaState, change: Change, address: Address) -> None:
    """A replay takes in terms without votes."""
    if isinstance(change, TermChanged):
        change = TermChanged(change.term, NodeId(0))
    replayed(self, change, address)


@explored(Voter.vote_answered, configuration="raft-election-2", says="two leaders", number="3")
def votes_for_another_term_count(
    self: Voter, voter: NodeId, number: int, answer: VoteAnswer | None
) -> list[RaftEffect]:
    """A candidate counts every vote that arrives, for any term."""
    if self.campaign is not None and answer is not None and answer.granted:
        self.campaign.granted.add(voter)
        self._judge(self.campaign)
        return self.outbox.take()
    return voted(self, voter, number, answer)


@explored(is_up_to_date, used_in=voter, configuration="raft-election", says="lacks a committed record", number="4")
def logs_of_candidates_are_not_compared(last_term: int, last_index: int, own_term: int, own_index: int) -> bool:
    """A voter votes for a candidate whose log is shorter than its own."""
    return True


@explored(record_check.match, configuration="raft-reorder", says="durable there", number="5")
def what_is_behind_a_message_is_dropped(
    log: RaftLog, commit: int, previous: int, term: int, sent: Sequence[RaftRecord]
) -> Matched | Diverged:
    """A follower truncates behind the records of a message, as if the leader had no others."""
    found = matched(log, commit, previous, term, sent)
    if isinstance(found, Matched) and not found.new and previous + len(sent) < log.last_index:
        log.truncate(max(previous + len(sent), log.base.index))
    return found


@explored(RaftReplica._answer, configuration="raft-terms", says="durable at", number="6")
def a_follower_acknowledges_its_own_last_index(
    self: RaftReplica, *, accepted: bool, index: int, hint: int = 0
) -> RecordsAppended:
    """The answer names the end of the log and not that of the message."""
    return answered(self, accepted=accepted, index=self.state.log.last_index if accepted else index, hint=hint)


@explored(
    RaftReplica._take_records, configuration="raft-diverged", says="committed", number="7", schedule="raft-diverged"
)
def a_follower_commits_what_the_message_does_not_cover(
    self: RaftReplica, request: AppendRecords, base: LogBase | None, sent: list[RaftRecord], ticket: Ticket
) -> None:
    """The commit index of the leader is taken in as far as the own log goes."""
    took(self, request, base, sent, ticket)
    if self.state.log.matches(request.previous_index, request.previous_term):
        self.journal.learn(min(request.commit, self.state.log.last_index))


@explored(Journal.learn, configuration="raft-reorder-2", says="commit index of", number="8")
def the_commit_index_follows_the_last_message(self: Journal, index: int) -> None:
    """A late message takes the commit index of a follower back."""
    if index:
        self.state.commit = min(self.state.commit, max(index, self.state.log.base.index))
        self._told = index
    durable = min(self._told, self.state.log.durable_index)
    if durable > self.state.commit:
        self.commit(durable)


@explored(RaftReplicator._accepted, configuration="raft-reorder", says="match index", number="9")
def the_match_index_follows_the_last_answer(self: RaftReplicator, progress: PeerProgress, index: int) -> None:
    """A late answer takes the match index of a peer back."""
    accepted(self, progress, index)
    progress.match = index


@explored(Voter._judge, configuration="raft-own-vote", says="different records", schedule="raft-own-vote")
def a_candidate_leads_before_its_vote_is_durable(self: Voter, campaign: Campaign) -> None:
    """The votes of all others are enough to lead, and a restart forgets the term."""
    if campaign.is_won and not campaign.pre:
        campaign.granted.add(self.node)
    judged(self, campaign)


@explored(
    RaftReplica.records_answered, configuration="raft-stale", says="durable at", number="11", schedule="raft-stale"
)
def an_acknowledgement_of_an_earlier_term_counts(
    self: RaftReplica, peer: NodeId, number: int, term: int, reply: RecordsAppended | None
) -> list[RaftEffect]:
    """A leader believes an answer to records that it sent in a term of its own before this one."""
    leading = self.leading
    if leading is not None and reply is not None and reply.accepted and term < leading.term:
        term = leading.term
        reply = attrs.evolve(reply, term=term)
    return records_came(self, peer, number, term, reply)


@explored(
    committed_index,
    used_in=replication,
    configuration="raft-append",
    says="durable at no other",
    number="12",
    is_symmetric=False,
)
def progress_of_voters_is_not_sorted(matches: dict[NodeId, int], configuration: Configuration) -> int:
    """The commit index is the match index of the voter in the middle of the list."""
    reached = [matches.get(voter, 0) for voter in configuration.voters]
    return reached[configuration.quorum - 1]


@explored(RaftReplicator.committed, configuration="raft-disk", says="durable at", number="13")
def the_leader_counts_records_that_are_not_synced(self: RaftReplicator) -> int:
    """The leader counts itself by its log, synced or not."""
    matches = {node: progress.match for node, progress in self.peers.items()}
    return committed_index({**matches, self.me: self.log.last_index}, self.log.configuration)


@explored(RaftReplicator.answered, configuration="raft-read-2", says="a tail of", number="15", is_long=True)
def an_answer_confirms_the_present_round(
    self: RaftReplicator, node: NodeId, number: int, reply: RecordsAppended | None, now: int
) -> None:
    """A read is confirmed by an answer to a message that left before it."""
    received(self, node, number, reply, now)
    if reply is not None and node in self.peers:
        self.peers[node].confirmed = self.round


@explored(RaftTerm.is_established, configuration="raft-read", says="a tail of", number="16")
def reads_do_not_wait_for_a_record_of_the_term(self: RaftTerm) -> bool:
    """A leader answers reads before a record of its term is committed."""
    return True


@explored(RaftTerm.offer, configuration="raft-seal", says="behind", number="29")
def batches_are_taken_behind_a_seal(
    self: RaftTerm, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int
) -> list[RaftAnswer]:
    """A leader with a SEAL in its log makes records of batches."""
    self.log.seal = 0
    return offered(self, batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)


@explored(RaftTerm._tail_at, configuration="raft-read", says="a tail of", number="30")
def the_tail_is_that_of_the_whole_log(self: RaftTerm, index: int) -> LeaderReply:
    """A tail counts records that are not committed."""
    return LeaderReply(place=self.log.next_offset, sealed=0 < self.log.seal <= index)


@explored(RaftTerm.wait, configuration="raft-seal", says="a seal was answered", number="34")
def a_seal_is_answered_before_it_is_committed(self: RaftTerm, index: int, ticket: Ticket) -> list[RaftAnswer]:
    """Callers of seal are answered as soon as the record is in the log."""
    return [RaftAnswer(ticket, self._tail_at(index))]


MUTANTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, ExploredMutant))
