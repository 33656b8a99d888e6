"""One Raft replica in an exploration: the product's core, and its disk as a queue of writes and what has been synced.

The disk is kept as `DurableReplicas`, the fold with which a node replays its write-ahead log; each synced change goes through
its encoding. So a crash begins with the state that a replay of that log ends in.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_loglets.raft.core import records, wal_records
from virtuallog_loglets.raft.core.effects import RaftAnswer, RaftEffect, RaftFail, RaftPersist, RaftSend
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.replica_requests import ReplicaRequests
from virtuallog_loglets.raft.core.replica_state import LogBase, ReplicaState
from virtuallog_loglets.raft.core.transitions import RunState
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.raft.messages import (
    AppendRecords,
    LeaderReply,
    RecordsAppended,
    RequestVote,
    StandNow,
    VoteAnswer,
)
from virtuallog_loglets.wal.core.record import Address
from virtuallog_simulation.explorer.batches import SEGMENT, batch_of
from virtuallog_simulation.explorer.canonical_form import register_value
from virtuallog_simulation.explorer.local_states import Cell, Event, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight

NO_CALL: Final = (0, 0)
"""Call whose caller does not wait any more."""
_FLIGHT_NUMBERS: Final = 1000
"""Above all numbers that messages to one peer get here."""

register_value(RaftRecord, lambda record: record.blob)


@attrs.frozen
class _NoChance:
    """Source of the deadlines of elections, which no step here looks at."""

    def randint(self, a: int, b: int) -> int:
        return a


@attrs.define
class _Numbers(Iterator[int]):
    """Numbers of the messages of one step."""

    last: int = _FLIGHT_NUMBERS

    def __next__(self) -> int:
        self.last += 1
        return self.last


@attrs.frozen
class VoteCall:
    """A question for a vote, or the answer."""

    request: RequestVote | None
    answer: VoteAnswer | None = None


@attrs.frozen
class RecordsCall:
    """Records on their way, or the answer; of an answered request only the term matters."""

    request: AppendRecords | None
    term: int
    answer: RecordsAppended | None = None


@attrs.define(eq=False)
class RaftCell(Cell):
    """One replica."""

    NO_STATE: ClassVar[frozenset[str]] = frozenset({"is_eager", "limits"})

    replica: RaftReplica
    requests: ReplicaRequests
    disk: DurableReplicas | None
    """Synced changes; None if no crash is explored."""
    is_eager: bool
    """True if each write is synced before the next step."""
    limits: RaftLimits
    incarnation: int = 0
    """Crashes so far."""

    @classmethod
    def begin(
        cls,
        node: int,
        members: Configuration,
        *,
        first_leader: int,
        is_eager: bool,
        keeps_disk: bool,
        limits: RaftLimits,
    ) -> RaftCell:
        """A new replica whose first state is on its disk."""
        state = ReplicaState.begin(members, NodeId(first_leader))
        replica = RaftReplica(SEGMENT, NodeId(node), state, _NoChance(), limits)
        cell = cls(replica, ReplicaRequests(replica), DurableReplicas() if keeps_disk else None, is_eager, limits)
        cell._perform(replica.found(), [], [])
        cell._sync([], [])
        cell._tidy()
        return cell

    @property
    def name(self) -> int:
        return self.replica.node

    # -- steps ----------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        sent: list[Sent] = []
        told: list[Any] = []
        if event[0] == "crash":
            self._crash()
        elif event[0] == "sync":
            self._sync(sent, told, 1)
        elif event[0] == "beat":
            self._beat(event[1], sent, told)
        else:
            self._perform(self._effects(event), sent, told)
        if self.is_eager:
            self._sync(sent, told)
        self._tidy()
        return sent, told

    def _effects(self, event: Event) -> list[RaftEffect]:
        replica, requests = self.replica, self.requests
        match event:
            case ("take", MessageInFlight() as message):
                return self._receive(message)
            case ("lead",):
                return replica.lead_first_term()
            case ("stand",):
                term = replica.state.term
                return replica.stand_now(StandNow(segment=SEGMENT, term=term, leader=replica.leader), None)
            case ("ask",):
                return replica.stand()
            case ("append", number):
                effects = requests.append(batch_of(number), event, 0, opens=True, expected_tail=-1)
                while replica.has_work:
                    effects += requests.turn(0)
                return effects
            case ("seal", stand):
                return requests.seal(event, stand=stand)
            case ("read", _, _):
                return requests.check_tail(event)
            case ("trim", offset):
                return requests.trim(offset, event)
        raise TypeError(event)

    def _receive(self, message: MessageInFlight) -> list[RaftEffect]:
        replica, body, call = self.replica, message.body, message.call
        sender = NodeId(message.sender)
        match body:
            case VoteCall(RequestVote() as question, _):
                return replica.vote_requested(question, ("vote", message.sender, call, None))
            case RecordsCall(AppendRecords() as request, term, _):
                return replica.records_requested(request, ("records", message.sender, call, term))
            case VoteCall(None, VoteAnswer() as vote):
                return replica.vote_answered(sender, call[1], vote)
            case RecordsCall(None, term, RecordsAppended() as reply):
                effects = replica.records_answered(sender, call[1], term, reply)
                return effects + self.requests.after_answers()
        raise TypeError(body)

    def _beat(self, lost: tuple[tuple[int, int], ...], sent: list[Sent], told: list[Any]) -> None:
        """Send heartbeats, after it was noticed that messages have had no answer."""
        replica, leading = self.replica, self.replica.leading
        assert leading is not None
        for peer, number in lost:
            self._perform(replica.records_answered(NodeId(peer), number, leading.term, None), sent, told)
        beats: list[RaftEffect] = [*leading.replicator.beat(replica.state.commit, since=0)]
        self._perform(beats, sent, told)

    def _crash(self) -> None:
        assert self.disk is not None
        replica = RaftReplica(SEGMENT, self.replica.node, self.disk.states[SEGMENT], _NoChance(), self.limits)
        self.replica, self.requests = replica, ReplicaRequests(replica)
        self.incarnation += 1
        self.disk = DurableReplicas(states={SEGMENT: _copy_of(replica.state)})

    # -- effects --------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[RaftEffect], sent: list[Sent], told: list[Any]) -> None:
        for effect in effects:
            match effect:
                case RaftSend(peer, request, number, stored):
                    assert not stored, "records of these sizes stay in memory"
                    sent += self._send(peer, request, number)
                case RaftAnswer(ticket, outcome):
                    self._answer(ticket, outcome, sent, told)
                case RaftFail(error):
                    raise error
                case RaftPersist():
                    pass  # it is the last of the outbox, where `_sync` finds it

    def _send(self, peer: NodeId, request: RequestVote | AppendRecords | StandNow, number: int) -> list[Sent]:
        if isinstance(request, RequestVote):
            body: Any = VoteCall(request)
            asked = self.incarnation, _campaign_number(request)
            return [Sent(peer, asked, body, f"{_vote_text(request)}{_call_text(asked)}")]
        if isinstance(request, StandNow):
            raise TypeError("transfers of the leadership are not explored")
        leading = self.replica.leading
        call: tuple[int, int] = NO_CALL
        if leading is not None and leading.term == request.term:
            flights = leading.replicator.peers[peer].flights
            flight = flights.pop(number)
            free = next(n for n in range(1, _FLIGHT_NUMBERS) if n not in flights)
            flights[free] = flight
            call = (self.incarnation, free)
        return [Sent(peer, call, RecordsCall(request, request.term), f"{_records_text(request)}{_call_text(call)}")]

    def _answer(self, ticket: Any, outcome: Any, sent: list[Sent], told: list[Any]) -> None:
        match ticket:
            case None:
                pass
            case (kind, sender, call, term) if kind in ("vote", "records"):
                if isinstance(outcome, VirtualLogError):
                    raise outcome  # no correct peer asks for what is refused
                if call != NO_CALL:
                    body = VoteCall(None, outcome) if kind == "vote" else RecordsCall(None, term, outcome)
                    sent.append(Sent(sender, call, body, f"{_answer_text(outcome, term)}{_call_text(call)}"))
            case _:
                if isinstance(outcome, LeaderReply | VirtualLogError):
                    told.append((ticket, outcome))

    def _sync(self, sent: list[Sent], told: list[Any], count: int = 1000) -> None:
        """Have the disk finish its oldest writes."""
        pending = self.replica.outbox._pending
        while pending and count:
            count -= 1
            write = pending[0][0]
            addresses = []
            for change in write.changes:
                address = Address(change.index if isinstance(change, RaftRecord) else 1)
                addresses.append(address)
                if self.disk is not None:
                    self.disk.replay(address, wal_records.encode(SEGMENT, change))
                    self.disk.newest_address = Address(0)
                    self.disk._needs.clear()
            self._perform(self.replica.persisted(write, addresses), sent, told)

    # -- numbers --------------------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Make small what only counts: the same again is then the same state."""
        replica = self.replica
        outbox, campaign = replica.outbox, replica.campaign
        done = outbox._pending[0][0].number - 1 if outbox._pending else outbox.newest_write
        outbox.newest_write -= done
        for number, (write, _) in enumerate(outbox._pending):
            write.number = number + 1
        for unsynced in replica.state.log._unsynced:
            unsynced.write -= done
        replica._ballot = max(replica._ballot - done, 0) if campaign is not None else 0
        replica._campaigns = replica._deadline = replica._patience = replica._heard = 0
        replica.run_state, replica._is_awake = RunState.CONFIGURING, False
        if campaign is not None:
            campaign.number = 2 * campaign.term - campaign.pre
        leading = replica.leading
        if leading is None:
            return
        leading.replicator._numbers = _Numbers()
        for progress in leading.replicator.peers.values():
            for flight in progress.flights.values():
                flight.epoch = 1 if flight.epoch == progress.epoch else 0
            progress.epoch, progress.commit_sent, progress.commit_known, progress.heard = 1, 0, 0, 0


def _copy_of(state: ReplicaState) -> ReplicaState:
    """State that a replay of a WAL with exactly this state ends in."""
    import pickle

    copy: ReplicaState = pickle.loads(pickle.dumps(state, 5))
    return copy


def _campaign_number(request: RequestVote) -> int:
    return 2 * request.term - request.pre


def _call_text(call: tuple[int, int]) -> str:
    if call == NO_CALL:
        return ", unasked"
    incarnation, number = call
    return f" #{number}" + "'" * incarnation


def _vote_text(request: RequestVote) -> str:
    kind = "would vote" if request.pre else "vote"
    return f"{kind}? term {request.term}, last {request.last_index} of term {request.last_term}"


def _answer_text(answer: VoteAnswer | RecordsAppended, term: int) -> str:
    if isinstance(answer, VoteAnswer):
        return f"{'granted' if answer.granted else 'refused'}, term {answer.term}"
    what = "has" if answer.accepted else f"differs; term {answer.hint_term} at"
    return f"{what} {answer.index}, term {answer.term}, asked in {term}"


def _records_text(request: AppendRecords) -> str:
    what = _base_text(request.base) if request.base else " ".join(map(_record_text, request.records)) or "beat"
    return (
        f"{what} behind {request.previous_index} of term {request.previous_term},"
        f" commit {request.commit}, term {request.term}"
    )


def _base_text(blob: bytes) -> str:
    base = LogBase.decode_untrusted(blob)
    digest = blake2b(blob, digest_size=3).hexdigest()
    return f"[base {digest} at {base.point.offset}, trim {base.trim}, seal {base.seal}]"


def _record_text(blob: bytes) -> str:
    """Kind, term and commit index of a record, and the number of its batch."""
    record = records.parse_untrusted(blob)
    what = record.kind.name
    if record.kind is RecordKind.BATCHES:
        what = "".join(f"batch {payload.decode()}" for each in record.placed() for payload in each.batch.payloads)
    return f"[{what} at {record.first}, term {record.term}, commit {record.commit}]"
