"""A system of processes and messages that can be explored: moves, successors, names of nodes.

Loss is decided when a message is sent: it is in flight or it is not. One that is in flight may arrive at any time, in any
order, and where a configuration allows it a second time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from virtuallog_simulation.explorer.local_states import Event, LocalStates, LocalStep, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight, MessageTable

State: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""Local state of each process, messages in flight ascending, and history: all by number."""
Permutation: TypeAlias = tuple[int, ...]
"""New index of each process."""
V = TypeVar("V")


@attrs.frozen
class Move:
    """One thing that can happen next."""

    process: int
    """Index of the process."""
    event: Event
    text: str = ""
    """Words of a story, unless it is the arrival of a message."""
    message: MessageInFlight | None = None
    stays: bool = False
    """True if the message arrives a second time later, or not."""


@attrs.frozen
class Step:
    """A move, and what of the messages that it sends is not lost."""

    move: Move
    sent: tuple[MessageInFlight, ...]
    kept: tuple[MessageInFlight, ...]

    def __str__(self) -> str:
        move = self.move
        text = move.text if move.message is None else f"{'repeat' if move.stays else 'deliver'} {move.message.text}"
        if not self.sent:
            return text
        return f"{text} => {' | '.join(sorted(each.text for each in self.kept)) or 'lost'}"


@attrs.define(eq=False)
class Names:
    """Renamed parts of states, by number, for one permutation."""

    permutation: Permutation
    processes: dict[int, int] = attrs.field(factory=dict)
    messages: dict[int, int] = attrs.field(factory=dict)
    histories: dict[int, int] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Protocol(ABC, Generic[V]):
    """Adapter of one protocol, within the bounds of one configuration."""

    in_flight: int
    """Most messages in flight."""
    table: LocalStates[V] = attrs.field(init=False)
    messages: MessageTable = attrs.field(factory=MessageTable, init=False)
    histories: list[Any] = attrs.field(factory=list, init=False)
    _history_numbers: dict[Any, int] = attrs.field(factory=dict, init=False)
    _first: tuple[int, ...] = attrs.field(default=(), init=False)
    """Local states of `begin`."""
    _names: list[Names] = attrs.field(factory=list, init=False)
    """One for each permutation, that which changes nothing left out."""

    def __attrs_post_init__(self) -> None:
        self.table = LocalStates(self.look, self.compare, self.address)
        self._names = [Names(permutation) for permutation in self.permutations()[1:]]

    # -- given by each protocol -----------------------------------------------------------------------------------

    @abstractmethod
    def begin(self) -> State:
        """State in which all runs begin."""

    @abstractmethod
    def look(self, cell: Any) -> V:
        """View of a local state."""

    @abstractmethod
    def compare(self, before: V, event: Event, after: V, told: tuple[Any, ...]) -> str | None:
        """Check one step of one process."""

    @abstractmethod
    def moves(self, state: State) -> Iterator[Move]:
        """Things that can happen next."""

    @abstractmethod
    def remember(self, state: State, move: Move, step: LocalStep, processes: tuple[int, ...]) -> tuple[int, str | None]:
        """History after a step, and the promise that is broken with it, if any."""

    @abstractmethod
    def check(self, state: State) -> str | None:
        """Check a state as a whole; returns the promise that is broken."""

    @abstractmethod
    def permutations(self) -> tuple[Permutation, ...]:
        """Ways to exchange the names of processes that no rule can tell apart; the first one changes nothing."""

    def rename_event(self, event: Event, names: Names) -> Event:
        """The same event with other names; here that of a message that is taken, or one without names."""
        if event[0] == "take":
            return ("take", self.messages.messages[self.rename_flying(event[1].number, names)])
        return event

    def rename_body(self, body: Any, sender: int) -> Any:
        """The same content of a message, from another sender; here one without names."""
        return body

    def rename_history(self, history: Any, permutation: Permutation) -> Any:
        """The same history with other names; here one without names."""
        return history

    @property
    @abstractmethod
    def bounds_text(self) -> str:
        """The bounds, for a list."""

    def describe(self, state: State) -> list[str]:
        """The state, for the end of a story."""
        processes, flying, history = state
        views = [str(self.table.views[each]) for each in processes]
        flights = [f"in flight: {self.messages.messages[each].text}" for each in flying]
        return [*views, *flights, str(self.histories[history])]

    def arrange(self, flying: list[int], move: Move, processes: tuple[int, ...]) -> list[int]:
        """Messages in flight after a move, but for those that it sends."""
        return flying

    def is_awaited(self, message: MessageInFlight, processes: tuple[int, ...]) -> bool:
        """False if the receiver would pass the message over in any case."""
        return True

    # -- successors -----------------------------------------------------------------------------------------------

    def address(self, sender: int, sent: Sent) -> MessageInFlight:
        """The message that a process sends."""
        return self.messages.add(sender, sent.receiver, sent.call, sent.body, sent.text)

    def history(self, history: Any) -> int:
        """Number of a history."""
        number = self._history_numbers.get(history)
        if number is None:
            number = self._history_numbers[history] = len(self.histories)
            self.histories.append(history)
        return number

    def successors(self, state: State) -> Iterator[tuple[Step, State, str | None]]:
        """Steps from a state, the states they lead to, and the promise that each breaks, if any."""
        processes, flying, _ = state
        step_of = self.table.step
        for move in self.moves(state):
            at = move.process
            local = step_of(processes[at], move.event)
            after = (*processes[:at], local.after, *processes[at + 1 :])
            if local.broken is not None:
                yield Step(move, local.sent, ()), (after, flying, state[2]), local.broken
                continue
            rest = list(flying)
            if move.message is not None and not move.stays:
                rest.remove(move.message.number)
            rest = self.arrange(rest, move, after)
            history, broken = self.remember(state, move, local, after)
            sent = local.sent
            if sent:
                sent = tuple([each for each in sent if each.number not in rest and self.is_awaited(each, after)])
            if not sent:
                yield Step(move, (), ()), (after, tuple(rest), history), broken
                continue
            for count in range(min(len(sent), self.in_flight - len(rest)), -1, -1):
                for kept in combinations(sent, count):
                    flying_now = tuple(sorted([*rest, *[each.number for each in kept]]))
                    yield Step(move, sent, kept), (after, flying_now, history), broken

    # -- names ----------------------------------------------------------------------------------------------------

    def canonical(self, state: State) -> State:
        """The least of all states that differ from this one in names only."""
        best = state
        processes, flying, history = state
        for names in self._names:
            renamed = [0] * len(processes)
            known, permutation = names.processes, names.permutation
            for index, number in enumerate(processes):
                other = known.get(number)
                renamed[permutation[index]] = self._rename_local(number, names) if other is None else other
            after = tuple(renamed)
            if after > best[0]:
                continue
            messages = tuple(sorted([self.rename_flying(number, names) for number in flying])) if flying else ()
            found = after, messages, self._rename_past(history, names)
            best = min(best, found)
        return best

    def orbit(self, state: State) -> int:
        """Number of states that differ from this one in names only, itself included."""
        return len({state, *(self._rename(state, names) for names in self._names)})

    def _rename(self, state: State, names: Names) -> State:
        processes, flying, history = state
        renamed = [0] * len(processes)
        for index, number in enumerate(processes):
            renamed[names.permutation[index]] = self._rename_local(number, names)
        messages = sorted(self.rename_flying(number, names) for number in flying)
        return tuple(renamed), tuple(messages), self._rename_past(history, names)

    def _rename_local(self, number: int, names: Names) -> int:
        """Replay what led to a local state, with other names."""
        chain: list[int] = []
        at, known = number, names.processes
        while at not in known:
            origin = self.table.origins[at]
            if origin is None:
                known[at] = self.rename_first(at, names.permutation)
                break
            chain.append(at)
            at = origin[0]
        for each in reversed(chain):
            origin = self.table.origins[each]
            assert origin is not None
            former, event = origin
            known[each] = self.table.step(known[former], self.rename_event(event, names)).after
        return known[number]

    def rename_first(self, number: int, permutation: Permutation) -> int:
        """The local state that another process begins in."""
        return self._first[permutation[self._first.index(number)]]

    def rename_message(self, message: MessageInFlight, permutation: Permutation) -> MessageInFlight:
        """The same message with other names."""
        sender, receiver = permutation[message.sender - 1] + 1, permutation[message.receiver - 1] + 1
        body = self.rename_body(message.body, sender)
        return self.messages.add(sender, receiver, message.call, body, message.text.partition(" ")[2])

    def rename_flying(self, number: int, names: Names) -> int:
        """Number of a message with other names."""
        found = names.messages.get(number)
        if found is None:
            message = self.rename_message(self.messages.messages[number], names.permutation)
            found = names.messages[number] = message.number
        return found

    def _rename_past(self, number: int, names: Names) -> int:
        found = names.histories.get(number)
        if found is None:
            found = self.history(self.rename_history(self.histories[number], names.permutation))
            names.histories[number] = found
        return found


def describe_bounds(bounds: Any) -> str:
    """Bounds of an attrs class that are not at their defaults."""
    told = []
    for field in attrs.fields(type(bounds)):
        value = getattr(bounds, field.name)
        if value != field.default:
            told.append(field.name.replace("_", " ") if value is True else f"{field.name.replace('_', ' ')} {value}")
    return ", ".join(told) or "defaults"
