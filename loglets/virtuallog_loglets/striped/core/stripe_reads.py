"""Merged reads: what the stripes returned, interleaved slot by slot, and a budget for the next read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind
from virtuallog.exactly_once import slot_offsets
from virtuallog_loglets.striped.core.layout import FILLER, StripedLayout, offset_of, slot_of, slots_below

GUESS_BYTES: Final = 64 << 10
"""Assumed bytes of a batch before the first read: more than most have, and 16 of them fit in a
common request."""


@attrs.define(eq=False)
class StripeReadBudget:
    """Read budget of one client: how many slots to read at once.

    A stripe returns at least one batch, however large. Asked all together, 64 stripes with batches
    of 8 MiB would return 512 MiB to a caller that wants one. So the sizes of earlier batches limit
    the number of slots.
    """

    _stripes: int
    _batch_bytes: int = attrs.field(default=GUESS_BYTES, init=False)
    """Bytes of the largest recent batch. Each read that brings smaller ones halves it."""

    def slots_max(self, max_bytes: int) -> int | None:
        """Most slots to read; None if there is no need for a limit, as a batch of each stripe is no
        more than `max_bytes`."""
        return None if self._batch_bytes * self._stripes <= max_bytes else max(1, max_bytes // self._batch_bytes)

    def given(self, items: Iterable[Placed]) -> None:
        """Record the result of a read."""
        largest = max((len(item.batch.blob) for item in items if not isinstance(item, Gap)), default=0)
        self._batch_bytes = max(largest, self._batch_bytes // 2)


@attrs.frozen
class _Run:
    """Consecutive places of one stripe with the same content: a gap of one kind, or (one place
    only) a wrapped batch."""

    stop: int
    kind: GapKind = GapKind.FILLER
    body: bytes = b""
    time_ms: int = 0


_Runs: TypeAlias = deque[_Run]


def interleave_untrusted(
    layout: StripedLayout, found: Mapping[int, Sequence[Placed]], start: int, stop: int
) -> list[Placed]:
    """Merge what lies in [start, stop), up to where the first stripe has returned nothing more.

    Args:
        layout: layout of the loglet.
        found: by stripe, for all that own a slot of the range: the read of its own places in the range, from the first.
        start: offset of the first entry.
        stop: offset one past the last entry.

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
            slot_offsets.add(items, Gap(offset_of(slot), offset_of(until), run.kind).clip(start, stop))
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
    """Content of a slot; None if its stripe has not returned it. Discards what comes before it in
    its stripe."""
    stripe, place = layout.place(slot)
    heads = runs[stripe]
    while heads and heads[0].stop <= place:
        heads.popleft()
    return heads[0] if heads else None


def _add_batch(items: list[Placed], run: _Run, slot: int, start: int, stop: int) -> None:
    try:
        parts = slot_offsets.open_untrusted(run.body, 0, offset_of(slot), run.time_ms)
    except MalformedError as error:
        raise CorruptionError(f"slot {slot} of a striped loglet holds no batch: {error}") from error
    for part in parts:
        slot_offsets.add(items, part.clip(start, stop))


def _gap_until(layout: StripedLayout, runs: Mapping[int, _Runs], slot: int, last: int, kind: GapKind) -> int:
    """Slot at which the gap that begins in `slot` ends, or a part of it.

    Gaps may be as long as the log was before it was trimmed. So once each stripe has been seen to
    have one, their common part is taken at once. Before that, no stripe is asked for a slot of
    another one: a log with one session has a gap on all stripes but one, between any two of its
    batches.
    """
    shared = last
    for until in range(slot, last):
        run = _run_of(layout, runs, until)
        if run is None or run.body or run.kind is not kind:
            return until
        shared = min(shared, layout.slot(until % layout.stripes, run.stop))
        if until - slot == layout.stripes - 1:
            return shared
    return last
