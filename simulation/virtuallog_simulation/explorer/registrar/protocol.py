"""The fencing of the registrar as a system to explore: registrars of one name, and the store.

Places of owners come first, then the store; their letters are A, B, C, and the registrars of a place A1, A2. All registrars of a configuration
offer the same operations.

Bounds that are not stated by a configuration, for all of them:
* a registrar takes an attempt for lost whenever it likes, and repeats it; the earlier one may take effect until a later one is
  answered, and at any time if its registrar has ended or was replaced;
* an answer to an earlier attempt is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import attrs

from virtuallog_database.registrar.core.machine import Load, MachineState
from virtuallog_simulation.explorer.local_states import Event, LocalStep, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.protocol import Move, Permutation, Protocol, State, describe_bounds
from virtuallog_simulation.explorer.registrar import checks
from virtuallog_simulation.explorer.registrar.cells import LATE, OwnerCell, StoreCell, call_text
from virtuallog_simulation.explorer.registrar.state import (
    LETTERS,
    OwnerView,
    RegistrarBounds,
    RegistrarHistory,
    RegistrarView,
    renamed,
)


@attrs.define(eq=False)
class RegistrarProtocol(Protocol[RegistrarView]):
    """Adapter of the core of the registrar."""

    bounds: RegistrarBounds

    @classmethod
    def of(cls, bounds: RegistrarBounds) -> RegistrarProtocol:
        """The protocol within these bounds."""
        return cls(bounds.in_flight, bounds)

    @property
    def bounds_text(self) -> str:
        return describe_bounds(self.bounds)

    # -- states ---------------------------------------------------------------------------------------------------

    def begin(self) -> State:
        bounds = self.bounds
        cells = [OwnerCell(n + 1, bounds.operations, bounds.same_name) for n in range(bounds.owners)]
        self._first = tuple(self.table.add(cell) for cell in (*cells, StoreCell(bounds.owners + 1)))
        return self._first, (), self.history(RegistrarHistory())

    def look(self, cell: OwnerCell | StoreCell) -> RegistrarView:
        return cell.view()

    # -- moves ----------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[Move]:
        processes, flying, number = state
        history: RegistrarHistory = self.histories[number]
        for at, local in enumerate(processes):
            view = self.table.views[local]
            if isinstance(view, OwnerView):
                yield from self._moves_of(at, view, history)
        for each in flying:
            message = self.messages.messages[each]
            view = self.table.views[processes[message.receiver - 1]]
            if isinstance(view, OwnerView) and view.call == "load" and view.fences >= self.bounds.fences:
                continue
            yield Move(message.receiver - 1, ("take", message), message=message)
            if LATE in message.call:  # there may have been several attempts
                yield Move(message.receiver - 1, ("take", message), message=message, stays=True)

    def _moves_of(self, at: int, view: OwnerView, history: RegistrarHistory) -> Iterator[Move]:
        bounds, owner = self.bounds, view.owner
        if view.state is MachineState.NEW:
            yield Move(at, ("recover",), f"{owner} recovers")
            return
        if view.state is not MachineState.ENDED and view.offered < len(bounds.operations):
            yield Move(at, ("offer",), f"{owner} is asked to {bounds.operations[view.offered]}")
        if view.can_begin:
            yield Move(at, ("begin",), f"{owner} begins a batch")
        if view.call:
            yield Move(at, ("again",), f"{owner} has no answer, and repeats")
            if bounds.aborts:
                yield Move(at, ("fail",), f"{owner} has no answer, and gives up")
        if history.replacements < bounds.replacements:
            yield Move(at, ("replace",), f"{owner} is replaced")

    def address(self, sender: int, sent: Sent) -> MessageInFlight:
        receiver = sent.receiver or self.bounds.owners + 1
        return self.messages.add(sender, receiver, sent.call, sent.body, sent.text)

    def arrange(self, flying: list[int], move: Move, processes: tuple[int, ...]) -> list[int]:
        kind, owner = move.event[0], move.process + 1
        if owner > self.bounds.owners or kind not in ("again", "fail", "replace", "take"):
            return flying
        answered = None if move.message is None else move.message.call
        kept = set[int]()
        for number in flying:
            message = self.messages.messages[number]
            if owner not in (message.sender, message.receiver):
                kept.add(number)
            elif kind == "take":  # behind an answer no earlier attempt takes effect
                if message.call[:2] != answered:
                    kept.add(number)
            elif message.sender == owner and not isinstance(message.body, Load):
                kept.add(message.number if LATE in message.call else self._late(message).number)
        return sorted(kept)

    def _late(self, message: MessageInFlight) -> MessageInFlight:
        text = message.text.partition(" ")[2].rpartition(" #")[0]
        call = (*message.call, LATE)
        return self.messages.add(message.sender, message.receiver, call, message.body, f"{text}{call_text(call)}")

    # -- history and checks ---------------------------------------------------------------------------------------

    def remember(self, state: State, move: Move, step: LocalStep, processes: tuple[int, ...]) -> tuple[int, str | None]:
        history: RegistrarHistory = self.histories[state[2]]
        before, view = self.table.views[state[0][move.process]], self.table.views[step.after]
        after, broken = history, None
        if isinstance(before, OwnerView) and isinstance(view, OwnerView):
            if move.event[0] == "replace":
                after = attrs.evolve(history, replacements=history.replacements + 1)
            else:
                after, broken = checks.after_step(history, before, view, step.told)
        else:
            for batch in step.told:
                after, broken = checks.after_store(after, batch)
        return (state[2] if after is history else self.history(after)), broken

    def compare(
        self, before: RegistrarView, event: Event, after: RegistrarView, told: tuple[object, ...]
    ) -> str | None:
        return checks.compare(before, event, after)

    def check(self, state: State) -> str | None:
        return checks.check([self.table.views[each] for each in state[0]])

    # -- names ----------------------------------------------------------------------------------------------------

    def permutations(self) -> tuple[Permutation, ...]:
        """Orders of the places of owners; the store stays where it is."""
        owners = self.bounds.owners
        return tuple((*order, owners) for order in permutations(range(owners)))

    def rename_message(self, message: MessageInFlight, permutation: Permutation) -> MessageInFlight:
        letters = _letters(permutation)
        sender, receiver = permutation[message.sender - 1] + 1, permutation[message.receiver - 1] + 1
        text = renamed(message.text.partition(" ")[2], letters)
        return self.messages.add(sender, receiver, message.call, renamed(message.body, letters), text)

    def rename_history(self, history: RegistrarHistory, permutation: Permutation) -> RegistrarHistory:
        return renamed(history, _letters(permutation))


def _letters(permutation: Permutation) -> dict[int, int]:
    return {ord(LETTERS[at]): ord(LETTERS[to]) for at, to in enumerate(permutation[:-1])}
