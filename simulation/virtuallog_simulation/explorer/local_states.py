"""States of single processes, and the steps between them.

A step changes one process and sends messages. So an exploration of millions of states of a whole system runs the core only
once for each state of one process and each event there; from then on a step is a look-up. A state is kept as a pickle
of its objects and known by the digest of their canonical form.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from virtuallog_simulation.explorer.canonical_form import digest_of, form_of
from virtuallog_simulation.explorer.messages import MessageInFlight

Event: TypeAlias = tuple[Any, ...]
"""Input of a process: its kind, then plain values and messages."""
V = TypeVar("V")


@attrs.frozen
class Sent:
    """A message that a step sends, before it is looked up."""

    receiver: int
    call: Any
    body: Any
    text: str


class Cell(ABC):
    """Live objects of one process: the core, and its disk."""

    @property
    @abstractmethod
    def name(self) -> int:
        """Number of the process."""

    @abstractmethod
    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        """Take a step; returns what it sends and what it tells clients.

        Counters without a meaning of their own, such as numbers of messages, are made small afterwards.
        """


@attrs.define(eq=False)
class LocalStep:
    """Result of one event in one state."""

    after: int
    sent: tuple[MessageInFlight, ...]
    told: tuple[Any, ...]
    """Answers to clients, as (ticket, outcome)."""
    broken: str | None
    """Promise that the step breaks."""


@attrs.define(eq=False)
class LocalStates(Generic[V]):
    """All states that any process has been in, by number."""

    _look: Callable[[Any], V]
    """Makes the view of a cell that checks and moves are made from."""
    _compare: Callable[[V, Event, V, tuple[Any, ...]], str | None]
    """Checks one step."""
    _address: Callable[[int, Sent], MessageInFlight]
    """Looks up a message that a process sends."""
    views: list[V] = attrs.field(factory=list, init=False)
    origins: list[tuple[int, Event] | None] = attrs.field(factory=list, init=False)
    """State and event that first led to each; None for those that a process begins in."""
    cores_run: int = attrs.field(default=0, init=False)
    """Steps that were taken by a core and not looked up."""
    _pickles: list[bytes] = attrs.field(factory=list, init=False)
    _numbers: dict[bytes, int] = attrs.field(factory=dict, init=False)
    _steps: list[dict[Event, LocalStep]] = attrs.field(factory=list, init=False)

    def __len__(self) -> int:
        return len(self.views)

    def add(self, cell: Cell, origin: tuple[int, Event] | None = None) -> int:
        """Number of the state that a cell is in."""
        digest = digest_of(form_of(cell))
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self.views)
            self._pickles.append(pickle.dumps(cell, 5))
            self.views.append(self._look(cell))
            self.origins.append(origin)
            self._steps.append({})
        return number

    def step(self, number: int, event: Event) -> LocalStep:
        """Take an event in a state."""
        step = self._steps[number].get(event)
        if step is None:
            step = self._steps[number][event] = self._take(number, event)
        return step

    def _take(self, number: int, event: Event) -> LocalStep:
        self.cores_run += 1
        cell: Cell = pickle.loads(self._pickles[number])
        try:
            sent, told = cell.take(event)
        except Exception as error:  # any error of a core is a finding
            return LocalStep(number, (), (), f"{type(error).__name__}: {error}")
        after = self.add(cell, (number, event))
        messages = tuple([self._address(cell.name, each) for each in sent])
        answers = tuple(told)
        broken = self._compare(self.views[number], event, self.views[after], answers)
        return LocalStep(after, messages, answers, broken)
