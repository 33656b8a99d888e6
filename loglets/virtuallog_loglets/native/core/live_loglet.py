"""One loglet on a running log server: durable state, writes on their way to the disk, waiting clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.durable_state import Change, DurableLoglet, KnownTailRaised
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NativeState


@attrs.frozen
class TailWaiter:
    """A parked `NativeWaitTail`."""

    past: int
    ticket: Any
    expires: int
    """When its time is up, in ticks of the server."""


@attrs.define(eq=False)
class LiveLoglet:
    """State of one loglet in memory.

    The *reserved* tail counts what was handed to the WAL; new waves are checked against it. The
    *durable* tail counts what is synced; answers are made from that.
    """

    segment: SegmentId
    durable: DurableLoglet
    reserved: int
    known_tail: int
    """Highest known tail of all messages. Only a hint which offsets are committed."""
    sealing: bool
    """True once a seal has been requested: stores are refused from that moment, although it is not
    durable yet."""
    in_flight: dict[int, int] = attrs.field(factory=dict)
    """First offset -> checksum of each wave that is reserved but not durable."""
    waiters: list[TailWaiter] = attrs.field(factory=list)

    @classmethod
    def over(cls, segment: SegmentId, durable: DurableLoglet) -> LiveLoglet:
        return cls(segment, durable, durable.tail, durable.known_tail, durable.sealed)

    @property
    def state(self) -> NativeState:
        """Durable state at this moment."""
        durable = self.durable
        return NativeState(
            local_tail=durable.tail, sealed=durable.sealed, known_tail=self.known_tail, trim=durable.trim
        )

    def parse_untrusted(self, blobs: Sequence[bytes]) -> list[Wave]:
        """Decode waves of this loglet. Raises MalformedError or CorruptionError."""
        if not blobs:
            raise MalformedError("a store without a wave")
        offered: list[Wave] = []
        for blob in blobs:
            wave = waves.parse_untrusted(blob)
            if wave.segment != self.segment:
                raise CorruptionError(f"a wave of loglet {wave.segment} was offered to loglet {self.segment}")
            offered.append(wave)
        return offered

    def conflicts(self, wave: Wave) -> bool:
        """True if other bytes are stored under the same offsets: then there must have been two sequencers."""
        if wave.first >= self.reserved:
            return False
        checksum = self.in_flight.get(wave.first)
        if checksum is not None:
            return checksum != wave.checksum
        return self.durable.waves.conflicts(wave)

    def may_follow(self, wave: Wave) -> bool:
        """True if everything before the wave is stored here or globally committed (local-commit
        rule, section 4.2.1).

        Without this rule a majority for a wave would not be a majority for all before it, and
        acknowledgements could not be cumulative.
        """
        return wave.first == self.reserved or self.known_tail >= wave.first

    def reserve(self, offered: Sequence[Wave]) -> tuple[Change, ...]:
        """Reserve the waves that are new here, up to the first that comes too early. Returns their changes."""
        changes: list[Change] = []
        for wave in offered:
            if wave.stop <= self.reserved or wave.stop <= self.durable.trim:
                continue
            if not self.may_follow(wave):
                break
            if wave.first != self.reserved:  # a gap rests on the known tail: save both, in this order
                changes.append(KnownTailRaised(self.segment, self.known_tail))
            changes.append(wave)
            self.in_flight[wave.first] = wave.checksum
            self.reserved = wave.stop
        return tuple(changes)

    def settle(self, changes: Sequence[Change]) -> None:
        """Note that `changes` are durable and applied."""
        for change in changes:
            if isinstance(change, Wave):
                self.in_flight.pop(change.first, None)
        durable = self.durable
        self.reserved = max(self.reserved, durable.tail)
        self.known_tail = max(self.known_tail, durable.known_tail)

    def roll_back(self, *, sealing: bool) -> None:
        """Take back reservations after a failed write.

        The fold skips what was reserved behind it, so it is offered again. Nothing of it has been
        accepted.
        """
        self.reserved = self.durable.tail
        self.in_flight.clear()
        self.sealing = sealing or self.durable.sealed

    def reached(self, past: int) -> bool:
        """True if a `NativeWaitTail` for `past` can be answered."""
        return self.durable.sealed or self.durable.tail > past or self.known_tail > past

    def take_ready(self, now: int) -> list[TailWaiter]:
        """Remove and return the waiters whose tail has come or whose time is up."""
        ready: list[TailWaiter] = []
        others: list[TailWaiter] = []
        for waiter in self.waiters:
            (ready if self.reached(waiter.past) or waiter.expires <= now else others).append(waiter)
        self.waiters = others
        return ready

    @property
    def is_blank(self) -> bool:
        """True if no state was recorded: dropping it is indistinguishable from never having created
        it.

        Parked waiters do not count as state.
        """
        durable = self.durable
        nothing_durable = not (durable.tail or durable.sealed or durable.known_tail or durable.trim)
        nothing_coming = not (self.in_flight or self.sealing or self.known_tail)
        return nothing_durable and nothing_coming
