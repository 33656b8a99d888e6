"""A replica's part in elections: its role, term and vote.

Roles and their changes are in `transitions.py`. Members that do not vote are LEARNER; a replica that is no member is
NON_PARTICIPANT: it answers from what it has. One that was removed (a *tombstone*) still votes by its term, vote and last record: a
candidate that does not know of the removal, or whose log lacks it, may need that vote. It never stands, and takes no records.
`election.py` has the rules.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OverloadedError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_loglets.raft.core.effects import RaftAnswer, RaftEffect, RaftSend, Ticket
from virtuallog_loglets.raft.core.election import ELECTION_TICKS, Campaign, Chance, is_up_to_date
from virtuallog_loglets.raft.core.journal import Journal
from virtuallog_loglets.raft.core.outbox import RaftOutbox
from virtuallog_loglets.raft.core.records import RecordKind
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.transitions import ROLES, RUN_STATES, RaftRole, RunState
from virtuallog_loglets.raft.messages import NO_NODE, RequestVote, StandNow, TransferAnswer, VoteAnswer

SEALERS_MAX: Final = 64
"""Most callers that wait for one forced election."""
TERM_RAISE_MAX: Final = 1 << 32
"""Most that a term may exceed the own one. It admits a replica that was away for years of elections. The highest term that
can be stored, after which none could be elected, stays out of reach."""

NO_CAMPAIGN: Final = 0
"""Number of a question for votes that no campaign counts."""


@attrs.define(eq=False)
class Voter:
    """Elections of one replica. `RaftReplica` leads, and hears from leaders."""

    segment: SegmentId
    node: NodeId
    state: ReplicaState
    random: Chance
    limits: RaftLimits = attrs.field(factory=RaftLimits)
    role: RaftRole = attrs.field(default=RaftRole.FOLLOWER, init=False)
    leader: NodeId = attrs.field(default=NO_NODE, init=False)
    """Leader of the present term, as far as this replica knows."""
    campaign: Campaign | None = attrs.field(default=None, init=False)
    outbox: RaftOutbox = attrs.field(init=False)
    journal: Journal = attrs.field(init=False)
    lacks_room: bool = attrs.field(default=False, init=False)
    """Set by the owner: True if the disk has no room for batches. Then this replica stands later than others."""
    run_state: RunState = attrs.field(default=RunState.BOOTSTRAPPING, init=False)
    """RUNNING once a leader of the present term is known to work."""
    _heard: int = attrs.field(default=-ELECTION_TICKS, init=False)
    """Tick of the last message of a leader."""
    _patience: int = attrs.field(default=0, init=False)
    """Ticks without a leader before this replica stands."""
    _deadline: int = attrs.field(default=0, init=False)
    """Tick at which this replica stands, unless it hears from a leader."""
    _campaigns: int = attrs.field(default=0, init=False)
    """Campaigns so far."""
    _ballot: int = attrs.field(default=0, init=False)
    """Number of the write with the own vote of the campaign."""
    _is_awake: bool = attrs.field(default=False, init=False)
    """True if this replica is to stand though its log is sealed: another one does not know that yet."""
    _sealers: list[Ticket] = attrs.field(factory=list, init=False)
    """Callers for whom this replica stands, to seal."""

    def __attrs_post_init__(self) -> None:
        self.outbox = RaftOutbox(self.segment)
        self.journal = Journal(self.state, self.outbox)
        self._follow(NO_NODE)
        self._draw_deadline()

    @property
    def ticks(self) -> int:
        """Ticks since the start."""
        return self.journal.now

    @property
    def is_stalled(self) -> bool:
        """True if its disk has stood still for an election timeout."""
        return self.outbox.has_waited(ELECTION_TICKS, self.ticks)

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """True if the log is sealed and nothing is left to do: no tick is needed."""

    @property
    def _is_led(self) -> bool:
        """True if a leader works, as far as this replica knows. A sealed log needs none, and at rest no leader is heard."""
        if self.role is RaftRole.LEADER:
            return not self.is_at_rest
        has_heard = self.leader != NO_NODE and self.ticks - self._heard < ELECTION_TICKS
        return has_heard and not self.state.is_sealed

    def _retire(self) -> None:
        """Become a tombstone, for good."""
        if not self.state.is_removed:
            self.state.is_removed = True
            self.journal.save()
            self._step_down("it was removed from the log")

    @abstractmethod
    def _lead(self, first: RecordKind | None) -> None:
        """Lead the present term, beginning with a record of this kind; None if nothing is older than the term."""

    @abstractmethod
    def _end_leading(self, reason: str) -> None:
        """Lead no longer, if it does."""

    # -- requests and answers -------------------------------------------------------------------------------------

    def stand(self) -> list[RaftEffect]:
        """Stand for election now, unless it leads: the operator, or a leader that is gone, asks for it."""
        if self.role is not RaftRole.LEADER and self.campaign is None:
            self._stand(pre=True)
        return self.outbox.take()

    def vote_requested(self, request: RequestVote, ticket: Ticket) -> list[RaftEffect]:
        """Vote, or say why not (R2, R3, R4)."""
        state = self.state
        if self._refuses_term(request.term, ticket):
            return self.outbox.take()
        if state.is_copy:
            self.outbox.vouch(RaftAnswer(ticket, VoteAnswer(granted=False, term=min(state.term, request.term))))
            return self.outbox.take()
        if state.is_sealed:
            self._wake(request.candidate)
        known = state.log.configuration_at(state.commit)
        retired = 0 if request.candidate in known.members else known.index
        if request.term < state.term or (self._is_led and not request.forced and request.candidate != self.leader):
            self.outbox.vouch(RaftAnswer(ticket, VoteAnswer(granted=False, term=state.term, retired=retired)))
            return self.outbox.take()
        if request.term > state.term and not request.pre:
            self._become_follower(request.term, NO_NODE)
        free = request.pre and request.term > state.term
        free = free or (request.term == state.term and self._may_vote_for(request.candidate))
        granted = free and is_up_to_date(
            request.last_term, request.last_index, state.log.last_term, state.log.last_index
        )
        if granted and not request.pre:
            if state.vote != request.candidate:
                self.journal.set_term(state.term, request.candidate)
            self._draw_deadline()
        term = request.term if granted else state.term
        self.outbox.vouch(RaftAnswer(ticket, VoteAnswer(granted=granted, term=term, retired=retired)))
        return self.outbox.take()

    def vote_answered(self, voter: NodeId, number: int, answer: VoteAnswer | None) -> list[RaftEffect]:
        """Take in the answer of a voter; None if there was none in time."""
        if answer is not None and self._is_absurd(answer.term):
            answer = None
        if answer is not None and answer.retired > self.state.log.configuration.index:
            self._retire()
            return self.outbox.take()
        if answer is not None and not answer.granted and answer.term > self.state.term:
            self._become_follower(answer.term, NO_NODE)
        campaign = self.campaign
        if campaign is not None and campaign.number == number:
            campaign.count(voter, answer)
            self._judge(campaign)
        return self.outbox.take()

    def stand_now(self, request: StandNow, ticket: Ticket) -> list[RaftEffect]:
        """Stand for election at the leader's wish, whether or not it still leads."""
        if request.term == self.state.term and self.role is not RaftRole.LEADER and self._may_stand():
            self._stand(pre=False, forced=True)
        self.outbox.vouch(RaftAnswer(ticket, TransferAnswer(term=self.state.term)))
        return self.outbox.take()

    def _wake(self, candidate: NodeId) -> None:
        """Stand in a while, to tell a candidate which lacks the SEAL, or does not know it to be committed."""
        if not self._is_awake:
            self._is_awake = True
            self._draw_deadline()

    def _is_absurd(self, term: int) -> bool:
        """True if no elections can have led to this term."""
        return term > self.state.term + TERM_RAISE_MAX

    def _refuses_term(self, term: int, ticket: Ticket) -> bool:
        """True if a request of this term is refused, as the term is absurd."""
        if not self._is_absurd(term):
            return False
        reason = f"term {term} is more than {TERM_RAISE_MAX} above {self.state.term}, the one known here"
        self.outbox.now(RaftAnswer(ticket, OverloadedError(reason)))
        return True

    def _may_vote_for(self, candidate: NodeId) -> bool:
        return self.state.vote == candidate or (self.state.vote == NO_NODE and self.leader == NO_NODE)

    def _may_stand(self) -> bool:
        """True if this replica may be elected.

        A voter whose removal is in its log, and not known to be committed, may be: it has a record that the others may lack,
        and without which it votes for none of them (Ongaro's thesis, 4.2.2).
        """
        log = self.state.log
        newest = log.configuration
        is_voter = newest.is_voter(self.node)
        if newest.index > self.state.commit:
            is_voter = is_voter or log.configuration_at(newest.index - 1).is_voter(self.node)
        return is_voter and not (self.state.is_copy or self.state.is_removed or self.is_stalled)

    def _stand(self, *, pre: bool, forced: bool = False) -> None:
        """Begin a campaign, in place of one that is on."""
        self._is_awake = False
        self._draw_deadline()
        if not self._may_stand():
            return
        state = self.state
        self._become(RaftRole.CANDIDATE)
        self._progress(RunState.CONFIGURING)
        self.leader = NO_NODE
        self._campaigns += 1
        if not pre:
            self.journal.set_term(state.term + 1, self.node)
            self._ballot = self.outbox.newest_write
        term = state.term + 1 if pre else state.term
        campaign = self.campaign = Campaign(term, pre, forced, self._campaigns, state.log.configuration)
        if pre:
            campaign.granted.add(self.node)
        self._ask(term, campaign.number, pre=pre, forced=forced)
        self._judge(campaign)

    def _ask(self, term: int, number: int, *, pre: bool, forced: bool) -> None:
        log = self.state.log
        request = RequestVote(
            segment=self.segment, term=term, candidate=self.node, last_index=log.last_index, last_term=log.last_term,
            pre=pre, forced=forced,
        )  # fmt: skip
        peers = [peer for peer in log.configuration.voters if peer != self.node]
        self.outbox.now(*(RaftSend(peer, request, number) for peer in peers))

    def _call_for_leader(self) -> None:
        """Ask the voters as a candidate does, for no answer that counts: those of a log that is sealed and at rest wake by that."""
        self._draw_deadline()
        self._ask(self.state.term + 1, NO_CAMPAIGN, pre=True, forced=False)

    def _judge(self, campaign: Campaign) -> None:
        if campaign.is_won and campaign.pre:
            self._stand(pre=False, forced=campaign.forced)
        elif campaign.is_won and self.node in campaign.granted:  # durable: no term is led twice
            self._lead(first=RecordKind.SEAL if self._sealers and not self.state.log.seal else RecordKind.NOOP)
        elif campaign.is_lost:
            self._follow(NO_NODE)
            self._dismiss_sealers("the election for the seal was lost")

    def _become_follower(self, term: int, leader: NodeId) -> None:
        """Follow in a term that is not older than the own one."""
        if term > self.state.term:
            self.journal.set_term(term, NO_NODE)
        self._end_leading("another replica was elected")
        self._follow(leader)

    def _follow(self, leader: NodeId) -> None:
        self._progress(RunState.CONFIGURING)
        self.campaign, self.leader, self._is_awake = None, leader, False
        self._follow_configuration()

    def _step_down(self, reason: str) -> None:
        self._end_leading(reason)
        self._follow(NO_NODE)
        self._draw_deadline()

    def stand_to_seal(self, ticket: Ticket) -> None:
        """Stand for election even against a leader that lives, to commit a SEAL; the ticket is answered then."""
        if len(self._sealers) >= SEALERS_MAX:
            self.outbox.now(
                RaftAnswer(ticket, OverloadedError(f"{SEALERS_MAX} callers have this replica stand already"))
            )
        elif not self._may_stand():
            self.outbox.now(RaftAnswer(ticket, UnavailableError("this replica cannot stand for election now")))
        else:
            self._sealers.append(ticket)
            if self.campaign is None or not self.campaign.forced:
                self._stand(pre=False, forced=True)

    def _dismiss_sealers(self, reason: str) -> None:
        self.outbox.now(*(RaftAnswer(ticket, UnavailableError(reason)) for ticket in self._sealers))
        self._sealers.clear()

    def _follow_configuration(self) -> None:
        """Take the role that the members in force give to a replica which does not lead."""
        configuration = self.state.log.configuration
        if self.node not in configuration.members or self.state.is_copy or self.state.is_removed:
            self._become(RaftRole.NON_PARTICIPANT)
        else:
            self._become(RaftRole.FOLLOWER if configuration.is_voter(self.node) else RaftRole.LEARNER)

    def _become(self, role: RaftRole) -> None:
        self.role = ROLES.checked(self.role, role)

    def _progress(self, state: RunState) -> None:
        self.run_state = RUN_STATES.checked(self.run_state, state)

    def _hear_leader(self) -> None:
        self._heard, self._deadline = self.ticks, self.ticks + self._patience

    def _draw_deadline(self) -> None:
        ticks = self.random.randint(ELECTION_TICKS, 2 * ELECTION_TICKS - 1)
        self._patience = ticks + (ELECTION_TICKS if self.lacks_room else 0)
        self._deadline = self.ticks + self._patience
