"""Client of a StripedLoglet: implements `virtuallog.contract.loglet.Loglet` by calls to its stripes.

Tail first, seal bit second: once one stripe is sealed, all are, and their tails are read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    ForbiddenError,
    OutOfOrderError,
    ReconfigurationNeededError,
    SealedError,
    UnavailableError,
    UnsupportedError,
)
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Open, Sealed, Tail
from virtuallog_loglets.striped.core.acknowledgement import StripeProgress
from virtuallog_loglets.striped.core.batch_wrapper import BatchWrapper
from virtuallog_loglets.striped.core.layout import StripedLayout, offset_of, slot_of, slots_below
from virtuallog_loglets.striped.core.stripe_reads import StripeReadBudget, interleave_untrusted
from virtuallog_loglets.striped.drivers.append_barrier import AppendBarrier
from virtuallog_loglets.striped.drivers.fan_out import all_of, ask_all, raise_worst

WAIT_SECONDS: Final = 2.0
"""Time in seconds that `wait_tail` waits before it returns the tail unchanged."""
FILLER_PLACES: Final = 1024
"""Most places of one filler: 4 KiB."""
CHECKS_MAX: Final = 3
"""Most rounds of one tail check. A stripe that was sealed and then seems open has been asked at a
bad moment; one that keeps saying so is broken."""

_SEALED = CrashPoint("striped: one stripe more is sealed, the others may not be")


@attrs.define(eq=False)
class StripedLoglet:
    """Client of one StripedLoglet."""

    _stripes: Sequence[Loglet]
    _environment: Environment
    _filler_places: int = FILLER_PLACES
    _layout: StripedLayout = attrs.field(init=False)
    _progress: StripeProgress = attrs.field(init=False)
    _barrier: AppendBarrier = attrs.field(init=False)
    _read_budget: StripeReadBudget = attrs.field(init=False)
    _batch_wrapper: BatchWrapper = attrs.field(factory=BatchWrapper, init=False)

    def __attrs_post_init__(self) -> None:
        self._layout = StripedLayout(len(self._stripes))
        self._progress = StripeProgress(self._layout)
        self._barrier = AppendBarrier(self._progress, self._stripes, self._environment, self._filler_places)
        self._read_budget = StripeReadBudget(len(self._stripes))

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        if expected_tail is not None:
            raise UnsupportedError("a striped loglet has no conditional appends: no single place knows its tail")
        stripe = self._layout.stripe_of(batch.session)
        wrapped = self._batch_wrapper.wrap(batch, opens=opens)
        place = await self._append_to(stripe, wrapped, opens=opens)
        slot = self._layout.slot(stripe, place)
        await self._barrier.wait(slot)
        first = offset_of(slot)
        return range(first, first + batch.count)

    async def check_tail(self) -> Tail:
        """Check the tail as the contract says.

        All stripes are open; or all are sealed, by this call if need be, and their tails are read
        again after that.
        """
        for _ in range(CHECKS_MAX):
            answers = await ask_all({number: stripe.check_tail for number, stripe in enumerate(self._stripes)})
            tails = {number: answer for number, answer in answers.items() if isinstance(answer, Open | Sealed)}
            for number, tail in tails.items():
                if isinstance(tail, Open):
                    self._barrier.learn(number, tail.tail)
            sealed = sum(isinstance(tail, Sealed) for tail in tails.values())
            if sealed in {0, len(answers)} and len(tails) == len(answers):
                end = offset_of(self._layout.first_hole([tail.tail for tail in tails.values()]))
                return Sealed(end) if sealed else Open(end)
            if sealed == 0 or any(isinstance(answer, SealedError) for answer in answers.values()):
                raise_worst(answers.values())
            await self._seal_the_others()
        raise_worst(answers.values())
        raise UnavailableError("stripes that have been sealed seem open")

    async def wait_tail(self, past: LogletOffset) -> Tail:
        clock = self._environment.clock
        deadline = clock.monotonic() + WAIT_SECONDS
        while (filled := self._progress.filled) <= slot_of(past):
            if clock.monotonic() >= deadline:
                return await self.check_tail()
            stripe, place = self._layout.place(filled)  # only there can the first hole be closed
            tail = await self._stripes[stripe].wait_tail(LogletOffset(place))
            if isinstance(tail, Sealed):
                return await self.check_tail()
            self._barrier.learn(stripe, tail.tail)
        return Open(offset_of(filled))

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        first, last = slot_of(start), slots_below(stop)
        if (slots := self._read_budget.slots_max(max_bytes)) is not None and first + slots < last:
            last = first + slots
            stop = LogletOffset(offset_of(last))
        share = max(1, max_bytes // min(len(self._stripes), last - first))
        found = await all_of(
            {
                number: partial(
                    stripe.read,
                    LogletOffset(self._layout.places_below(number, first)),
                    LogletOffset(self._layout.places_below(number, last)),
                    share,
                )
                for number, stripe in enumerate(self._stripes)
                if self._layout.places_below(number, first) < self._layout.places_below(number, last)
            }
        )
        items = interleave_untrusted(self._layout, found, start, stop)
        self._read_budget.given(items)
        return items

    async def seal(self) -> None:
        await all_of({number: partial(_seal, stripe) for number, stripe in enumerate(self._stripes)})

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        """Trim as the contract says. A slot is one entry of a stripe and goes as a whole, so a trim
        stops before the slot that `offset` is in."""
        if offset_of(self._progress.filled) < offset:
            offset = LogletOffset(min(offset, (await self.check_tail()).tail))
        slot = slot_of(offset)
        points = await all_of(
            {
                number: partial(stripe.prefix_trim, LogletOffset(self._layout.places_below(number, slot)))
                for number, stripe in enumerate(self._stripes)
            }
        )
        return LogletOffset(offset_of(self._layout.first_hole(list(points.values()))))

    async def _append_to(self, stripe: int, wrapped: Batch, *, opens: bool) -> int:
        """Append a wrapped batch to its stripe. Returns its place there."""
        self._barrier.offered(stripe)
        try:
            place = (await self._stripes[stripe].append(wrapped, opens=opens)).start
            self._barrier.placed(stripe, place)
        except OutOfOrderError as error:
            raise self._batch_wrapper.translate(wrapped.session, error) from error
        except (SealedError, ReconfigurationNeededError) as error:
            self._barrier.fail(stripe, error)  # no stripe can do without the others
            raise
        finally:
            self._barrier.answered(stripe)
        return place

    async def _seal_the_others(self) -> None:
        try:
            await self.seal()
        except ForbiddenError as error:
            # Some stripe is sealed, and this client may not seal the rest. The chain will say
            # what follows.
            raise SealedError(f"sealed, and left to others: {error}") from error


async def _seal(stripe: Loglet) -> None:
    await stripe.seal()
    _SEALED.reached()
