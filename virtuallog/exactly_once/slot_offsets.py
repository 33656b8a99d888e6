"""Offsets of entries in loglets that decide slots one after the other, each with one batch or several.

An offset is slot << 16 | index of the entry in its slot; unused offsets are fillers. The kinds paxos and zookeeper
do that.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog.exactly_once import bundle

INDEX_BITS: Final = 16
"""Low bits of an offset, for the entry in its slot. A batch has at most 65,536 entries
(`virtuallog.contract.batch.BATCH_COUNT_MAX`)."""
SLOT: Final = 1 << INDEX_BITS
"""Number of offsets of a slot."""


def open_untrusted(body: bytes, at: int, first: int, time_ms: int) -> list[Placed]:
    """Items of a slot, whose offsets begin at `first`: the batches of the body that begins at `at`, and fillers.

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
    """Add the next item, if it is not None. Adjacent gaps of one kind become one."""
    last = items[-1] if items else None
    if part is None:
        return
    if isinstance(part, Gap) and isinstance(last, Gap) and last.kind is part.kind and last.stop == part.start:
        items[-1] = Gap(last.start, part.stop, part.kind)
    else:
        items.append(part)
