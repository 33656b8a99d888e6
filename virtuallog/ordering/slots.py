"""Loglets that decide slots, one after the other, each with one batch or several: the slots as places of entries.         Pure.

An offset is slot << 16 | index of the entry in its slot; what a slot does not use are fillers. Paxos and ZooKeeper do that.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog.ordering import bundle

INDEX_BITS: Final = 16
"""Of an offset: which entry of the slot. A batch has at most 65,536 (`virtuallog.contract.batch.BATCH_COUNT_MAX`)."""
SLOT: Final = 1 << INDEX_BITS
"""Offsets that a slot has."""


def open_untrusted(body: bytes, at: int, first: int, time_ms: int) -> list[Placed]:
    """What the places of a slot hold, from `first` on: the batches of the body that begins at `at`, and fillers.

    Raises:
        MalformedError, CorruptionError: this copy of the body is damaged.
    """
    found: list[Placed] = []
    place = first
    for part in bundle.split_untrusted(body, at):
        batch = Batch.parse_untrusted(body[part.start : part.stop])
        if batch.count != part.count:
            raise CorruptionError(f"a batch of {batch.count} entries where its slot says {part.count}")
        found.append(PlacedBatch(range(place, place + batch.count), batch, time_ms))
        place += batch.count
    return [*found, Gap(place, first + SLOT, GapKind.FILLER)] if place < first + SLOT else found


def add(items: list[Placed], part: Placed | None) -> None:
    """Add what follows, if there is something. Gaps of a kind that touch become one."""
    last = items[-1] if items else None
    if part is None:
        return
    if isinstance(part, Gap) and isinstance(last, Gap) and last.kind is part.kind and last.stop == part.start:
        items[-1] = Gap(last.start, part.stop, part.kind)
    else:
        items.append(part)
