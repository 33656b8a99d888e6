"""The MetaStore as a system to explore: acceptors of the register, and proposers that put.

Acceptors come first, then proposers; the names are their places, from 1 on. All that an acceptor does is durable when it answers, so
a restart of one is nothing that could be told apart from late messages. A proposer may give up at any time and begin anew
with a higher ballot, for the same put.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any, ClassVar, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.acceptor import Acceptor, Reply
from virtuallog_metastore.core.proposer import Proposer
from virtuallog_metastore.core.rounds import Chosen, Effect, Finish, Found, Preempted, Send
from virtuallog_metastore.messages import (
    Accept,
    Ballot,
    Decision,
    Learn,
    Learned,
    Prepare,
    Proposal,
    Receipt,
    Standing,
    genesis,
)
from virtuallog_simulation.explorer.local_states import Cell, Event, LocalStep, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.protocol import Move, Permutation, Protocol, State, describe_bounds

Winner: TypeAlias = tuple[int, tuple[int, ...]]
"""Attempt that decided a version, and the members from then on."""


@attrs.frozen(kw_only=True)
class MetastoreBounds:
    """Limits of one configuration."""

    members: tuple[int, ...] = (1, 2, 3)
    """Acceptors of the first version."""
    later_members: tuple[int, ...] = ()
    """Acceptors that each put names for the versions after it; the first ones if empty."""
    proposers: int = 2
    ballots: int = 1
    """Ballots of each proposer."""
    versions: int = 1
    in_flight: int = 1
    duplicates: bool = False

    @property
    def acceptors(self) -> int:
        return max(*self.members, *self.later_members, 0)


@attrs.frozen
class MetastoreView:
    """Part of a process that moves and checks look at."""

    name: int
    known: int
    """Newest version that it knows."""
    decision: Winner
    accepted: tuple[Ballot, int, tuple[int, ...]] | None = None
    """Ballot, attempt and members of what an acceptor has accepted."""
    promised: Ballot | None = None
    ballots: int = 0
    """Ballots that a proposer has begun with."""
    number: int = 0
    """Number of the round that a proposer is in; 0 between rounds."""


@attrs.define(eq=False)
class AcceptorCell(Cell):
    """One acceptor."""

    node: int
    acceptor: Acceptor

    @property
    def name(self) -> int:
        return self.node

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        message: MessageInFlight = event[1]
        (outcome,) = [each.outcome for each in self.acceptor.step(message.body) if isinstance(each, Reply)]
        if isinstance(outcome, VirtualLogError):
            raise outcome  # no proposer here sends what is refused
        return [Sent(message.sender, message.call, outcome, f"{_answer_text(outcome)} #{message.call}")], []


@attrs.define(eq=False)
class ProposerCell(Cell):
    """One client that puts: its rounds, one after the other."""

    NO_STATE: ClassVar[frozenset[str]] = frozenset({"later_members"})

    node: int
    known: Decision
    later_members: tuple[NodeId, ...]
    round: Proposer | None = None
    ballots: int = 0
    tried: int = 0
    """Highest round that was used or has refused a ballot."""

    @property
    def name(self) -> int:
        return self.node

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        match event:
            case ("begin",):
                self.ballots += 1
                self.tried += 1
                ballot = Ballot(round=self.tried, node=self.node, boot=0, nonce=self.ballots)
                attempt = 100 * self.node + self.known.version + 1
                self.round = Proposer(self.known, ballot, self.known.next(b"", self.later_members or None, attempt))
                return self._perform(self.round.start())
            case ("take", MessageInFlight() as message):
                if self.round is None or message.call != self.ballots:
                    return [], []
                return self._perform(self.round.step(NodeId(message.sender), message.body))
        raise TypeError(event)

    def _perform(self, effects: list[Effect]) -> tuple[list[Sent], list[Any]]:
        sent: list[Sent] = []
        told: list[Any] = []
        for effect in effects:
            match effect:
                case Send(nodes, request):
                    sent += [Sent(node, self.ballots, request, f"{_text(request)} #{self.ballots}") for node in nodes]
                case Finish(outcome):
                    self.round = None
                    if isinstance(outcome, Preempted):
                        self.tried = max(self.tried, outcome.promised.round)
                    elif isinstance(outcome, Chosen | Found):
                        self.known, self.tried = outcome.decision, 0
                        told.append(("decided", outcome.decision))
        return sent, told


@attrs.define(eq=False)
class MetastoreProtocol(Protocol[MetastoreView]):
    """Adapter of the core of the MetaStore. A history is the winner of each version so far."""

    bounds: MetastoreBounds

    @classmethod
    def of(cls, bounds: MetastoreBounds) -> MetastoreProtocol:
        """The protocol within these bounds."""
        return cls(bounds.in_flight, bounds)

    @property
    def bounds_text(self) -> str:
        return describe_bounds(self.bounds)

    def begin(self) -> State:
        bounds, first = self.bounds, genesis(tuple(map(NodeId, self.bounds.members)))
        nodes = range(1, bounds.acceptors + 1)
        cells: list[Cell] = [AcceptorCell(node, Acceptor(first if node in bounds.members else None)) for node in nodes]
        later = tuple(map(NodeId, bounds.later_members))
        cells += [ProposerCell(bounds.acceptors + number + 1, first, later) for number in range(bounds.proposers)]
        self._first = tuple(self.table.add(cell) for cell in cells)
        return self._first, (), self.history((_winner(first),))

    def look(self, cell: AcceptorCell | ProposerCell) -> MetastoreView:
        if isinstance(cell, ProposerCell):
            return MetastoreView(
                cell.name, cell.known.version, _winner(cell.known), ballots=cell.ballots,
                number=0 if cell.round is None else cell.ballots,
            )  # fmt: skip
        acceptor, vote = cell.acceptor, cell.acceptor.accepted
        accepted = None if vote is None else (vote.ballot, vote.proposal.attempt, vote.proposal.members)
        decision = (0, ()) if acceptor.decision is None else _winner(acceptor.decision)
        return MetastoreView(cell.name, acceptor.known, decision, accepted, acceptor.promised)

    def moves(self, state: State) -> Iterator[Move]:
        processes, flying, _ = state
        for at in range(self.bounds.acceptors, len(processes)):
            view = self.table.views[processes[at]]
            if view.ballots < self.bounds.ballots * self.bounds.versions and view.known < self.bounds.versions:
                yield Move(at, ("begin",), f"{view.name} puts version {view.known + 1}")
        for number in flying:
            message = self.messages.messages[number]
            yield Move(message.receiver - 1, ("take", message), message=message)
            if self.bounds.duplicates and isinstance(message.body, Prepare | Accept | Learn):
                yield Move(message.receiver - 1, ("take", message), message=message, stays=True)

    def is_awaited(self, message: MessageInFlight, processes: tuple[int, ...]) -> bool:
        if message.receiver <= self.bounds.acceptors:
            return True
        return bool(message.call == self.table.views[processes[message.receiver - 1]].number)

    def remember(self, state: State, move: Move, step: LocalStep, processes: tuple[int, ...]) -> tuple[int, str | None]:
        winners: tuple[Winner, ...] = self.histories[state[2]]
        after = winners
        views = [self.table.views[each] for each in processes[: self.bounds.acceptors]]
        slot = len(after)
        members = after[-1][1]
        votes = [view.accepted for view in views if view.name in members and view.known == slot - 1 and view.accepted]
        for ballot, attempt, later in votes:
            if 2 * sum(vote[0] == ballot for vote in votes) > len(members):
                after = (*after, (attempt, later))
                break
        for _, decision in step.told:
            if len(after) == decision.version:  # its votes were never there all at once
                after = (*after, _winner(decision))
            if after[decision.version] != _winner(decision):
                return state[
                    2
                ], f"version {decision.version} was told to be {_winner(decision)}, and is {after[decision.version]}"
        return (state[2] if after is winners else self.history(after)), None

    def compare(self, before: MetastoreView, event: Event, after: MetastoreView, told: tuple[Any, ...]) -> str | None:
        if after.known < before.known:
            return f"{before.name} forgets a decision"
        if after.promised is None or before.promised is None or after.known > before.known:
            return None
        if after.promised < before.promised:
            return f"the promise of {before.name} goes back"
        if before.accepted is not None and (after.accepted is None or after.accepted[0] < before.accepted[0]):
            return f"{before.name} forgets what it has accepted"
        return None

    def check(self, state: State) -> str | None:
        processes, _, number = state
        winners: tuple[Winner, ...] = self.histories[number]
        views = [self.table.views[each] for each in processes]
        for view in views:
            if view.known >= 0 and (view.known >= len(winners) or winners[view.known] != view.decision):
                return f"{view.name} knows {view.decision} of version {view.known}, and {winners} were decided"
        acceptors = views[: self.bounds.acceptors]
        for slot in range(1, len(winners)):
            members = winners[slot - 1][1]
            votes = [v.accepted for v in acceptors if v.name in members and v.known == slot - 1 and v.accepted]
            for ballot, attempt, _ in votes:
                if 2 * sum(vote[0] == ballot for vote in votes) > len(members) and attempt != winners[slot][0]:
                    return f"version {slot} is decided twice: by attempts {winners[slot][0]} and {attempt}"
        return None

    # -- names ----------------------------------------------------------------------------------------------------

    def permutations(self) -> tuple[Permutation, ...]:
        """Orders of the acceptors that leave each set of members as it is. Ballots name proposers, in their order."""
        bounds = self.bounds
        rest = tuple(range(bounds.acceptors, bounds.acceptors + bounds.proposers))
        found = []
        for order in permutations(range(bounds.acceptors)):
            sets = [{order[node - 1] + 1 for node in members} for members in (bounds.members, bounds.later_members)]
            if sets == [set(bounds.members), set(bounds.later_members)]:
                found.append(order + rest)
        return tuple(found)


def _winner(decision: Decision) -> Winner:
    return decision.proposal.attempt, decision.members


def _proposal_text(proposal: Proposal) -> str:
    earlier = "".join(f" after {attempt}" for attempt in proposal.earlier[-1:])
    return f"{proposal.attempt}{earlier}"


def _ballot_text(ballot: Ballot) -> str:
    return f"{ballot.round}.{ballot.node}.{ballot.nonce}"


def _text(request: Any) -> str:
    match request:
        case Prepare(slot=slot, ballot=ballot, after=after):
            return f"prepare {slot} with {_ballot_text(ballot)} after {after:x}"
        case Accept(slot=slot, ballot=ballot, proposal=proposal, after=after):
            return f"accept {slot} with {_ballot_text(ballot)} after {after:x}: attempt {_proposal_text(proposal)}"
        case Learn(decision):
            return f"learn {decision.version}: attempt {_proposal_text(decision.proposal)}"
    raise TypeError(request)


def _answer_text(answer: Standing | Receipt | Learned) -> str:
    if isinstance(answer, Learned):
        return f"knows {answer.known}"
    decision = "" if answer.decision is None else f", decided {_proposal_text(answer.decision.proposal)}"
    vote = answer.accepted if isinstance(answer, Standing) else None
    accepted = "" if vote is None else f", accepted {_proposal_text(vote.proposal)} with {_ballot_text(vote.ballot)}"
    kind = "stands" if isinstance(answer, Standing) else "has voted"
    return f"{kind}, knows {answer.known}, promised {_ballot_text(answer.promised)}{decision}{accepted}"
