"""Assembly of a read: turns the records of one replica into entries and gaps of a range of offsets.

Nothing from the wire is believed. Each position must follow the one before, be learned and hold an intact value, and
batches must be intact. Nothing behind a SEAL is returned, even if a replica holds it: a coordinator that did not know
of the SEAL may have written it, and it was never acknowledged.
"""

from __future__ import annotations

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind
from virtuallog.exactly_once import slot_offsets
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import NOWHERE, PaxosRecord, PaxosRecords
from virtuallog_loglets.paxos.offsets import offset_of, position_of


@attrs.frozen
class PaxosCopy:
    """The copy of a range at one replica."""

    items: list[Placed]
    """Entries and gaps from the start of the range on, without holes."""
    damage: VirtualLogError | None = None
    """The error that ended the items; None if there was none."""


def assemble_untrusted(reply: PaxosRecords, start: int, stop: int) -> PaxosCopy:
    """Copy that begins exactly at `start`, or is empty: then this replica does not have the range, others may."""
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
                slot_offsets.add(items, part.clip(start, stop))
    except VirtualLogError as error:
        return PaxosCopy(items, error)
    return PaxosCopy(items)


def _consecutive(records: tuple[PaxosRecord, ...], first: int) -> list[PaxosRecord]:
    """Learned records from `first` on, up to the first hole."""
    found: list[PaxosRecord] = []
    for record in records:
        if record.position < first:
            continue
        if record.position != first + len(found) or not record.learned:
            break
        found.append(record)
    return found


def _parts_untrusted(record: PaxosRecord) -> list[Placed] | None:
    """Entries and gaps of one position; None if the log ends here.

    Raises:
        MalformedError, CorruptionError: this copy is damaged.
    """
    values.check_untrusted(record.value)
    first, kind = offset_of(record.position), values.kind_of(record.value)
    if kind is ValueKind.SEAL:
        return None
    if record.position == 0:  # it has no offsets
        return []
    if kind is not ValueKind.APPEND:
        why = GapKind.TRIMMED if values.is_tombstone(record.value) else GapKind.FILLER
        return [Gap(first, first + SLOT, why)]
    return slot_offsets.open_untrusted(record.value, values.BODY, first, values.time_of(record.value))
