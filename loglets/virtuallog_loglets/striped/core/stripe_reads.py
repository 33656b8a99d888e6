"""Puts what the stripes gave side by side, slot by slot.                                                                Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind
from virtuallog.ordering import slots
from virtuallog_loglets.striped.core.layout import FILLER, StripedLayout, offset_of, slot_of, slots_below

# FOLDED from virtuallog_loglets.striped.portions: How much of a striped loglet is read at once.                                                                         Pure.
#
# Whatever a stripe is asked for, it gives a batch at least, however large that is. Asked all together, 64 stripes with batches of 8 MiB would
# give 512 MiB where the caller wants one. So as many slots are read as the batches of earlier answers let expect.

GUESS_BYTES: Final = 64 << 10
"""Of a batch, before the first read: more than most have, and 16 of them fit what a reader asks for."""


@attrs.define(eq=False)
class StripeReadBudget:
    """The reads of one client."""

    _stripes: int
    _batch_bytes: int = attrs.field(default=GUESS_BYTES, init=False)
    """Of the largest batch lately: each read that brings smaller ones halves it."""

    def slots_max(self, max_bytes: int) -> int | None:
        """How many slots to read; None if it need not be bounded, as a batch of each stripe is no more than `max_bytes`."""
        return None if self._batch_bytes * self._stripes <= max_bytes else max(1, max_bytes // self._batch_bytes)

    def given(self, items: Iterable[Placed]) -> None:
        """What a read has given."""
        largest = max((len(item.batch.blob) for item in items if not isinstance(item, Gap)), default=0)
        self._batch_bytes = max(largest, self._batch_bytes // 2)


@attrs.frozen
class _Run:
    """Places of one stripe that hold the same: nothing, and why, or (one place only) a wrapped batch."""

    stop: int
    kind: GapKind = GapKind.FILLER
    body: bytes = b""
    time_ms: int = 0


_Runs: TypeAlias = deque[_Run]


def interleave_untrusted(
    layout: StripedLayout, found: Mapping[int, Sequence[Placed]], start: int, stop: int
) -> list[Placed]:
    """What lies in [start, stop), up to where the first stripe has not given anything more.

    Args:
        layout: of the loglet.
        found: by stripe, all that own a slot of the range: what each read of its own places in the range, from the first.
        start: an offset.
        stop: the same.

    Raises:
        CorruptionError: an entry of a stripe is no batch.
    """
    runs = {stripe: deque(_runs(items)) for stripe, items in found.items()}
    items: list[Placed] = []
    slot, last = slot_of(start), slots_below(stop)
    while slot < last and (run := _run_of(layout, runs, slot)) is not None:
        if run.body:
            _add_batch(items, run, slot, start, stop)
            slot += 1
        else:
            until = _gap_until(layout, runs, slot, last, run.kind)
            slots.add(items, Gap(offset_of(slot), offset_of(until), run.kind).clip(start, stop))
            slot = until
    return items


def _runs(items: Sequence[Placed]) -> Iterator[_Run]:
    for item in items:
        if isinstance(item, Gap):
            yield _Run(item.stop, item.kind)
            continue
        payloads = item.batch.payloads[item.first : item.first + len(item.places)]
        for place, body, following in zip(item.places, payloads, [*payloads[1:], None], strict=True):
            if body or following != FILLER:  # fillers in a row are one run, which ends with the last of them
                yield _Run(place + 1, body=body, time_ms=item.time_ms)


def _run_of(layout: StripedLayout, runs: Mapping[int, _Runs], slot: int) -> _Run | None:
    """What a slot holds, if its stripe has given that. What comes before it in its stripe is done with."""
    stripe, place = layout.place(slot)
    heads = runs[stripe]
    while heads and heads[0].stop <= place:
        heads.popleft()
    return heads[0] if heads else None


def _add_batch(items: list[Placed], run: _Run, slot: int, start: int, stop: int) -> None:
    try:
        parts = slots.open_untrusted(run.body, 0, offset_of(slot), run.time_ms)
    except MalformedError as error:
        raise CorruptionError(f"slot {slot} of a striped loglet holds no batch: {error}") from error
    for part in parts:
        slots.add(items, part.clip(start, stop))


def _gap_until(layout: StripedLayout, runs: Mapping[int, _Runs], slot: int, last: int, kind: GapKind) -> int:
    """Where the gap that begins in this slot ends, or a part of it. Gaps may be as long as the log was before it was trimmed, so once each
    stripe has been seen to have one, what they share is taken at once. Before that, no stripe is asked for a slot of another one: a log
    with one session has a gap on all stripes but one, between any two of its batches."""
    shared = last
    for until in range(slot, last):
        run = _run_of(layout, runs, until)
        if run is None or run.body or run.kind is not kind:
            return until
        shared = min(shared, layout.slot(until % layout.stripes, run.stop))
        if until - slot == layout.stripes - 1:
            return shared
    return last
