"""Requests of clients and operators to one replica. Those that it cannot do it answers with the leader that it knows."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    DiskFullError,
    InvalidSettingError,
    MalformedError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import POSITION_MAX, NodeId
from virtuallog_loglets.raft.core import membership, records
from virtuallog_loglets.raft.core.effects import RaftAnswer, RaftEffect, RaftSend, Ticket
from virtuallog_loglets.raft.core.leader_term import RaftTerm
from virtuallog_loglets.raft.core.membership import Configuration, RaftMember
from virtuallog_loglets.raft.core.records import RecordKind
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.messages import NO_MEMBER, NO_NODE, NOWHERE, LeaderReply, StandNow


@attrs.define(eq=False)
class ReplicaRequests:
    """Requests to one replica; returns effects, as the replica does."""

    replica: RaftReplica

    def append(self, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int) -> list[RaftEffect]:
        """Take in a checked batch; it is answered once it is committed. `turn` sends it."""
        replica, leading = self.replica, self.replica.leading
        if leading is None:
            if not replica.state.is_sealed:
                return self._elsewhere(ticket)
            replica.outbox.now(RaftAnswer(ticket, SealedError()))  # which batches were placed, only a leader knows
            return replica.outbox.take()
        if not leading.replicator.has_room(own=not replica.lacks_room) and leading.takes_batches:
            replica.outbox.now(RaftAnswer(ticket, DiskFullError("the disks of a majority of the replicas are full")))
            return replica.outbox.take()
        if replica.lacks_room and leading.takes_batches:  # others have room: nothing of the batch is in the log
            replica.yield_for_room()
            return self._elsewhere(ticket)
        answers = leading.offer(batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)
        replica.outbox.now(*answers)
        replica.begin_round(leading)
        return replica.outbox.take()

    def turn(self, time_ms: int) -> list[RaftEffect]:
        """Cut a record after all appends of one scheduler turn; `time_ms` is the time of day.

        One record, as the disk may refuse it, and nothing may rest on it by then. Call it again while the replica has work.
        """
        replica, leading = self.replica, self.replica.leading
        replica.time_ms = max(replica.time_ms, time_ms)
        if leading is not None and leading.has_work(replica.state.commit):
            replica.append_own([leading.cut(replica.state.commit, replica.time_ms)])
        return replica.outbox.take()

    def check_tail(self, ticket: Ticket) -> list[RaftEffect]:
        """Answer with the tail, linearizable with appends."""
        replica = self.replica
        if replica.state.is_sealed:
            return self._sealed(ticket)
        leading = replica.leading
        if leading is None:
            return self._elsewhere(ticket)
        replica.outbox.now(*leading.read(ticket))
        replica.begin_round(leading)
        return replica.outbox.take()

    def seal(self, ticket: Ticket, *, stand: bool) -> list[RaftEffect]:
        """Have a SEAL committed, once; answered with the tail.

        Args:
            ticket: receiver of the answer.
            stand: True to stand for election if this replica does not lead, even if another one does.
        """
        replica = self.replica
        if replica.state.is_sealed:
            return self._sealed(ticket)
        leading = replica.leading
        if leading is None:
            if not stand:
                return self._elsewhere(ticket)
            replica.stand_to_seal(ticket)
            return replica.outbox.take()
        if not replica.state.log.seal:
            # not cut first: the disk may refuse a record of batches, and the SEAL would be behind it
            leading.hold_waiting()
            replica.append_own([records.build(leading.place(replica.state.commit, replica.time_ms), RecordKind.SEAL)])
        replica.outbox.now(*leading.wait(replica.state.log.seal, ticket))
        return replica.outbox.take()

    def change_member(self, node: NodeId, kind: int, address: str, seen: int, ticket: Ticket) -> list[RaftEffect]:
        """Add one member, or remove it if `kind` is NO_MEMBER; otherwise like `change_members`."""
        present = self.replica.state.log.configuration
        try:
            if kind == NO_MEMBER:
                members = membership.without_member(present, node)
            else:
                members = membership.with_member(present, node, kind, address)
        except VirtualLogError as error:
            if self.replica.leading is None:
                return self._elsewhere(ticket)
            self.replica.outbox.now(RaftAnswer(ticket, error))
            return self.replica.outbox.take()
        return self.change_members(members, seen, ticket)

    def change_members(self, members: Mapping[NodeId, RaftMember], seen: int, ticket: Ticket) -> list[RaftEffect]:
        """Change the members, one voter at a time; answered once it is committed.

        Args:
            members: all members from now on.
            seen: index of the configuration that the caller has changed.
            ticket: receiver of the answer.
        """
        replica, leading = self.replica, self.replica.leading
        if leading is None:
            return self._elsewhere(ticket)
        try:
            leading.check_change(members, seen)
        except VirtualLogError as error:
            replica.outbox.now(RaftAnswer(ticket, error))
            return replica.outbox.take()
        refusal = leading.wait(replica.state.log.last_index + 1, ticket)
        replica.outbox.now(*refusal)
        if not refusal:
            self._append_members(leading, members)
        return replica.outbox.take()

    def _append_members(self, leading: RaftTerm, members: Mapping[NodeId, RaftMember]) -> None:
        place = leading.place(self.replica.state.commit, self.replica.time_ms)
        body = Configuration(place.index, members).encode()
        self.replica.append_own([records.build(place, RecordKind.CONFIGURATION, body)])

    def trim(self, offset: int, ticket: Ticket) -> list[RaftEffect]:
        """Drop what is below `offset`, which is committed, now or once it is here; answered once that is durable."""
        replica = self.replica
        if offset > POSITION_MAX:
            replica.outbox.now(RaftAnswer(ticket, MalformedError(f"no such offset: {offset}")))
        else:
            replica.journal.trim(offset)
            replica.outbox.vouch(RaftAnswer(ticket, None))
        return replica.outbox.take()

    # -- transfer of the leadership -------------------------------------------------------------------------------

    def transfer(self, target: NodeId, ticket: Ticket) -> list[RaftEffect]:
        """Have another voter lead; answered once it does, or does not. A second transfer takes the place of the first."""
        replica, leading = self.replica, self.replica.leading
        if leading is None:
            return self._elsewhere(ticket)
        if target == replica.node or not replica.state.log.configuration.is_voter(target):
            replica.outbox.now(RaftAnswer(ticket, InvalidSettingError("target", f"{target} is no other voter")))
            return replica.outbox.take()
        replica.outbox.now(*leading.begin_transfer(target, ticket, replica.ticks))
        self._send_stand(leading.replicator.term)
        return replica.outbox.take()

    @property
    def is_changing(self) -> bool:
        """True if `after_answers` may have something to do."""
        leading = self.replica.leading
        return leading is not None and (leading.transfer is not None or bool(leading.replicator.newcomers))

    def after_answers(self) -> list[RaftEffect]:
        """Go on with a transfer after the answer of a peer, or give a newcomer that has caught up its vote."""
        leading = self.replica.leading
        if leading is not None and leading.transfer is not None:
            self._send_stand(leading.term)
        elif leading is not None and (members := leading.find_promotion()) is not None:
            self._append_members(leading, members)
        return self.replica.outbox.take()

    def _send_stand(self, term: int) -> None:
        replica, leading = self.replica, self.replica.leading
        assert leading is not None and leading.transfer is not None
        target = leading.transfer
        progress = leading.replicator.peers.get(target)
        if progress is None or not replica.state.log.configuration.is_voter(target):
            error = UnavailableError(f"{target} is no voter any more")
            replica.outbox.now(*leading.end_transfer(error))
        elif progress.match == replica.state.log.last_index and not leading.transfer_sent:
            leading.transfer_sent = True
            request = StandNow(segment=replica.segment, term=term, leader=replica.node)
            replica.outbox.now(RaftSend(target, request, 0))

    # -- answers --------------------------------------------------------------------------------------------------

    def _elsewhere(self, ticket: Ticket) -> list[RaftEffect]:
        replica = self.replica
        leader = replica.leader if replica.leader != replica.node else NO_NODE
        replica.outbox.now(RaftAnswer(ticket, LeaderReply(place=NOWHERE, leader=leader)))
        return replica.outbox.take()

    def _sealed(self, ticket: Ticket) -> list[RaftEffect]:
        """Answer from a SEAL that is known to be committed: no other replica need be asked, now or ever."""
        state = self.replica.state
        place = state.log.offset_at(state.log.seal)
        self.replica.outbox.now(RaftAnswer(ticket, LeaderReply(place=place, sealed=True)))
        return self.replica.outbox.take()
