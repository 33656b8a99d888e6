"""Raft as a system to explore: replicas of one log, clients that append, read and seal, crashes.

Bounds that are not stated by a configuration, for all of them:
* an election begins whenever a replica likes, and no voter refuses since it hears a leader (`forced`), unless pre-votes are explored;
* a message without an answer is noticed by its leader at the next heartbeat, once neither it nor its answer is under way;
* a question for a vote without an answer is never noticed: the candidate stands again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_loglets.raft.core import records
from virtuallog_loglets.raft.core.effects import RaftAnswer
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import AppendRecords
from virtuallog_simulation.explorer.local_states import Event, LocalStep
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.protocol import Move, Names, Permutation, Protocol, State, describe_bounds
from virtuallog_simulation.explorer.raft import checks
from virtuallog_simulation.explorer.raft.cell import NO_CALL, RaftCell, RecordsCall, VoteCall
from virtuallog_simulation.explorer.raft.state import RaftBounds, RaftHistory, RaftView, RecordId, RecordTable


@attrs.define(eq=False)
class RaftProtocol(Protocol[RaftView]):
    """Adapter of the Raft core."""

    bounds: RaftBounds
    records: RecordTable = attrs.field(factory=RecordTable, init=False)
    _pairs: dict[tuple[int, int], str | None] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, bounds: RaftBounds) -> RaftProtocol:
        """The protocol within these bounds."""
        return cls(bounds.in_flight, bounds)

    # -- states ---------------------------------------------------------------------------------------------------

    def begin(self) -> State:
        bounds = self.bounds
        members = Configuration.of_voters(tuple(NodeId(n + 1) for n in range(bounds.nodes)))
        keeps = bounds.crashes > 0 or bounds.queued_disk
        limits = RaftLimits(message_bytes=1) if bounds.single_records else RaftLimits()
        cells = [
            RaftCell.begin(
                n + 1,
                members,
                first_leader=bounds.first_leader,
                is_eager=not bounds.queued_disk,
                keeps_disk=keeps,
                limits=limits,
            )
            for n in range(bounds.nodes)
        ]
        self._first = tuple(self.table.add(cell) for cell in cells)
        processes, leaders = list(self._first), [0] * (bounds.terms + 1)
        if bounds.first_leader:
            leaders[1] = bounds.first_leader
            at = bounds.first_leader - 1
            processes[at] = self.table.step(processes[at], ("lead",)).after
        return tuple(processes), (), self.history(RaftHistory(tuple(leaders), ()))

    def look(self, cell: RaftCell) -> RaftView:
        replica, leading = cell.replica, cell.replica.leading
        state, log = replica.state, replica.state.log
        ids: list[RecordId] = []
        for index in range(log.base.index + 1, log.last_index + 1):
            record = log.kept(index)
            assert record is not None
            ids.append(self.records.add(record))
        peers = {} if leading is None else leading.replicator.peers
        vouched = [effect for write, _ in replica.outbox._pending for effect in write.after]
        tickets = [effect.ticket for effect in vouched if isinstance(effect, RaftAnswer)]
        owed = [(t[1], t[3], *t[2]) for t in tickets if t is not None and t[0] == "records"]
        disk = None if cell.disk is None else next(iter(cell.disk.states.values()))
        return RaftView(
            node=cell.name, term=state.term, vote=state.vote, leads=replica.role is RaftRole.LEADER,
            may_stand=replica.role is not RaftRole.LEADER and (replica.campaign is None or not self.bounds.asks),
            commit=state.commit, base=log.base.index, records=tuple(ids),
            terms=tuple(self.records[each].term for each in ids), durable=log.durable_index,
            disk=None if disk is None else (disk.term, disk.vote),
            matches=tuple((node, progress.match) for node, progress in peers.items()),
            flights=frozenset((node, number) for node, progress in peers.items() for number in progress.flights),
            owed=frozenset(owed), writing=len(replica.outbox._pending), seal=log.seal, incarnation=cell.incarnation,
            trim=state.trim, campaign=0 if replica.campaign is None else replica.campaign.term,
        )  # fmt: skip

    @property
    def bounds_text(self) -> str:
        return describe_bounds(self.bounds)

    # -- moves ----------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        processes, flying, number = state
        bounds, history, views = self.bounds, self.histories[number], self.table.views
        messages = [self.messages.messages[each] for each in flying]
        for at, local in enumerate(processes):
            view = views[local]
            yield from self._moves_of(at, view, history)
            if view.leads:
                lost = tuple(sorted(view.flights - self._under_way(view, messages, processes)))
                yield Move(at, ("beat", lost), f"heartbeat of {view.node}")
                if bounds.late:
                    everything = tuple(sorted(view.flights))
                    if everything != lost:
                        yield Move(at, ("beat", everything), f"late heartbeat of {view.node}")
        for message in messages:
            event = ("take", message)
            yield Move(message.receiver - 1, event, message=message)
            if bounds.duplicates and _is_request(message):
                yield Move(message.receiver - 1, event, message=message, stays=True)

    def _moves_of(self, at: int, view: RaftView, history: RaftHistory) -> Iterator[Move]:
        bounds, node = self.bounds, view.node
        if view.may_stand and view.term < bounds.terms and (not bounds.standers or node in bounds.standers):
            if bounds.asks:
                yield Move(at, ("ask",), f"{node} asks for votes")
            else:
                yield Move(at, ("stand",), f"{node} stands")
            if bounds.stand_to_seal and history.seals < bounds.seals:
                yield Move(at, ("seal", True), f"{node} stands to seal")
        if view.leads:
            if history.batches < bounds.batches:
                yield Move(at, ("append", history.batches + 1), f"append {history.batches + 1} at {node}")
            if history.seals < bounds.seals:
                yield Move(at, ("seal", False), f"seal at {node}")
            if history.reads < bounds.reads:
                tail, sealed = self.records.tail_of(history)
                yield Move(at, ("read", tail, sealed), f"read the tail at {node}")
        if view.writing:
            yield Move(at, ("sync",), f"sync {node}")
        if history.crashes < bounds.crashes:
            yield Move(at, ("crash",), f"crash {node}")
        if history.trims < bounds.trims and view.trim == 0 and self.records.tail_of(history)[0]:
            yield Move(at, ("trim", 1), f"trim at {node}")

    def _under_way(
        self, view: RaftView, messages: list[MessageInFlight], processes: tuple[int, ...]
    ) -> set[tuple[int, int]]:
        """Peer and number of the records of a leader that may still be answered."""
        found: set[tuple[int, int]] = set()
        for each in messages:
            body, peer = each.body, each.receiver if each.sender == view.node else each.sender
            asker = each.sender if _is_request(each) else each.receiver
            is_records = isinstance(body, RecordsCall) and body.term == view.term
            if is_records and asker == view.node and each.call[0] == view.incarnation:
                found.add((peer, each.call[1]))
        for other in processes:
            peer_view = self.table.views[other]
            for node, term, incarnation, flight in peer_view.owed:
                if (node, term, incarnation) == (view.node, view.term, view.incarnation):
                    found.add((peer_view.node, flight))
        return found

    def arrange(self, flying: list[int], move: Move, processes: tuple[int, ...]) -> list[int]:
        if move.event[0] not in ("crash", "beat"):
            return flying
        node, views = move.process + 1, self.table.views
        if move.event[0] == "crash":
            kept = []
            for number in flying:
                message = self.messages.messages[number]
                if message.sender == node and _is_request(message):
                    kept.append(self._unasked(message).number)
                elif _is_request(message) or message.receiver != node:
                    kept.append(number)
            return sorted(set(kept))
        given_up = set(move.event[1])
        if not given_up or not self.bounds.late:
            return flying
        kept = []
        term = views[processes[move.process]].term
        for number in flying:
            message = self.messages.messages[number]
            body = message.body
            if isinstance(body, RecordsCall) and body.term == term:
                if message.receiver == node and (message.sender, message.call[1]) in given_up:
                    continue
                if message.sender == node and (message.receiver, message.call[1]) in given_up:
                    kept.append(self._unasked(message).number)
                    continue
            kept.append(number)
        return sorted(set(kept))

    def _unasked(self, message: MessageInFlight) -> MessageInFlight:
        text = message.text.partition(" ")[2].partition(" #")[0]
        return self.messages.add(message.sender, message.receiver, NO_CALL, message.body, f"{text}, unasked")

    def is_awaited(self, message: MessageInFlight, processes: tuple[int, ...]) -> bool:
        if _is_request(message):
            return True
        view = self.table.views[processes[message.receiver - 1]]
        return bool(message.call[0] == view.incarnation)

    # -- history --------------------------------------------------------------------------------------------------

    def remember(self, state: State, move: Move, step: LocalStep, processes: tuple[int, ...]) -> tuple[int, str | None]:
        history: RaftHistory = self.histories[state[2]]
        before, view, kind = self.table.views[state[0][move.process]], self.table.views[step.after], move.event[0]
        changes: dict[str, Any] = {}
        broken = None
        if view.leads and history.leaders[view.term] != view.node:
            if history.leaders[view.term]:
                broken = f"two leaders of term {view.term}: {history.leaders[view.term]} and {view.node}"
            leaders = list(history.leaders)
            leaders[view.term] = view.node
            changes["leaders"] = tuple(leaders)
        if view.commit > len(history.committed):
            first = len(history.committed) + 1
            more = [self._record_at(index, view, before, move) for index in range(first, view.commit + 1)]
            changes["committed"] = (*history.committed, *[each for each in more if each is not None])
            if None in more:
                broken = f"{view.node} commits and drops a record in the step that makes it: it is durable at no other"
        if kind == "append":
            changes["batches"] = history.batches + 1
        elif kind == "seal":
            changes["seals"] = history.seals + 1
        elif kind == "read":
            changes["reads"] = history.reads + 1
        elif kind == "crash":
            changes["crashes"] = history.crashes + 1
        elif kind == "trim":
            changes["trims"] = history.trims + 1
        if changes:
            history = attrs.evolve(history, **changes)
        if step.told and broken is None:
            broken = checks.check_told(self.records, step.told, history)
        return (self.history(history) if changes else state[2]), broken

    def _record_at(self, index: int, after: RaftView, before: RaftView, move: Move) -> RecordId | None:
        """A record that has just been committed: it may have been dropped in the same step."""
        for view in (after, before):
            found = view.record(index)
            if found is not None:
                return found
        request = None if move.message is None else move.message.body.request
        blobs = request.records if isinstance(request, AppendRecords) else ()
        sent = [self.records.add(records.parse_untrusted(blob)) for blob in blobs]
        return next((each for each in sent if self.records[each].index == index), None)

    # -- checks ---------------------------------------------------------------------------------------------------

    def compare(self, before: RaftView, event: Event, after: RaftView, told: tuple[Any, ...]) -> str | None:
        return checks.compare(self.records, before, event, after)

    def check(self, state: State) -> str | None:
        processes, _, number = state
        views = [self.table.views[each] for each in processes]
        for at, one in enumerate(processes):
            for other in processes[at + 1 :]:
                pair = (one, other)
                if pair not in self._pairs:
                    self._pairs[pair] = checks.check_pair(self.table.views[one], self.table.views[other])
                if self._pairs[pair] is not None:
                    return self._pairs[pair]
        return checks.check_committed(self.records, views, self.histories[number])

    # -- names ----------------------------------------------------------------------------------------------------

    def permutations(self) -> tuple[Permutation, ...]:
        """Orders of the nodes that leave the first leader and those that may stand where they are."""
        bounds = self.bounds
        found = []
        for permutation in permutations(range(bounds.nodes)):
            standers = {permutation[node - 1] + 1 for node in bounds.standers}
            fixed = not bounds.first_leader or permutation[bounds.first_leader - 1] == bounds.first_leader - 1
            if fixed and standers == set(bounds.standers):
                found.append(permutation)
        return tuple(found)

    def rename_event(self, event: Event, names: Names) -> Event:
        if event[0] == "beat":
            return ("beat", tuple(sorted((names.permutation[peer - 1] + 1, number) for peer, number in event[1])))
        return super().rename_event(event, names)

    def rename_body(self, body: Any, sender: int) -> Any:
        if isinstance(body, VoteCall) and body.request is not None:
            return VoteCall(attrs.evolve(body.request, candidate=NodeId(sender)))
        if isinstance(body, RecordsCall) and body.request is not None:
            return RecordsCall(attrs.evolve(body.request, leader=NodeId(sender)), body.term)
        return body

    def rename_history(self, history: Any, permutation: Permutation) -> Any:
        leaders = tuple(permutation[leader - 1] + 1 if leader else 0 for leader in history.leaders)
        return attrs.evolve(history, leaders=leaders)


def _is_request(message: MessageInFlight) -> bool:
    return message.body.request is not None
