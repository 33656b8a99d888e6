"""Puts what the stripes gave side by side, slot by slot.                                                                Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from loglets.striped.layout import Layout, offset_of, slot_of, slots_below
from virtuallog.api import Placed
from virtuallog.errors import CorruptionError, MalformedError
from virtuallog.ordering import slots
from virtuallog.types import Gap, GapKind


@attrs.frozen
class _Run:
    """Places of one stripe that hold the same: nothing, and why, or (one place only) a wrapped batch."""

    stop: int
    kind: GapKind = GapKind.FILLER
    body: bytes = b""
    time_ms: int = 0


_Runs: TypeAlias = deque[_Run]


def interleave_untrusted(layout: Layout, found: Mapping[int, Sequence[Placed]], start: int, stop: int) -> list[Placed]:
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
    while slot < last:
        stripe, place = layout.place(slot)
        heads = runs[stripe]
        while heads and heads[0].stop <= place:
            heads.popleft()
        if not heads:
            break
        if heads[0].body:
            _add_batch(items, heads[0], slot, start, stop)
            slot += 1
        else:
            until = _gap_until(layout, runs, slot, last)
            slots.add(items, Gap(offset_of(slot), offset_of(until), heads[0].kind).clip(start, stop))
            slot = until
    return items


def _runs(items: Sequence[Placed]) -> Iterator[_Run]:
    for item in items:
        if isinstance(item, Gap):
            yield _Run(item.stop, item.kind)
            continue
        payloads = item.batch.payloads
        for index, place in enumerate(item.places, start=item.first):
            yield _Run(place + 1, body=payloads[index], time_ms=item.time_ms)


def _add_batch(items: list[Placed], run: _Run, slot: int, start: int, stop: int) -> None:
    try:
        parts = slots.open_untrusted(run.body, 0, offset_of(slot), run.time_ms)
    except MalformedError as error:
        raise CorruptionError(f"slot {slot} of a striped loglet holds no batch: {error}") from error
    for part in parts:
        slots.add(items, part.clip(start, stop))


def _gap_until(layout: Layout, runs: Mapping[int, _Runs], slot: int, last: int) -> int:
    """Where the gap that begins in this slot ends. Gaps may be as long as the log was before it was trimmed, so where all stripes
    have a gap of one kind it is taken at once."""
    stripe, _ = layout.place(slot)
    until = last
    for other, heads in runs.items():
        place = layout.places_below(other, slot)  # the first that is not below
        head = next((run for run in heads if run.stop > place), None)
        if head is None or head.body or head.kind is not runs[stripe][0].kind:
            return slot + 1
        until = min(until, layout.slot(other, head.stop))
    return until
