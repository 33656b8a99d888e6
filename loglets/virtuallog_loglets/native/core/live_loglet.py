"""One loglet on a LogServer that runs: what is durable, what is on its way to the disk, and who waits.             Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.durable_state import Change, DurableLoglet, KnownTailRaised, WaveStored
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NativeState


@attrs.frozen
class TailWaiter:
    """A parked `NativeWaitTail`."""

    past: int
    ticket: Any
    expires: int
    """In ticks of the server."""


@attrs.define(eq=False)
class LiveLoglet:
    """The *reserved* tail counts what was handed to the WAL; new waves are checked against it. The *durable* tail
    counts what is synced; answers are made of that."""

    segment: SegmentId
    durable: DurableLoglet
    reserved: int
    known_tail: int
    """The maximum of what anybody said; nothing but a hint which positions are committed."""
    sealing: bool
    """A seal has been asked for: stores are refused from that moment, although it is not durable yet."""
    in_flight: dict[int, int] = attrs.field(factory=dict)
    """First offset -> checksum of each wave that is reserved and not durable."""
    waiters: list[TailWaiter] = attrs.field(factory=list)

    @classmethod
    def over(cls, segment: SegmentId, durable: DurableLoglet) -> LiveLoglet:
        return cls(segment, durable, durable.tail, durable.known_tail, durable.sealed)

    @property
    def state(self) -> NativeState:
        """One snapshot of what is durable."""
        durable = self.durable
        return NativeState(
            local_tail=durable.tail, sealed=durable.sealed, known_tail=self.known_tail, trim=durable.trim
        )

    def parse_untrusted(self, blobs: Sequence[bytes]) -> list[Wave]:
        """Raises MalformedError or CorruptionError."""
        if not blobs:
            raise MalformedError("a store without a wave")
        offered = [waves.parse_untrusted(blob) for blob in blobs]
        for wave in offered:
            if wave.segment != self.segment:
                raise CorruptionError(f"a wave of loglet {wave.segment} was offered to loglet {self.segment}")
        return offered

    def conflicts(self, wave: Wave) -> bool:
        """Whether other bytes are here under the same offsets: then there must have been two sequencers."""
        if wave.first >= self.reserved:
            return False
        checksum = self.in_flight.get(wave.first)
        if checksum is not None:
            return checksum != wave.checksum
        return self.durable.waves.conflicts(wave)

    def may_follow(self, wave: Wave) -> bool:
        """The local-commit rule (section 4.2.1): everything before the wave is stored here or globally committed.

        Without it a majority for a wave would not be a majority for all before it, and acks could not be cumulative.
        """
        return wave.first == self.reserved or self.known_tail >= wave.first

    def reserve(self, offered: Sequence[Wave]) -> tuple[Change, ...]:
        """Give the waves that are new here their place, up to the first that comes too early."""
        changes: list[Change] = []
        for wave in offered:
            if wave.stop <= max(self.reserved, self.durable.trim):
                continue
            if not self.may_follow(wave):
                break
            if wave.first != self.reserved:  # a gap rests on the known tail: save both, in this order
                changes.append(KnownTailRaised(self.segment, self.known_tail))
            changes.append(WaveStored(wave))
            self.in_flight[wave.first] = wave.checksum
            self.reserved = wave.stop
        return tuple(changes)

    def settle(self, changes: Sequence[Change]) -> None:
        """The fold has taken in `changes`."""
        for change in changes:
            if isinstance(change, WaveStored):
                self.in_flight.pop(change.wave.first, None)
        self.reserved = max(self.reserved, self.durable.tail)
        self.known_tail = max(self.known_tail, self.durable.known_tail)

    def roll_back(self, *, sealing: bool) -> None:
        """Something reserved was not written. What was reserved behind it is passed over by the fold, so it is offered
        again; nothing of it has been accepted."""
        self.reserved = self.durable.tail
        self.in_flight.clear()
        self.sealing = sealing or self.durable.sealed

    def reached(self, past: int) -> bool:
        """Whether a `NativeWaitTail` has something to tell."""
        return self.durable.sealed or self.durable.tail > past or self.known_tail > past

    def take_ready(self, now: int) -> list[TailWaiter]:
        """The waiters whose tail has come, or whose time is up; they wait no longer."""
        ready: list[TailWaiter] = []
        others: list[TailWaiter] = []
        for waiter in self.waiters:
            (ready if self.reached(waiter.past) or waiter.expires <= now else others).append(waiter)
        self.waiters = others
        return ready

    @property
    def is_blank(self) -> bool:
        """Nothing has come of it, whoever waits for its tail: a server that forgets it now says the same as before."""
        durable = self.durable
        nothing_durable = not (durable.tail or durable.sealed or durable.known_tail or durable.trim)
        nothing_coming = not (self.in_flight or self.sealing or self.known_tail)
        return nothing_durable and nothing_coming
