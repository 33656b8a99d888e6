"""Breadth-first search over the states of a protocol: the first story that breaks a promise is one of the shortest.

What is kept of a state is a digest of eight bytes, and the number of the state that led to it; only the states of the
present depth are whole. Two of n states share a digest with a chance of n * n / 2**65: one in a million for six million.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import attrs

from virtuallog_simulation.explorer.protocol import Protocol, State, Step

_LOOK_AT_CLOCK: Final = 512
"""States between two looks at the clock."""


@attrs.define(kw_only=True)
class Exploration:
    """Outcome of a search."""

    states: int
    """Distinct states, those that differ in names only counted once."""
    steps: int
    """Steps taken, those to known states included."""
    depth: int
    """Steps to the farthest state."""
    seconds: float
    local_states: int
    cores_run: int
    is_complete: bool
    """True if there is no other state within the bounds."""
    broken: str | None = None
    story: tuple[Step, ...] = ()
    """Steps that break the promise, the last one included."""

    @property
    def states_per_second(self) -> int:
        return int(self.states / max(self.seconds, 1e-6))


@attrs.define(eq=False)
class Search:
    """One search."""

    protocol: Protocol[Any]
    _monotonic: Callable[[], float]
    is_symmetric: bool = True
    """False to tell states apart that differ in names only."""
    orbits: int = attrs.field(default=0, init=False)
    """States that a search without symmetry would find; counted if `counts_orbits`."""
    counts_orbits: bool = False
    _seen: set[int] = attrs.field(factory=set, init=False)
    _digests: array[int] = attrs.field(factory=lambda: array("Q"), init=False)
    _parents: array[int] = attrs.field(factory=lambda: array("I"), init=False)

    def run(
        self,
        seconds: float | None = None,
        states_max: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Exploration:
        """Search until all is seen, a promise is broken, or a limit is reached."""
        began, protocol = self._monotonic(), self.protocol
        first = self._name(protocol.begin())
        frontier, depth, steps, stopped = [(self._add(first, 0), first)], 0, 0, False
        broken, last = protocol.check(first), -1
        while frontier and broken is None and not stopped:
            following: list[tuple[int, State]] = []
            for number, state in frontier:
                broken, taken = self._expand(number, state, following)
                steps += taken
                if broken is not None:
                    last = number
                    break
                if number % _LOOK_AT_CLOCK == 0 and seconds is not None and self._monotonic() - began > seconds:
                    stopped = True
                    break
            frontier, depth = following, depth + bool(following)
            stopped = stopped or (states_max is not None and len(self._seen) >= states_max)
            if progress is not None:
                progress(depth, len(self._seen))
        table = protocol.table
        result = Exploration(
            states=len(self._seen), steps=steps, depth=depth, seconds=self._monotonic() - began, local_states=len(table),
            cores_run=table.cores_run, is_complete=broken is None and not stopped, broken=broken,
        )  # fmt: skip
        if last >= 0:
            result.story = self._story(last, str(broken))
        return result

    def _expand(self, number: int, state: State, following: list[tuple[int, State]]) -> tuple[str | None, int]:
        """Add the new states behind one; returns the promise that is broken there, if any, and the number of steps."""
        protocol, seen, steps = self.protocol, self._seen, 0
        for _, after, broken in protocol.successors(state):
            steps += 1
            if broken is not None:
                return broken, steps
            named = self._name(after)
            if _digest(named) in seen:
                continue
            following.append((self._add(named, number), named))
            wrong = protocol.check(named)
            if wrong is not None:
                return wrong, steps
        return None, steps

    def _name(self, state: State) -> State:
        return self.protocol.canonical(state) if self.is_symmetric else state

    def _add(self, state: State, parent: int) -> int:
        digest = _digest(state)
        number = len(self._digests)
        self._seen.add(digest)
        self._digests.append(digest)
        self._parents.append(parent)
        if self.counts_orbits:
            self.orbits += self.protocol.orbit(state)
        return number

    def _story(self, number: int, broken: str) -> tuple[Step, ...]:
        """Steps to a broken promise, in the names of one run."""
        chain: list[int] = []
        while number:
            chain.append(self._digests[number])
            number = self._parents[number]
        state = self.protocol.begin()
        story: list[Step] = []
        for digest in reversed(chain):
            step, state = next(
                (step, after)
                for step, after, wrong in self.protocol.successors(state)
                if wrong is None and _digest(self._name(after)) == digest
            )
            story.append(step)
        for step, after, wrong in self.protocol.successors(state):
            if (wrong or self.protocol.check(after)) is not None:
                return (*story, step)
        raise AssertionError(f"no step ends the story of: {broken}")


def _digest(state: State) -> int:
    processes, flying, history = state
    packed = array("I", (*processes, history, *flying)).tobytes()
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "little")
