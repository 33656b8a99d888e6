"""Effects of a replica on their way out: what must wait for the disk, and what need not.

Every write has a number, and all go through one write-ahead log in that order. An effect that vouches for something waits
for the newest write; so it waits for every earlier one: terms before records, records before the
acknowledgements that count them.
"""

from __future__ import annotations

from collections import deque

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog_loglets.raft.core.effects import Change, RaftEffect, RaftPersist


@attrs.define(eq=False)
class RaftOutbox:
    """Effects of the present step, and writes in flight."""

    segment: SegmentId
    newest_write: int = attrs.field(default=0, init=False)
    """Number of the newest write; 0 if there was none."""
    _effects: list[RaftEffect] = attrs.field(factory=list, init=False)
    _pending: deque[tuple[RaftPersist, int]] = attrs.field(factory=deque, init=False)
    """Writes in flight, and the ticks at which they began."""
    _taken_back: set[int] = attrs.field(factory=set, init=False)
    """Numbers of writes in flight whose records are not in the log any more."""

    @property
    def is_writing(self) -> bool:
        return bool(self._pending)

    def has_waited(self, ticks: int, now: int) -> bool:
        """True if the oldest write in flight began `ticks` ago."""
        return bool(self._pending) and now - self._pending[0][1] >= ticks

    def now(self, *effects: RaftEffect) -> None:
        """Add effects that vouch for nothing."""
        self._effects += effects

    def vouch(self, effect: RaftEffect) -> None:
        """Add an effect that rests on all that was written so far, and was not taken back."""
        newest = next((write for write, _ in reversed(self._pending) if write.number not in self._taken_back), None)
        (self._effects if newest is None else newest.after).append(effect)

    def persist(self, changes: tuple[Change, ...], now: int, *, essential: bool) -> int:
        """Add a write; returns its number."""
        self.newest_write += 1
        write = RaftPersist(self.segment, self.newest_write, changes, [], essential)
        self._pending.append((write, now))
        self._effects.append(write)
        return self.newest_write

    def persisted(self, write: RaftPersist) -> None:
        """Note that `write` is durable: what rests on it leaves."""
        assert write is self._pending[0][0], "the WAL calls back in order"
        self._pending.popleft()
        self._effects += write.after

    def refused(self, write: RaftPersist) -> list[RaftEffect]:
        """Note that a write was refused, as a whole; returns what rested on it, and on all later ones.

        Those of records are refused next (`was_taken_back`). The others stand, and nothing rests on them any more.
        """
        place = next(number for number, (pending, _) in enumerate(self._pending) if pending is write)
        behind = [pending for pending, _ in self._pending][place + 1 :]
        del self._pending[place]
        self._taken_back |= {pending.number for pending in behind if pending.has_records}
        rested = [effect for pending in (write, *behind) for effect in pending.after]
        for pending in behind:
            pending.after.clear()
        return rested

    def was_taken_back(self, write: RaftPersist) -> bool:
        """True if the records of a refused write rested on those of one that was refused before; it is forgotten then."""
        if write.number not in self._taken_back:
            return False
        self._taken_back.remove(write.number)
        self._pending = deque(each for each in self._pending if each[0] is not write)
        return True

    def dismiss(self) -> list[RaftEffect]:
        """Remove and return all that waits for the disk, as no write will be called back.

        Writes in flight stay so: what the disk has of them is unknown until it is replayed.
        """
        waiting = [effect for write, _ in self._pending for effect in write.after]
        for write, _ in self._pending:
            write.after.clear()
        return waiting

    def take(self) -> list[RaftEffect]:
        """Remove and return the effects of the present step."""
        effects, self._effects = self._effects, []
        return effects
