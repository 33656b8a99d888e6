"""Driver of one replica: delivers messages and answers, carries out effects. It has no task of its own.

Appends are collected during a scheduler turn; the service cuts records of them once per turn. A lone batch leaves at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import DiskFullError, MalformedError, SealedError, VirtualLogError
from virtuallog.contract.ports import Done, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.runtime.end_of_turn import EndOfTurn, end_of_turn
from virtuallog_loglets.raft.core import wal_records
from virtuallog_loglets.raft.core.effects import RaftAnswer, RaftEffect, RaftFail, RaftPersist, RaftSend
from virtuallog_loglets.raft.core.records import RaftRecord
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.replica_requests import ReplicaRequests
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.raft.messages import (
    AppendRecords,
    ChangeLogMember,
    CopyRecords,
    RaftAppend,
    RaftCheckTail,
    RaftGetStanding,
    RaftSeal,
    RaftStanding,
    RaftTrim,
    RaftWaitTail,
    RequestVote,
    RetireReplica,
    StandNow,
    TransferLogLeadership,
)
from virtuallog_loglets.wal import Address, WriteAheadLog

SEND_SECONDS: Final = 2.0
"""Time in seconds after which records are sent again. A disk that stalls for longer only gets them twice."""
ROOM_TICKS: Final = 20
"""Ticks between two looks if a full disk has room again; requests make it look as well."""
RECORD_BYTES: Final = 256
"""More than the head of a record, and what the write-ahead log adds to it."""
VOTE_SECONDS: Final = 1.0
"""Timeout of a question for a vote, in seconds: as long as a campaign lasts."""
WAIT_TICKS: Final = 40
"""Ticks after which a `RaftWaitTail` is answered in any case."""
WAITERS_MAX: Final = 1024
"""Most parked `RaftWaitTail` of one loglet. Others are answered at once, as if their time were up."""

_SENT = CrashPoint("raft: records have left for one peer more, the leader's disk has not got them")
_TAKEN = CrashPoint("raft: a replica has taken in a change, its disk has not got it")
_VOTED = CrashPoint("raft: a term or a vote is durable, no peer knows it", rare=True)
_DURABLE = CrashPoint("raft: records are durable at a replica, the leader does not know it")
_COMMITTED = CrashPoint("raft: records are committed, no client has an answer")


@attrs.define
class _Waiter:
    past: int
    done: Done
    expires: int


@attrs.define(eq=False)
class ReplicaDriver:
    """One replica on its node."""

    replica: RaftReplica
    _environment: NodeEnvironment
    _wal: WriteAheadLog
    _durable: DurableReplicas
    _has_work: Callable[[ReplicaDriver], None]
    """Has `turn` called in the next scheduler turn."""
    requests: ReplicaRequests = attrs.field(init=False)
    _lacking_bytes: int = attrs.field(default=0, init=False)
    """Bytes of records that the disk had no room for when it was tried last; 0 if it had."""
    _waiters: list[_Waiter] = attrs.field(factory=list, init=False)
    _end: EndOfTurn = attrs.field(factory=end_of_turn, init=False)
    _stopped: VirtualLogError | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.requests = ReplicaRequests(self.replica)

    @property
    def is_at_rest(self) -> bool:
        """True if it needs no ticks."""
        return not self._waiters and self.replica.is_at_rest

    # -- requests -------------------------------------------------------------------------------------------------

    def step(self, request: object, done: Done) -> None:
        """Handle a request; returns at once."""
        if self._stopped is not None:
            done(self._stopped)
            return
        replica = self.replica
        match request:
            case AppendRecords():
                self._take(replica.records_requested, request, done)
            case RaftAppend():
                self._append(request, done)
            case RequestVote():
                self._take(replica.vote_requested, request, done)
            case StandNow():
                self._take(replica.stand_now, request, done)
            case RaftCheckTail():
                self._take(self.requests.check_tail, done)
            case RaftSeal():
                self._take(lambda: self.requests.seal(done, stand=request.stand))
            case RaftTrim():
                self._take(self.requests.trim, request.offset, done)
            case RaftWaitTail():
                self._wait(request, done)
            case RaftGetStanding():
                done(self.standing)
            case ChangeLogMember():
                self._take(
                    lambda: self.requests.change_member(
                        request.store, request.kind, request.address, request.seen, done
                    )
                )
            case TransferLogLeadership():
                self._take(self.requests.transfer, request.target, done)
            case RetireReplica():
                self._take(replica.retire, request.index, done)

    @property
    def standing(self) -> RaftStanding:
        """Standing of the replica, and whether its disk has room."""
        return attrs.evolve(self.replica.standing, full=self._wal.full)

    def tick(self, time_ms: int) -> None:
        """One tick has passed."""
        if self._stopped is not None:
            return
        self.replica.now_ms = self._now_ms()
        if self._lacking_bytes and self.replica.ticks % ROOM_TICKS == 0:
            self._look_for_room(0)
        self._take(self.replica.tick, time_ms)

    def turn(self) -> None:
        """Cut records of what waits."""
        self._take(self.requests.turn, self._time_ms())

    def copy(self, request: CopyRecords, sent: Sequence[RaftRecord], done: Done) -> None:
        """See `RaftReplica.copy_records`."""
        self._take(self.replica.copy_records, sent, request.trim, done)

    def found(self) -> None:
        """See `RaftReplica.found`."""
        self._take(self.replica.found)

    def stand(self) -> None:
        """See `Voter.stand`."""
        self._take(self.replica.stand)

    def lead_first_term(self) -> None:
        """See `RaftReplica.lead_first_term`."""
        self._take(self.replica.lead_first_term)

    def stop(self, error: VirtualLogError) -> None:
        """Answer all that waits with `error`, and do nothing any more: the replica is dropped, or its role has ended."""
        self._stopped = error
        for answer in self.replica.give_up(error):
            answer.ticket(error)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.done(error)

    def _append(self, request: RaftAppend, done: Done) -> None:
        try:
            batch = Batch.parse_untrusted(request.batch)
        except VirtualLogError as error:  # damaged on its way: nothing here is corrupt
            done(MalformedError(f"the batch cannot be read: {error}"))
            return
        now_ms = self._now_ms()
        if self.replica.leading is not None:
            self._look_for_room(self.replica.leading.proposals.queued_bytes + len(request.batch) + RECORD_BYTES)
        offer = partial(self.requests.append, opens=request.opens, expected_tail=request.expected_tail)
        self._apply(offer, batch, done, now_ms)
        if self.replica.may_hurry:
            self.turn()
        else:
            self._schedule()

    def _look_for_room(self, size: int) -> None:
        """Tell the replica if its disk lacks room: for a record of `size` bytes, or for what it had none for last."""
        wanted = max(size, self._lacking_bytes)
        self.replica.lacks_room = wanted > 0 and self._wal.lacks_room(wanted)
        self._lacking_bytes = wanted if self.replica.lacks_room else 0

    def _wait(self, request: RaftWaitTail, done: Done) -> None:
        state = self.replica.state
        if state.is_sealed or state.tail > request.past or len(self._waiters) >= WAITERS_MAX:
            done(self.replica.standing)
            return
        self._waiters.append(_Waiter(request.past, done, self.replica.ticks + WAIT_TICKS))
        self.replica.has_waiters = True

    def _wake(self) -> None:
        """Answer those who wait for the tail, if it has come or their time is up."""
        state, now = self.replica.state, self.replica.ticks
        ready: list[_Waiter] = []
        waiting: list[_Waiter] = []
        for each in self._waiters:
            is_ready = state.is_sealed or state.tail > each.past or each.expires <= now
            (ready if is_ready else waiting).append(each)
        if ready:
            standing, self._waiters = self.replica.standing, waiting
            self.replica.has_waiters = bool(self._waiters)
            for waiter in ready:
                waiter.done(standing)

    # -- effects --------------------------------------------------------------------------------------------------

    def _take(self, step: Callable[..., list[RaftEffect]], *arguments: object) -> None:
        """Take a step, carry out its effects, and have `turn` called if there is work for it."""
        self._apply(step, *arguments)
        self._schedule()

    def _schedule(self) -> None:
        if self.replica.has_work:
            self._has_work(self)

    def _apply(self, step: Callable[..., list[RaftEffect]], *arguments: object) -> None:
        """Take a step and carry out its effects. A broken invariant ends this role, but not the connection or the WAL
        that happened to call."""
        try:
            commit = self.replica.state.commit
            effects = step(*arguments)
            if self.replica.leading is not None and self.replica.state.commit > commit:
                _COMMITTED.reached()
            self._perform(effects)
            if self._waiters:
                self._wake()
        except AssertionError as error:
            self._environment.fail(error)

    def _perform(self, effects: list[RaftEffect]) -> None:
        for effect in effects:
            match effect:
                case RaftSend():
                    self._send(effect)
                case RaftAnswer(done, outcome):
                    done(self.replica.standing if outcome is None else outcome)
                case RaftPersist():
                    self._persist(effect)
                case RaftFail(error):
                    self._environment.fail(error)

    def _persist(self, write: RaftPersist) -> None:
        _TAKEN.reached()
        segment = self.replica.segment
        encoded = [wal_records.encode(segment, change) for change in write.changes]
        stream = self if write.has_records else None
        self._wal.append(encoded, partial(self._persisted, write), essential=write.essential, stream=stream)

    def _persisted(self, write: RaftPersist, outcome: Sequence[Address] | VirtualLogError) -> None:
        if self._stopped is not None:
            return
        if isinstance(outcome, VirtualLogError):
            if isinstance(outcome, DiskFullError):
                blobs = (change.blob for change in write.changes if isinstance(change, RaftRecord))
                self._lacking_bytes = max(self._lacking_bytes, sum(map(len, blobs)))
                self.replica.lacks_room = True
            self._take(self.replica.failed, write, outcome)
            return
        self._durable.newest_address = outcome[-1]
        (_DURABLE if isinstance(write.changes[0], RaftRecord) else _VOTED).reached()
        self._take(self.replica.persisted, write, outcome)

    def _send(self, send: RaftSend) -> None:
        if send.stored:
            self._environment.nursery.start_soon(self._send_stored, send)
            return
        services, request = self._environment.services, send.request
        if isinstance(request, AppendRecords):
            answered = partial(self._records_answered, send.peer, send.number, request.term)
            services.post(send.peer, request, answered, SEND_SECONDS)
            if request.records:
                _SENT.reached()
        elif isinstance(request, RequestVote):
            answered = partial(self._answered, self.replica.vote_answered, send.peer, send.number)
            services.post(send.peer, request, answered, VOTE_SECONDS)
        else:
            services.post(send.peer, request, lambda _: None, VOTE_SECONDS)

    def _records_answered(self, peer: NodeId, number: int, term: int, outcome: object) -> None:
        if self._stopped is None:
            reply = None if isinstance(outcome, VirtualLogError) else outcome
            self._take(self.replica.records_answered, peer, number, term, reply)
            self._end.flush()  # callers wait for the answers, not for what follows
            if self.requests.is_changing:
                self._take(self.requests.after_answers)

    def _answered(self, step: Callable[..., list[RaftEffect]], peer: NodeId, number: int, outcome: object) -> None:
        if self._stopped is None:
            self._take(step, peer, number, None if isinstance(outcome, VirtualLogError) else outcome)

    async def _send_stored(self, send: RaftSend) -> None:
        """Read records from the disk for a peer that is far behind, as many as fit in a message."""
        request = send.request
        assert isinstance(request, AppendRecords)
        blobs: list[bytes] = []
        size = 0
        try:
            for address in send.stored:
                blob = (await self._wal.read(address)).payload
                size += len(blob)
                if blobs and size > self.replica.limits.message_bytes:
                    break
                blobs.append(blob)
        except VirtualLogError as error:  # trimmed meanwhile, or unreadable here: never sent as if there were none
            if not blobs:
                self._records_answered(send.peer, send.number, request.term, error)
                return
        self._send(attrs.evolve(send, request=attrs.evolve(request, records=tuple(blobs)), stored=()))

    def _now_ms(self) -> int:
        """Time for sessions, by a clock that does not jump; records carry the time of day."""
        return int(self._environment.clock.monotonic() * 1000)

    def _time_ms(self) -> int:
        return max(0, int(self._environment.clock.wall() * 1000))


def dropped(segment: object) -> SealedError:
    """Error of a loglet that has been dropped."""
    return SealedError(f"loglet {segment} has been dropped")
