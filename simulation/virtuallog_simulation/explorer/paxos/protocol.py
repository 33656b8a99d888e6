"""The Paxos log as a system to explore: nodes with a replica and a coordinator each, and clients that check the tail.

Nodes come first, then the clients; the names are their places, from 1 on. Bounds that are not stated by a configuration:
* a node stands whenever it likes, also while it leads; a promise or a fill whose messages are lost ends with the next attempt;
* a coordinator sends its write, or its question if it leads, again once neither that nor the answer of some node is under way;
* a client asks a replica again once neither its question nor the answer is under way;
* an answer that changes nothing at its receiver is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import attrs

from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.messages import NOWHERE, Verdict
from virtuallog_simulation.explorer.local_states import Cell, Event, LocalStep, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.paxos import checks
from virtuallog_simulation.explorer.paxos.client import PaxosClientCell
from virtuallog_simulation.explorer.paxos.node import PaxosNodeCell
from virtuallog_simulation.explorer.paxos.state import (
    COUNTED,
    PaxosBounds,
    PaxosClientView,
    PaxosHistory,
    PaxosNodeView,
    PaxosView,
)
from virtuallog_simulation.explorer.protocol import Move, Names, Permutation, Protocol, State, describe_bounds


@attrs.define(eq=False)
class PaxosProtocol(Protocol[PaxosView]):
    """Adapter of the cores of the Paxos log."""

    bounds: PaxosBounds

    @classmethod
    def of(cls, bounds: PaxosBounds) -> PaxosProtocol:
        """The protocol within these bounds."""
        return cls(bounds.in_flight, bounds)

    @property
    def bounds_text(self) -> str:
        return describe_bounds(self.bounds)

    # -- states ---------------------------------------------------------------------------------------------------

    def begin(self) -> State:
        bounds = self.bounds
        members = tuple(NodeId(number + 1) for number in range(bounds.nodes))
        ensemble = Ensemble(members=members, quorum=bounds.nodes // 2 + 1)
        nodes = [PaxosNodeCell.begin(node, ensemble, is_eager=True, looks=False) for node in members]
        if bounds.first_leader:
            self._lead(nodes)
        history = PaxosHistory()
        for node in nodes:
            node.is_eager, node.looks = not bounds.queued_disk, bounds.looks
            history, broken = checks.after_votes(history, attrs.evolve(node.view(), learned=()), bounds.nodes)
            assert broken is None, broken
        clients = [PaxosClientCell(bounds.nodes + 1 + number, ensemble) for number in range(bounds.clients)]
        cells: list[Cell] = [*nodes, *clients]
        self._first = tuple(self.table.add(cell) for cell in cells)
        return self._first, (), self.history(history)

    def _lead(self, nodes: list[PaxosNodeCell]) -> None:
        """Have the first leader elected, with no message lost."""
        leader = nodes[self.bounds.first_leader - 1]
        under_way: list[tuple[int, Sent]] = [(leader.node, sent) for sent in leader.take(("stand",))[0]]
        while under_way:
            sender, sent = under_way.pop(0)
            receiver = nodes[sent.receiver - 1]
            more, _ = receiver.take(("take", self.address(sender, sent)))
            under_way += [(receiver.node, each) for each in more]

    def look(self, cell: PaxosNodeCell | PaxosClientCell) -> PaxosView:
        return cell.view()

    # -- moves ----------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        processes, flying, number = state
        history: PaxosHistory = self.histories[number]
        messages = [self.messages.messages[each] for each in flying]
        for at, local in enumerate(processes):
            match self.table.views[local]:
                case PaxosNodeView() as node:
                    yield from self._moves_of_node(at, node, history, messages, processes)
                case PaxosClientView() as client:
                    yield from self._moves_of_client(at, client, history, messages, processes)
        for message in messages:
            event = ("take", message)
            yield Move(message.receiver - 1, event, message=message)
            if history.duplicates < self.bounds.duplicates and isinstance(message.body, Request):
                yield Move(message.receiver - 1, event, message=message, stays=True)

    def _moves_of_node(
        self,
        at: int,
        view: PaxosNodeView,
        history: PaxosHistory,
        messages: list[MessageInFlight],
        processes: tuple[int, ...],
    ) -> Iterator[Move]:
        bounds, node = self.bounds, view.node
        if view.writing:
            yield Move(at, ("sync",), f"sync {node}")
        if history.crashes < bounds.crashes:
            yield Move(at, ("crash",), f"crash {node}")
        if view.parked:
            yield Move(at, ("tick",), f"time is up at {node}")
        may_stand = view.state != "closed" and (not bounds.standers or node in bounds.standers)
        if may_stand and history.elections < bounds.elections:
            yield Move(at, ("stand",), f"{node} stands")
        if view.serves:
            yield from self._requests(at, view, history, processes)
        again = [self._silent(view, kind, messages, processes) for kind in ("write", "standing")]
        if any(again) or view.unannounced:
            yield Move(at, ("beat", *again), f"{node} sends again")
        if view.has_hole and not view.catch_up and history.mends < bounds.mends:
            yield Move(at, ("mend",), f"{node} catches up")
        if view.filling and history.refills < bounds.refills:
            yield Move(at, ("refill",), f"{node} fills again")
        if view.looking:
            yield Move(at, ("go on",), f"{node} waits for no more standings")
        if view.source and not self._under_way(node, (view.boot, "read", *view.catch_up), messages, processes):
            yield Move(at, ("unanswered",), f"{node} hears nothing from {view.source}")

    def _requests(
        self, at: int, view: PaxosNodeView, history: PaxosHistory, processes: tuple[int, ...]
    ) -> Iterator[Move]:
        bounds, node, least = self.bounds, view.node, history.tail
        if history.batches < bounds.batches:
            yield Move(at, ("append", history.batches + 1), f"append {history.batches + 1} at {node}")
        if history.repeats < bounds.repeats:
            for number in range(1, history.batches + 1):
                yield Move(at, ("again", number), f"append {number} again at {node}")
        if history.seals < bounds.seals:
            yield Move(at, ("seal", least), f"seal at {node}")
        if history.tails < bounds.tails:
            yield Move(at, ("tail", least, NOWHERE), f"tail at {node}")
            ends = [each.position for other in self._nodes(processes) for each in other.stored]
            if max(ends, default=0) > max((position for position, _ in view.learned), default=0):
                yield Move(at, ("tail", least, max(ends)), f"tail past {max(ends)} at {node}")

    def _silent(
        self, view: PaxosNodeView, kind: str, messages: list[MessageInFlight], processes: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Nodes that have not answered a write or a question, which is not under way either."""
        number, done = (view.flight, view.accepted) if kind == "write" else (view.question, view.confirmed)
        if not number:
            return ()
        others = set(range(1, self.bounds.nodes + 1)) - {view.node} - done
        return tuple(sorted(others - self._under_way(view.node, (view.boot, kind, number), messages, processes)))

    def _moves_of_client(
        self,
        at: int,
        view: PaxosClientView,
        history: PaxosHistory,
        messages: list[MessageInFlight],
        processes: tuple[int, ...],
    ) -> Iterator[Move]:
        if not view.operation:
            if history.checks < self.bounds.checks:
                yield Move(at, ("check", history.tail, history.sealed >= 0), f"{view.node} checks the tail")
            return
        for server in sorted(view.asked - self._under_way(view.node, view.call, messages, processes)):
            yield Move(at, ("repeat", server), f"{view.node} asks {server} again")
        if view.waits and view.round < self.bounds.rounds:
            yield Move(at, ("waited",), f"{view.node} has waited for long")

    def _nodes(self, processes: tuple[int, ...]) -> list[PaxosNodeView]:
        found = [self.table.views[each] for each in processes[: self.bounds.nodes]]
        return [view for view in found if isinstance(view, PaxosNodeView)]

    def _under_way(
        self, caller: int, call: tuple[Any, ...], messages: list[MessageInFlight], processes: tuple[int, ...]
    ) -> set[int]:
        """Nodes that have a question of this call on its way, have not answered it, or whose answer is on its way."""
        found = {view.node for view in self._nodes(processes) if (caller, call) in view.owed}
        for each in messages:
            if each.call == call and caller in (each.sender, each.receiver):
                found.add(each.receiver if each.sender == caller else each.sender)
        return found

    def arrange(self, flying: list[int], move: Move, processes: tuple[int, ...]) -> list[int]:
        """Drop answers whose receiver does not wait for them any more."""
        messages = self.messages.messages
        return [each for each in flying if self.is_awaited(messages[each], processes)]

    def is_awaited(self, message: MessageInFlight, processes: tuple[int, ...]) -> bool:
        if isinstance(message.body, Request):
            return True
        match self.table.views[processes[message.receiver - 1]]:
            case PaxosNodeView() as view:
                is_refusal = getattr(message.body, "verdict", None) is Verdict.REJECT
                return view.awaits(message.sender, message.call, is_refusal)
            case PaxosClientView() as client:
                return bool(message.call[1] == client.operation)

    # -- history and checks ---------------------------------------------------------------------------------------

    def remember(self, state: State, move: Move, step: LocalStep, processes: tuple[int, ...]) -> tuple[int, str | None]:
        counted = "duplicates" if move.stays else COUNTED.get(move.event[0])
        before, after = self.table.views[state[0][move.process]], self.table.views[processes[move.process]]
        history: PaxosHistory = self.histories[state[2]]
        if counted is not None:
            history = attrs.evolve(history, **{counted: getattr(history, counted) + 1})
        broken = None
        if isinstance(after, PaxosNodeView) and before != after:
            history, broken = checks.after_votes(history, after, self.bounds.nodes)
        if broken is None:
            history, broken = checks.after_told(history, step.told)
        return self.history(history), broken

    def compare(self, before: PaxosView, event: Event, after: PaxosView, told: tuple[Any, ...]) -> str | None:
        return checks.compare(before, event, after, told)

    def check(self, state: State) -> str | None:
        return checks.check_numbers(self._nodes(state[0]))

    # -- names ----------------------------------------------------------------------------------------------------

    def permutations(self) -> tuple[Permutation, ...]:
        """Orders of the nodes that leave the first leader and those that may stand where they are, and of the clients.

        A catch-up prefers low numbers among equal sources, so with `looks` no node can be exchanged.
        """
        bounds = self.bounds
        clients = range(bounds.nodes, bounds.nodes + bounds.clients)
        found = []
        for order in permutations(range(bounds.nodes)):
            standers = {order[node - 1] + 1 for node in bounds.standers}
            fixed = not bounds.first_leader or order[bounds.first_leader - 1] == bounds.first_leader - 1
            is_same = order == tuple(range(bounds.nodes))
            if is_same or (fixed and standers == set(bounds.standers) and not bounds.looks):
                found += [(*order, *last) for last in permutations(clients)]
        return tuple(found)

    def rename_event(self, event: Event, names: Names) -> Event:
        if event[0] == "beat":
            again = [tuple(sorted(names.permutation[node - 1] + 1 for node in nodes)) for nodes in event[1:]]
            return ("beat", *again)
        if event[0] == "repeat":
            return ("repeat", names.permutation[event[1] - 1] + 1)
        return super().rename_event(event, names)

    def rename_history(self, history: Any, permutation: Permutation) -> Any:
        votes = tuple(
            attrs.evolve(each, nodes=frozenset(permutation[node - 1] + 1 for node in each.nodes))
            for each in history.votes
        )
        return attrs.evolve(history, votes=votes)
