"""One direction between two simulated nodes: what it does to the segments that travel over it.

What is sent at the same moment travels in one segment with one fate, as in a TCP stream. Segments keep their order
unless a reorder is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

import attrs

from virtuallog.testing.timeline import Timeline

Arrive: TypeAlias = Callable[[], None]
Count: TypeAlias = Callable[[str], None]


@attrs.frozen(kw_only=True)
class LinkQuality:
    """How a link behaves when nothing special is wrong with it. Probabilities are per segment."""

    delay_seconds: float = 0.0005
    """Least delay of one direction; each segment draws up to twice that."""
    tail_probability: float = 0.0
    tail_seconds: float = 0.0
    """Mean of the exponential delay that the unlucky ones have on top."""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Probability of overtaking, or being overtaken by, what else is on the link."""
    refuse: float = 0.5
    """Probability that a call to a dead process fails at once (connection refused) and not by its timeout."""


@attrs.define(eq=False)
class Link:
    """Assign to `blocked`, `clogged_until` and `slowness` to make it faulty."""

    timeline: Timeline
    random: random.Random
    quality: LinkQuality
    blocked: bool = False
    """Everything is lost, what is on the way included."""
    clogged_until: float = 0.0
    """Nothing arrives before this time; then all of it does."""
    slowness: float = 1.0
    """Factor on every delay."""
    _newest_arrival: float = attrs.field(default=0.0, init=False)
    _boarding: list[Arrive] | None = attrs.field(default=None, init=False)
    """The segment that what is sent at `_boarding_time` may still join."""
    _boarding_time: float = attrs.field(default=-1.0, init=False)

    def send(self, arrive: Arrive, count: Count) -> None:
        """Call `arrive` when the message has travelled: once, twice or never. Each fault is told to `count`."""
        now = self.timeline.now()
        if self._boarding is not None and self._boarding_time == now:
            self._boarding.append(arrive)
            return
        if self.blocked or self.draw(self.quality.loss):
            count("blocked" if self.blocked else "lost")
            return
        self._boarding, self._boarding_time = [arrive], now
        self._dispatch(self._boarding, count)
        if self.draw(self.quality.duplicate):
            count("duplicated")
            self._dispatch(self._boarding, count)

    def heal(self) -> None:
        self.blocked, self.clogged_until, self.slowness = False, 0.0, 1.0

    def draw(self, probability: float) -> bool:
        return probability > 0.0 and self.random.random() < probability

    def _dispatch(self, segment: list[Arrive], count: Count) -> None:
        def arrive() -> None:
            if self._boarding is segment:
                self._boarding = None
            if self.blocked:
                count("blocked")
                return
            for message in segment:
                message()

        self.timeline.schedule_at(self._arrival_time(count), arrive)

    def _arrival_time(self, count: Count) -> float:
        quality = self.quality
        delay = quality.delay_seconds * (1.0 + self.random.random())
        if self.draw(quality.tail_probability):
            count("delayed")
            delay += self.random.expovariate(1.0 / quality.tail_seconds)
        if self.slowness != 1.0:
            count("slowed")
        time = self.timeline.now() + delay * self.slowness
        if time < self.clogged_until:
            count("clogged")
            time = self.clogged_until
        if self.draw(quality.reorder):
            count("reordered")
            return time + self.random.random() * quality.delay_seconds * 4
        self._newest_arrival = time = max(time, self._newest_arrival)
        return time
