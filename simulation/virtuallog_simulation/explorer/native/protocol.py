"""The native loglet as a system to explore: log servers, the sequencer, clients that check the tail, seal, repair and trim.

Servers come first, then the sequencer, then the clients; the names are their places, from 1 on. No server is the sequencer's own.

Bounds that are not stated by a configuration, for all of them:
* a client asks a server again once neither its question nor the answer is under way, so a lost question is a late one; the
  sequencer does the same with its waves;
* the time of a parked wait is up whenever a server likes, and a client may give up a wait at any time;
* an answer that comes after its operation has ended is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import attrs

from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core.sequencer import Sequencer
from virtuallog_loglets.native.messages import NativeStore, NativeStored
from virtuallog_simulation.explorer.batches import SEGMENT
from virtuallog_simulation.explorer.local_states import Cell, Event, LocalStep
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.native import checks
from virtuallog_simulation.explorer.native.clients import ClientCell, SequencerCell
from virtuallog_simulation.explorer.native.server import ServerCell
from virtuallog_simulation.explorer.native.state import (
    COUNTED,
    ClientView,
    NativeBounds,
    NativeHistory,
    NativeView,
    SequencerView,
    ServerView,
)
from virtuallog_simulation.explorer.protocol import Move, Names, Permutation, Protocol, State, describe_bounds


@attrs.define(eq=False)
class NativeProtocol(Protocol[NativeView]):
    """Adapter of the cores of the native loglet."""

    bounds: NativeBounds
    _checked: dict[tuple[tuple[int, ...], int], str | None] = attrs.field(factory=dict, init=False)
    """Verdict on each combination of servers and history."""

    @classmethod
    def of(cls, bounds: NativeBounds) -> NativeProtocol:
        """The protocol within these bounds."""
        return cls(bounds.in_flight, bounds)

    @property
    def bounds_text(self) -> str:
        return describe_bounds(self.bounds)

    # -- states ---------------------------------------------------------------------------------------------------

    def begin(self) -> State:
        bounds = self.bounds
        servers = tuple(NodeId(n + 1) for n in range(bounds.servers))
        config = NativeConfig(servers=servers, sequencer=NodeId(bounds.servers + 1), boot=1)
        cells: list[Cell] = [ServerCell(server, not bounds.queued_disk) for server in servers]
        cells.append(SequencerCell(config.sequencer, Sequencer(SEGMENT, config)))
        cells += [ClientCell(bounds.servers + 2 + n, config) for n in range(bounds.clients)]
        self._first = tuple(self.table.add(cell) for cell in cells)
        return self._first, (), self.history(NativeHistory())

    def look(self, cell: ServerCell | SequencerCell | ClientCell) -> NativeView:
        return cell.view()

    # -- moves ----------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        processes, flying, number = state
        history: NativeHistory = self.histories[number]
        messages = [self.messages.messages[each] for each in flying]
        for at, local in enumerate(processes):
            match self.table.views[local]:
                case ServerView() as server:
                    yield from self._moves_of_server(at, server, history)
                case SequencerView() as sequencer:
                    yield from self._moves_of_sequencer(at, sequencer, history, messages, processes)
                case ClientView() as client:
                    yield from self._moves_of_client(at, client, history, messages, processes)
        for message in messages:
            event = ("take", message)
            view = self.table.views[processes[message.receiver - 1]]
            if isinstance(view, ClientView) and view.round > self.bounds.rounds:
                continue
            yield Move(message.receiver - 1, event, message=message)
            if history.duplicates < self.bounds.duplicates and _is_request(message):
                yield Move(message.receiver - 1, event, message=message, stays=True)

    def _moves_of_server(self, at: int, view: ServerView, history: NativeHistory) -> Iterator[Move]:
        bounds, node = self.bounds, view.node
        if view.writing:
            yield Move(at, ("sync",), f"sync {node}")
            if history.refusals < bounds.refusals:
                yield Move(at, ("refuse",), f"the disk of {node} refuses")
        if history.crashes < bounds.crashes:
            yield Move(at, ("crash",), f"crash {node}")
        if view.parked:
            yield Move(at, ("tick",), f"time is up at {node}")

    def _moves_of_sequencer(
        self,
        at: int,
        view: SequencerView,
        history: NativeHistory,
        messages: list[MessageInFlight],
        processes: tuple[int, ...],
    ) -> Iterator[Move]:
        bounds, node = self.bounds, view.node
        if history.batches < bounds.batches:
            number = history.batches + 1
            yield Move(at, ("append", number), f"append {number}")
        if not view.silent:
            return
        stores = [
            each
            for each in messages
            if isinstance(each.body, NativeStore | NativeStored) and node in (each.sender, each.receiver)
        ]
        under_way = {each.receiver if each.sender == node else each.sender for each in stores}
        for other in processes[: bounds.servers]:
            server = self.table.views[other]
            if isinstance(server, ServerView) and any(caller == node for caller, _ in server.owed):
                under_way.add(server.node)
        for each in sorted(view.silent):
            if each not in under_way:
                yield Move(at, ("again", each), f"{node} sends to {each} again")
            elif history.resends < bounds.resends:
                yield Move(at, ("early", each), f"{node} sends to {each} again, too early")

    def _moves_of_client(
        self,
        at: int,
        view: ClientView,
        history: NativeHistory,
        messages: list[MessageInFlight],
        processes: tuple[int, ...],
    ) -> Iterator[Move]:
        bounds, node = self.bounds, view.node
        if not view.operation:
            context = (history.tail, history.sealed >= 0)
            if history.checks < bounds.checks:
                yield Move(at, ("check", *context), f"{node} checks the tail")
            if history.seals < bounds.seals:
                yield Move(at, ("seal", *context), f"{node} seals")
            if history.trims < bounds.trims:
                yield Move(at, ("trim", 1), f"{node} trims")
            return
        if view.round > bounds.rounds:
            return
        under_way = self._under_way(view, messages, processes)
        for server in sorted(view.asked - under_way):
            yield Move(at, ("repeat", server), f"{node} asks {server} again")
        if view.waits:
            yield Move(at, ("give up",), f"{node} gives up the wait")
        if history.timeouts < bounds.timeouts:
            lost = view.completing - under_way
            if view.readers and not view.readers & under_way:
                lost |= view.readers
            for server in sorted(lost):
                yield Move(at, ("unanswered", server), f"{node} hears nothing from {server}")

    def _under_way(
        self, view: ClientView, messages: list[MessageInFlight], processes: tuple[int, ...]
    ) -> frozenset[int]:
        """Servers that may still answer a call of this round."""
        call, found = view.call, set[int]()
        for each in messages:
            if each.call == call and view.node in (each.sender, each.receiver):
                found.add(each.receiver if each.sender == view.node else each.sender)
        for other in processes[: self.bounds.servers]:
            server = self.table.views[other]
            if isinstance(server, ServerView) and (view.node, call) in server.owed:
                found.add(server.node)
        return frozenset(found)

    def arrange(self, flying: list[int], move: Move, processes: tuple[int, ...]) -> list[int]:
        """Drop answers whose receiver does not wait for them any more."""
        if move.process < self.bounds.servers:
            return flying
        messages = self.messages.messages
        return [each for each in flying if self.is_awaited(messages[each], processes)]

    def is_awaited(self, message: MessageInFlight, processes: tuple[int, ...]) -> bool:
        match self.table.views[processes[message.receiver - 1]]:
            case SequencerView(stopped=stopped):
                return not stopped
            case ClientView() as view:
                _, operation, number = message.call
                if number:
                    return bool(operation == view.operation)
                return bool(message.body.known_tail > view.known)  # of the answer to a trim nothing else counts
        return True

    # -- history and checks ---------------------------------------------------------------------------------------

    def remember(self, state: State, move: Move, step: LocalStep, processes: tuple[int, ...]) -> tuple[int, str | None]:
        counted = "duplicates" if move.stays else COUNTED.get(move.event[0])
        is_server = move.process < self.bounds.servers
        if counted is None and (is_server or not step.told):
            return state[2], None
        history: NativeHistory = self.histories[state[2]]
        if counted is not None:
            history = attrs.evolve(history, **{counted: getattr(history, counted) + 1})
        broken = None
        if not is_server:
            history, broken = checks.after_told(history, step.told)
        return self.history(history), broken

    def compare(self, before: NativeView, event: Event, after: NativeView, told: tuple[Any, ...]) -> str | None:
        return checks.compare(before, event, after, told)

    def check(self, state: State) -> str | None:
        processes, _, number = state
        views = self.table.views
        key = processes[: self.bounds.servers], number
        if key not in self._checked:
            servers = [view for view in map(views.__getitem__, key[0]) if isinstance(view, ServerView)]
            self._checked[key] = checks.check_servers(servers, self.histories[number])
        return self._checked[key] or checks.check_known([views[each] for each in processes], self.histories[number])

    # -- names ----------------------------------------------------------------------------------------------------

    def permutations(self) -> tuple[Permutation, ...]:
        """Orders of the servers and of the clients."""
        servers = self.bounds.servers
        clients = range(servers + 1, servers + 1 + self.bounds.clients)
        return tuple(
            (*first, servers, *last) for first in permutations(range(servers)) for last in permutations(clients)
        )

    def rename_event(self, event: Event, names: Names) -> Event:
        if event[0] in ("again", "early", "repeat", "unanswered"):
            return (event[0], names.permutation[event[1] - 1] + 1)
        return super().rename_event(event, names)


def _is_request(message: MessageInFlight) -> bool:
    return isinstance(message.body, Request)
