"""One direction between two simulated nodes: the fate of the segments that travel over it.

Messages sent at the same moment travel in one segment with one fate, as in a TCP stream. Segments
keep their order unless a reorder is drawn, or an old one comes back (a replay).

Each kind of fate is drawn from a source of its own, so a network without one of them draws the
others the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

import attrs

from virtuallog.testing.sim.timeline import Timeline

Arrive: TypeAlias = Callable[[], None]
Count: TypeAlias = Callable[[str], None]


@attrs.frozen(kw_only=True)
class LinkQuality:
    """Behaviour of a link without special faults. Probabilities are per segment."""

    delay_seconds: float = 0.0005
    """Least delay of one direction; each segment draws up to twice that."""
    tail_probability: float = 0.0
    tail_seconds: float = 0.0
    """Mean of the exponential delay that some have on top."""
    loss: float = 0.0
    duplicate: float = 0.0
    """Probability of arriving twice, both times as soon as delays allow."""
    replay: float = 0.0
    """Probability of arriving once more long after, when its call may be over."""
    replay_seconds: float = 5.0
    """Mean time until such a replay."""
    reorder: float = 0.0
    """Probability of overtaking, or being overtaken by, other segments on the link."""
    refuse: float = 0.5
    """Probability that a call to a dead process fails at once (connection refused) and not by its timeout."""


@attrs.frozen
class Chances:
    """Sources of randomness, one for each kind of fate."""

    delay: random.Random
    tail: random.Random
    loss: random.Random
    duplicate: random.Random
    replay: random.Random
    reorder: random.Random
    refuse: random.Random

    @classmethod
    def of(cls, source: random.Random) -> Chances:
        return cls(*(random.Random(source.getrandbits(64)) for _ in attrs.fields(cls)))


@attrs.define(eq=False)
class SimulatedLink:
    """A link. Call `cut`, or assign to `blocked`, `clogged_until` and `slowness`, to make it faulty."""

    timeline: Timeline
    chances: Chances
    quality: LinkQuality
    clogged_until: float = 0.0
    """Nothing arrives before this time; then everything does."""
    slowness: float = 1.0
    """Factor on every delay."""
    _cuts: list[str] = attrs.field(factory=list, init=False)
    """Causes of the cuts, one for each call of `cut`."""
    _newest_arrival: float = attrs.field(default=0.0, init=False)
    _boarding: list[Arrive] | None = attrs.field(default=None, init=False)
    """Segment that messages sent at `_boarding_time` may still join; None if there is none."""
    _boarding_time: float = attrs.field(default=-1.0, init=False)

    @property
    def blocked(self) -> bool:
        """True while everything is lost, segments on the way included. Assigning False mends all cuts."""
        return bool(self._cuts)

    @blocked.setter
    def blocked(self, blocked: bool) -> None:
        self._cuts = ["blocked"] if blocked else []

    def cut(self, cause: str) -> None:
        """Lose everything until `mend` was called as often, or `heal` once. Losses are counted as
        `cause`."""
        self._cuts.append(cause)

    def mend(self, cause: str) -> None:
        """Take back one `cut`; none is left after `heal`."""
        if cause in self._cuts:
            self._cuts.remove(cause)

    def heal(self) -> None:
        self._cuts, self.clogged_until, self.slowness = [], 0.0, 1.0
        # Else all later segments queue behind one that was slow fiftyfold: for minutes, with bad
        # luck.
        self._newest_arrival = self.timeline.now()

    def send(self, arrive: Arrive, count: Count) -> None:
        """Call `arrive` when the message has travelled: once, several times or never. Each fault
        goes to `count`."""
        now, quality, chances = self.timeline.now(), self.quality, self.chances
        if self._boarding is not None and self._boarding_time == now:
            self._boarding.append(arrive)
            return
        if self._cuts:
            count(self._cuts[-1])
            return
        if drawn(chances.loss, quality.loss):
            count("lost")
            return
        segment = [arrive]
        self._boarding, self._boarding_time = segment, now
        self._dispatch(segment, self._arrival_time(count), count)
        if drawn(chances.duplicate, quality.duplicate):
            count("duplicated")
            self._dispatch(segment, self._arrival_time(count), count)
        if drawn(chances.replay, quality.replay):
            count("replayed")
            self._dispatch(segment, now + chances.replay.expovariate(1.0 / quality.replay_seconds), count)

    def refuses(self) -> bool:
        """Draw if a call to a dead process is refused at once."""
        return drawn(self.chances.refuse, self.quality.refuse)

    def _dispatch(self, segment: list[Arrive], time: float, count: Count) -> None:
        def arrive() -> None:
            if self._boarding is segment:
                self._boarding = None
            if self._cuts:
                count(self._cuts[-1])
                return
            for message in segment:
                message()

        self.timeline.schedule_at(time, arrive)

    def _arrival_time(self, count: Count) -> float:
        quality, chances = self.quality, self.chances
        delay = quality.delay_seconds * (1.0 + chances.delay.random())
        if drawn(chances.tail, quality.tail_probability):
            count("delayed")
            delay += chances.tail.expovariate(1.0 / quality.tail_seconds)
        if self.slowness != 1.0:
            count("slowed")
        time = self.timeline.now() + delay * self.slowness
        if time < self.clogged_until:
            count("clogged")
            time = self.clogged_until
        if drawn(chances.reorder, quality.reorder):
            count("reordered")
            return time + chances.reorder.random() * quality.delay_seconds * 4
        self._newest_arrival = time = max(time, self._newest_arrival)
        return time


def drawn(source: random.Random, probability: float) -> bool:
    # An impossible fault draws nothing: a run without faults does not pay for them.
    return probability > 0.0 and source.random() < probability
