"""Bugs of Raft implementations that one test of the raft kind finds.

Numbers and sources: docs/internals/protocols/raft-bugs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from tests.loglets.raft import test_lost_disks
from tests.loglets.raft.core import test_disk, test_elections, test_flow, test_members, test_transfers
from tests.loglets.raft.planted.mutant import TestedMutant, tested
from tests.loglets.raft.records import test_log
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftConfig
from virtuallog_loglets.raft.core import membership
from virtuallog_loglets.raft.core.effects import RaftAnswer, RaftEffect, RaftSend, Ticket
from virtuallog_loglets.raft.core.election import ELECTION_TICKS
from virtuallog_loglets.raft.core.leader_term import RaftTerm
from virtuallog_loglets.raft.core.log import RaftLog
from virtuallog_loglets.raft.core.membership import RaftMember
from virtuallog_loglets.raft.core.replica_requests import ReplicaRequests
from virtuallog_loglets.raft.core.replication import RaftReplicator
from virtuallog_loglets.raft.core.voter import Voter
from virtuallog_loglets.raft.drivers.replica_driver import ReplicaDriver
from virtuallog_loglets.raft.drivers.replica_service import RaftService
from virtuallog_loglets.raft.messages import NO_NODE, AppendRecords, LeaderReply, RecordsAppended, VoteAnswer

checked_tail = ReplicaRequests.check_tail
voted = Voter.vote_answered
dropped = RaftLog.drop_below
received = RaftReplicator.answered
seat_checked = RaftService._check_seat


@tested(
    ReplicaRequests.check_tail, number=17, test=test_transfers.test_former_leader_answers_no_read_while_it_hands_over,
    says="UnavailableError",
)  # fmt: skip
def a_lease_goes_on_during_a_transfer(self: ReplicaRequests, ticket: Ticket) -> list[RaftEffect]:
    """A leader that has heard from a majority within an election timeout answers at once, also while it hands over."""
    replica, leading = self.replica, self.replica.leading
    if leading is None or not leading.replicator.hears_majority(replica.ticks - ELECTION_TICKS):
        return checked_tail(self, ticket)
    place = replica.state.log.offset_at(replica.state.commit)
    replica.outbox.now(RaftAnswer(ticket, LeaderReply(place=place)))
    return replica.outbox.take()


@tested(
    Voter.vote_answered, number=18,
    test=test_elections.test_candidate_that_is_refused_in_a_later_term_is_free_to_vote_in_it, says="granted=True",
)  # fmt: skip
def a_refusal_is_stored_as_the_own_vote(
    self: Voter, voter: NodeId, number: int, answer: VoteAnswer | None
) -> list[RaftEffect]:
    """The term of a refusal is taken in with a vote for the replica that sent it."""
    if answer is not None and not answer.granted and answer.term > self.state.term:
        self._become_follower(answer.term, NO_NODE)
        self.journal.set_term(answer.term, voter)
    return voted(self, voter, number, answer)


@tested(
    RaftTerm.check_change, number=19, test=test_members.test_changes_of_two_leaders_leave_one_majority,
    says="leader 1 lacks record",
)  # fmt: skip
def members_change_before_a_record_of_the_term_is_committed(
    self: RaftTerm, members: Mapping[NodeId, RaftMember], seen: int
) -> None:
    """A new leader changes the members at once, while a change of an earlier leader may still come to be committed."""
    present = self.log.configuration
    if present.index > self._commit:
        raise UnavailableError("another change is not committed yet")
    if seen != present.index:
        raise InvalidSettingError("members", "they have been changed")
    membership.check_change(present, members, self.replicator.me)


@tested(
    RaftLog.drop_below, number=20, test=test_log.test_log_is_what_a_list_of_records_would_be,
    says="log.configuration.index", first=0,
)  # fmt: skip
def the_base_has_the_newest_members(self: RaftLog, index: int) -> None:
    """The base keeps the members that are in force. A change behind it is truncated, and its members stay."""
    newest = self.configuration
    if index > self.base.index:
        dropped(self, index)
        self.origin = newest


@tested(
    RaftService._check_seat, number=21,
    test=test_lost_disks.test_new_directory_under_an_old_node_id_does_not_vote, says="DID NOT RAISE",
)  # fmt: skip
def a_new_directory_has_the_votes_of_the_old_one(self: RaftService, segment: SegmentId, config: RaftConfig) -> None:
    """A node makes its replica of any loglet whose config names it, however new its directory is."""
    if config.loglet is not None or self._environment.node not in config.replicas:
        seat_checked(self, segment, config)


@tested(
    RaftReplicator.answered, number=24, test=test_flow.test_peer_that_lost_a_full_window_catches_up, says="group.shape(2)",
)  # fmt: skip
def lost_messages_fill_the_window(
    self: RaftReplicator, node: NodeId, number: int, reply: RecordsAppended | None, now: int
) -> None:
    """A message that has no answer stays in flight for ever, and a full window takes no other one."""
    if reply is not None:
        received(self, node, number, reply, now)


@tested(
    Voter.is_stalled, number=25,
    test=test_disk.test_leader_whose_disk_stands_still_steps_down_and_does_not_stand, says="not group.leads(1)",
)  # fmt: skip
def a_leader_goes_on_while_its_disk_stands_still(self: Voter) -> bool:
    """A leader sends heartbeats though it can store nothing."""
    return False


@tested(
    RaftReplicator.hears_majority, number=26,
    test=test_elections.test_replica_between_two_that_cannot_reach_each_other_lets_one_lead, says="leaders",
)  # fmt: skip
def a_leader_goes_on_without_a_majority(self: RaftReplicator, since: int) -> bool:
    """A leader sends heartbeats though no majority answers, and the one replica that hears them refuses to vote."""
    return True


@tested(
    ReplicaDriver._send_stored, number=28,
    test=test_lost_disks.test_record_that_the_leader_cannot_read_is_not_sent_as_if_there_were_none,
    says="isinstance(request, AppendRecords)",
)  # fmt: skip
async def a_record_that_cannot_be_read_ends_the_log(self: ReplicaDriver, send: RaftSend) -> None:
    """An error of the disk is taken for the end of the records: the peer is sent a message without any."""
    try:
        blobs = [(await self._wal.read(address)).payload for address in send.stored]
    except VirtualLogError:
        blobs = []
    assert isinstance(send.request, AppendRecords)
    self._send(attrs.evolve(send, request=attrs.evolve(send.request, records=tuple(blobs)), stored=()))


MUTANTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, TestedMutant))
