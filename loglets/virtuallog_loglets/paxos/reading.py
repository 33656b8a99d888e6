"""Turns what one replica gave for a range of offsets into what a reader gets.                                      Pure.

Nothing from the wire is believed: each position must follow the one before, be learned, hold a whole value, and a batch
must be whole inside. Behind a SEAL nothing is shown, whatever a replica holds there: a coordinator that did not know of it
may have written, and nobody was told that this is in the log.
"""

from __future__ import annotations

import attrs

from virtuallog.api import Placed
from virtuallog.errors import VirtualLogError
from virtuallog.ordering import slots
from virtuallog.ordering.slots import SLOT
from virtuallog.types import Gap, GapKind
from virtuallog_loglets.paxos import values
from virtuallog_loglets.paxos.messages import NOWHERE, Record, Records
from virtuallog_loglets.paxos.places import offset_of, position_of
from virtuallog_loglets.paxos.values import Kind


@attrs.frozen
class Copy:
    """What one replica has of [start, ...), without holes; and what was wrong with the rest, if anything."""

    items: list[Placed]
    damage: VirtualLogError | None = None


def assemble_untrusted(reply: Records, start: int, stop: int) -> Copy:
    """Begins exactly at `start`, unless it is empty. Nothing at all says only that this replica does not have it."""
    items: list[Placed] = []
    standing = reply.standing
    if standing.seal != NOWHERE:
        stop = min(stop, offset_of(standing.seal))
    trimmed = min(max(standing.trim, offset_of(standing.begin)), stop)
    if trimmed > start:
        items.append(Gap(start, trimmed, GapKind.TRIMMED))
        start = trimmed
    try:
        for record in _consecutive(reply.records, position_of(start)):
            parts = _parts_untrusted(record)
            if parts is None:
                break
            for part in parts:
                slots.add(items, part.clip(start, stop))
    except VirtualLogError as error:
        return Copy(items, error)
    return Copy(items)


def _consecutive(records: tuple[Record, ...], first: int) -> list[Record]:
    """From `first` on, up to the first hole."""
    found: list[Record] = []
    for record in records:
        if record.position < first:
            continue
        if record.position != first + len(found) or not record.learned:
            break
        found.append(record)
    return found


def _parts_untrusted(record: Record) -> list[Placed] | None:
    """What the offsets of a position hold; None: the log ends here.

    Raises:
        MalformedError, CorruptionError: this copy is damaged.
    """
    values.check_untrusted(record.value)
    first, kind = offset_of(record.position), values.kind_of(record.value)
    if kind is Kind.SEAL:
        return None
    if record.position == 0:  # it has no offsets
        return []
    if kind is not Kind.APPEND:
        why = GapKind.TRIMMED if values.is_tombstone(record.value) else GapKind.FILLER
        return [Gap(first, first + SLOT, why)]
    return slots.open_untrusted(record.value, values.BODY, first, values.time_of(record.value))
