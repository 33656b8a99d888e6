"""Memory loglets that differ from the original in one thing: one is still right, the others each break a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import ReconfigurationNeededError, SealedError, UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Open, PlacedBatch, Sealed, Tail
from virtuallog.testing.model import LogModel
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider

SLOW_SECONDS = 0.005
"""Time between two steps that should be one, or the other way round: time enough for others."""


@attrs.define
class VariantProvider(MemoryProvider):
    """Opens clients of another class."""

    loglet_class: type[MemoryLoglet] = attrs.field(kw_only=True)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        original = super().open(segment, config, environment)
        return self.loglet_class(original._shared, original._clock)


class Variant(MemoryLoglet):
    """Base of the variants."""

    @property
    def model(self) -> LogModel:
        return self._shared.model

    def wake(self) -> None:
        self._shared.changed.unpark_all()


class Zombies(Variant):
    """Right. An append that meets the seal lands all the same, unacknowledged: the sealed tail grows (section 3.4)."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        try:
            return await super().append(batch, opens=opens, expected_tail=expected_tail)
        except SealedError:
            if batch not in self.model.offered and self._continues(batch, opens=opens):
                self.model.land(batch, range(self.model.tail, self.model.tail + batch.count))
            raise SealedError from None

    def _continues(self, batch: Batch, *, opens: bool) -> bool:
        return batch.first_sequence == self.model.next_sequence.get(
            batch.session, batch.first_sequence if opens else -1
        )


class Stalls(Variant):
    """Correct. After some batches nothing is decided any more until a client seals, as when a sequencer dies."""

    batches_max = 5

    @property
    def stalled(self) -> bool:
        return not self.model.sealed and len(self.model.batches) >= self.batches_max

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        await self._reach()
        if self.stalled:
            raise UnavailableError("no node orders")
        return await super().append(batch, opens=opens, expected_tail=expected_tail)

    async def check_tail(self) -> Tail:
        await self._reach()
        if self.stalled:
            raise ReconfigurationNeededError("entries in flight stay undecided until a client seals")
        return await super().check_tail()


class StallsForGood(Stalls):
    """Decides nothing after a seal either."""

    @property
    def stalled(self) -> bool:
        return len(self.model.batches) >= self.batches_max


class SealBitFirst(Zombies):
    """Reads the seal bit first and the tail second, as the published paper allows."""

    async def check_tail(self) -> Tail:
        if (await self._reach()).sealed:
            return Sealed(self.model.tail)
        await self._clock.sleep(SLOW_SECONDS)
        return Open(self.model.tail)


class SealCheckFirst(Variant):
    """Checks the seal first and writes second."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        if (await self._reach()).sealed:
            raise SealedError
        await self._clock.sleep(SLOW_SECONDS)
        sealed, self.model.sealed = self.model.sealed, False
        try:
            return self.model.append(batch, opens=opens, expected_tail=expected_tail)
        finally:
            self.model.sealed = sealed
            self.wake()


class AcknowledgesAfterSeal(Variant):
    """Takes the seal as a suggestion."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        await self._reach()
        sealed, self.model.sealed = self.model.sealed, False
        try:
            return self.model.append(batch, opens=opens, expected_tail=expected_tail)
        finally:
            self.model.sealed = sealed
            self.wake()


class TailIsLastWritten(Variant):
    """Calls the last written place the tail."""

    async def check_tail(self) -> Tail:
        tail = await super().check_tail()
        return attrs.evolve(tail, tail=max(0, tail.tail - 1))


class TailIsCached(Variant):
    """Answers with the tail as of this client's last append."""

    async def check_tail(self) -> Tail:
        tail = await super().check_tail()
        own = [
            placed.stop for placed in self.model.batches if placed.batch.session == self.model.batches[0].batch.session
        ]
        return Open(max(own, default=0)) if isinstance(tail, Open) else tail


class SealedTailShrinks(Variant):
    """Drops its last entry when it is sealed, one at each question."""

    async def check_tail(self) -> Tail:
        tail = await super().check_tail()
        if isinstance(tail, Sealed) and len(self.model.batches) == 1:
            self.model.tail = max(1, self.model.tail - 1)
        return tail


class DuplicatesWhatIsOfferedAgain(Variant):
    """Appends a batch as often as it is offered."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        model = await self._reach()
        if batch in model.offered:
            del model.offered[batch], model.next_sequence[batch.session]
            opens = True
        return await super().append(batch, opens=opens, expected_tail=expected_tail)


class ReordersSessions(Variant):
    """Places batches as they come."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        model = await self._reach()
        if batch not in model.offered:
            model.next_sequence.pop(batch.session, None)
        return model.append(batch, opens=True, expected_tail=expected_tail)


class TrimsTooFar(Variant):
    """Takes the trim point for the last trimmed place."""

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        await super().prefix_trim(LogletOffset(offset + 1))
        return LogletOffset(min(offset, self.model.tail))


class TrimMovesTheTail(Variant):
    """Believes that a log trimmed up to a place must be that long."""

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        self.model.tail = max(self.model.tail, offset)
        return await super().prefix_trim(offset)


class ReadSkipsAPlace(Variant):
    """Loses the first place of every second batch that it reads."""

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        items = [*await super().read(start, stop, max_bytes)]
        return [item.clip(item.start + 1, item.stop) or item if index % 2 else item for index, item in enumerate(items)]


class ReadIgnoresItsLimit(Variant):
    """Returns all there is."""

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return await super().read(start, stop, 1 << 40)


class ReadDoesNotClip(Variant):
    """Returns whole batches, also where the range begins or ends within one."""

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        whole: dict[Batch, PlacedBatch] = {placed.batch: placed for placed in self.model.batches}
        items = await super().read(start, stop, max_bytes)
        return [whole[item.batch] if isinstance(item, PlacedBatch) else item for item in items]


class WaitsOnlyForAppends(Variant):
    """A seal does not wake who waits."""

    async def seal(self) -> None:
        (await self._reach()).sealed = True

    async def wait_tail(self, past: LogletOffset) -> Tail:
        while (await self._reach()).tail <= past:
            await self._shared.changed.park()
        return self.model.check_tail()


class CancelledAppendHoldsTheLock(Variant):
    """Takes a lock for the append and gives it back only at its regular end."""

    locked = False

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        while self.locked:
            await self._clock.sleep(1)
        self.locked = True
        places = await super().append(batch, opens=opens, expected_tail=expected_tail)
        self.locked = False
        return places


BROKEN: Mapping[type[Variant], str] = {
    SealBitFirst: "random_histories_are_those_of_a_log",
    StallsForGood: "random_histories_are_those_of_a_log",
    SealCheckFirst: "acknowledged_lies_below_every_sealed_tail",
    AcknowledgesAfterSeal: "a_sealed_loglet_refuses_appends",
    TailIsLastWritten: "the_tail_is_the_first_unwritten_place",
    TailIsCached: "an_open_tail_covers_all_acknowledged",
    SealedTailShrinks: "a_sealed_tail_never_shrinks",
    DuplicatesWhatIsOfferedAgain: "the_same_batch_again_gets_its_old_places",
    ReordersSessions: "a_gap_in_a_session_is_refused",
    TrimsTooFar: "a_trim_drops_only_what_is_below",
    TrimMovesTheTail: "a_trim_stops_at_the_tail",
    ReadSkipsAPlace: "a_read_covers_its_range_without_holes",
    ReadIgnoresItsLimit: "a_read_ends_early_at_its_limit",
    ReadDoesNotClip: "a_read_covers_its_range_without_holes",
    WaitsOnlyForAppends: "waiting_ends_with_a_seal",
    CancelledAppendHoldsTheLock: "a_cancelled_append_may_be_offered_again",
}
"""Broken variants, and the clause that must notice each."""
