"""Repair: completes the suffix that not all servers of a sealed majority have.

Delos, OSDI'20, section 4.2.1. A repair is ascending, copies from any server that has a wave, and
bypasses the seal. It begins at the highest known tail, as everything below is on a majority
already. It never goes past `stop`, the tail that the check is about to return. There is one value
per offset, because one incarnation ordered all of them. So concurrent repairs by several clients,
and abandoned ones, do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NativeState, NativeStored


@attrs.frozen
class Fetch:
    """Read waves from `holder`, beginning with the one that holds `start`; then call `fetched`."""

    holder: NodeId
    start: int
    stop: int


@attrs.frozen
class Complete:
    """Repair these waves into `target`; then call `completed`."""

    target: NodeId
    waves: tuple[Wave, ...]
    known_tail: int


@attrs.frozen
class Repaired:
    """A majority of sealed servers has everything below the stop."""


@attrs.frozen
class StatesChanged:
    """The servers' states have changed: ask them again."""


Effect: TypeAlias = Fetch | Complete | Repaired | StatesChanged


@attrs.define(eq=False)
class SuffixRepair:
    """One repair: from the states of a sealed majority to one in which a majority has everything
    below `stop`.

    The result is all of that majority, or another majority.
    """

    states: Mapping[NodeId, NativeState]
    """States of the sealed servers that answered."""
    start: int
    """Offset below which everything is globally committed."""
    stop: int
    majority: int
    _tails: dict[NodeId, int] = attrs.field(init=False)
    _failed: set[NodeId] = attrs.field(factory=set, init=False)
    """Holders that could not give the wave at `_at`."""
    _at: int = attrs.field(init=False)
    """Offset below which every target that still takes part has everything."""
    _completing: set[NodeId] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._tails = {node: state.local_tail for node, state in self.states.items()}
        self._at = max(self.start, min(self._tails.values()))

    def begin(self) -> list[Effect]:
        """Begin. Ends at once if nothing is missing."""
        return self._next()

    def fetched(self, holder: NodeId, waves: Sequence[Wave]) -> list[Effect]:
        """Take in what `holder` returned; `waves` is empty if it failed."""
        usable = repairable(waves, self._at, self.stop)
        if not usable:
            self._failed.add(holder)
            return self._next()
        targets = [node for node, tail in self._tails.items() if tail < usable[-1].stop]
        self._completing = set(targets)
        self._failed.clear()
        self._at = usable[-1].stop
        return [Complete(target, tuple(usable), self.start) for target in targets] or self._next()

    def completed(self, target: NodeId, reply: NativeStored | None) -> list[Effect]:
        """Take in the answer of `target`; None if there was none. The next step waits for all targets."""
        self._completing.discard(target)
        if reply is not None and reply.accepted:
            self._tails[target] = max(self._tails[target], reply.local_tail)
        else:
            del self._tails[target]
        return [] if self._completing else self._next()

    def _next(self) -> list[Effect]:
        if sum(tail >= self.stop for tail in self._tails.values()) >= self.majority:
            return [Repaired()]
        holders = [node for node, tail in self._tails.items() if tail > self._at and node not in self._failed]
        if self._at >= self.stop or not holders or len(self._tails) < self.majority:
            return [StatesChanged()]
        return [Fetch(min(holders), self._at, self.stop)]


def repairable(waves: Sequence[Wave], start: int, stop: int) -> list[Wave]:
    """Waves that follow one another from `start` and end at or below `stop`."""
    usable: list[Wave] = []
    for wave in waves:
        if wave.first > start or wave.stop > stop:
            break
        if wave.stop > start:
            usable.append(wave)
            start = wave.stop
    return usable
