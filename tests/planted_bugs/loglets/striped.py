"""Bugs of the striped loglet. Some are in its published text, or follow from reading that text in haste (specs: Delos, section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.provider import LogletProvider, RetainedLoglets
from virtuallog.contract.types import LogletOffset, PlacedBatch, Sealed
from virtuallog_loglets.striped import planner as planner_module
from virtuallog_loglets.striped.core import stripe_reads as reading_module
from virtuallog_loglets.striped.core.fill_policy import CheckStripeTail
from virtuallog_loglets.striped.core.layout import StripedLayout, offset_of, slots_below
from virtuallog_loglets.striped.core.stripe_reads import _Run, _runs
from virtuallog_loglets.striped.drivers.append_barrier import AppendBarrier, _Waiter
from virtuallog_loglets.striped.drivers.fan_out import all_of
from virtuallog_loglets.striped.loglet import StripedLoglet
from virtuallog_loglets.striped.planner import inner, kind_of_stripes
from virtuallog_loglets.striped.provider import StripedProvider

step_taken = AppendBarrier._take_step
read_runs = _runs

TOO_EARLY: Final = ["loglet tails move forward", "loglet appends follow the tail", "acknowledged below the stop"]
"""Consequences of an acknowledgement, or of a tail, that does not know of a hole below."""
_INVENTED: Final = SessionId(b"filled by no one")


@mutant(
    AppendBarrier._start_fills,
    scenario="stripes",
    published="specs: Delos, section 6, idle stripes",
    found_by=["lone append"],
)
def idle_stripes_are_left_alone(self: AppendBarrier) -> None:
    """A stripe without appends is never filled."""


@mutant(
    AppendBarrier.wait, scenario="stripes", published="Delos, OSDI'20, 4.2.2: acknowledged in order", found_by=TOO_EARLY
)
async def acknowledged_before_all_below_is_filled(self: AppendBarrier, slot: int) -> None:
    """An append is acknowledged as soon as its own stripe has it."""
    self.progress.wait(slot, _Waiter())
    self._start_fills()


@mutant(
    StripedLoglet.seal,
    scenario="halves",
    published="specs: Delos, section 6, seal",
    found_by=["sealed takes nothing", *TOO_EARLY],
)
async def only_one_stripe_is_sealed(self: StripedLoglet) -> None:
    """The others would find out."""
    await self._stripes[0].seal()


@mutant(StripedLayout.first_hole, scenario="stripes", published="specs: Delos, section 6, holes", found_by=[
    *TOO_EARLY, "loglet reads without holes", "loglet invents nothing", "lone append", "progress",
    "known tails are readable", "errors as documented", "loglet gaps are honest",
])  # fmt: skip
def tail_behind_the_holes(self: StripedLayout, tails: Sequence[int]) -> int:
    """The end of the farthest stripe is taken for the end of all."""
    return max(self.slot(stripe, tail) for stripe, tail in enumerate(tails))


@mutant(
    AppendBarrier._take_step,
    scenario="halves",
    published="specs: Delos, section 6: if any stripe sealed while waiting, L < tail -> ack",
    found_by=TOO_EARLY,
    within=150,
)
async def sealed_tails_count_as_filled(self: AppendBarrier, stripe: int) -> None:
    """A stripe that was sealed meanwhile has what lies below its tail, so that much is acknowledged."""
    if isinstance(self._fill_policies[stripe].step(self.progress.lacking(stripe)), CheckStripeTail):
        tail = await self._stripes[stripe].check_tail()
        if isinstance(tail, Sealed):
            self.learn(stripe, tail.tail)
    await step_taken(self, stripe)


@mutant(
    kind_of_stripes,
    used_in=planner_module,
    scenario="stripes",
    published="specs: Delos, section 6, contiguous stripes",
    found_by=["sparse stripes are refused"],
)
def sparse_stripes_are_accepted(providers: Mapping[str, LogletProvider], of: str) -> LogletProvider:
    """Any kind of loglets can be stripes."""
    return inner(providers, of)


@mutant(StripedLoglet.prefix_trim, scenario="stripes", found_by=[
    "loglet gaps are honest", "loglet trims are modest", "acknowledged is readable",
])  # fmt: skip
async def trim_is_rounded_up(self: StripedLoglet, offset: LogletOffset) -> LogletOffset:
    """The batch that the offset is in goes as well."""
    offset = LogletOffset(min(offset, (await self.check_tail()).tail))
    slot = slots_below(offset + 1)
    points = await all_of(
        {
            number: lambda number=number, stripe=stripe: stripe.prefix_trim(  # type: ignore[misc]
                LogletOffset(self._layout.places_below(number, slot))
            )
            for number, stripe in enumerate(self._stripes)
        }
    )
    return LogletOffset(min(offset, offset_of(self._layout.first_hole(list(points.values())))))


@mutant(_runs, used_in=reading_module, scenario="stripes", found_by=["loglet invents nothing"])
def fillers_are_read_as_data(items: Sequence[Placed]) -> Iterator[_Run]:
    """Readers are given an empty entry for each filler."""
    fillers = {
        place
        for item in items
        if isinstance(item, PlacedBatch)
        for place, payload in zip(item.places, item.batch.payloads[item.first :], strict=False)
        if not payload
    }
    for run in read_runs(items):
        body = Batch.build(_INVENTED, run.stop, [b""]).blob if run.stop - 1 in fillers else run.body
        yield _Run(run.stop, run.kind, body, run.time_ms)


@mutant(StripedProvider.loglets, scenario="striped", found_by=["progress", "no unexpected error", "healing"])
def nodes_do_not_know_the_stripes(self: StripedProvider, segment: SegmentId, config: bytes) -> RetainedLoglets:
    """The nodes keep what has the id of the segment, which is nothing; so they drop the stripes, or never make them."""
    return {segment: (self.kind, config)}


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
