"""What a replica makes of what it has read from the log.                                                        Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from virtuallog.api import Placed
from virtuallog.errors import CorruptionError, MalformedError
from virtuallog.instruments import Counter
from virtuallog.types import Gap, GapKind, LogPosition
from virtuallog_database.engines.entry import Entry, is_proposed, parse_untrusted
from virtuallog_database.engines.player import Item
from virtuallog_database.errors import SnapshotNeededError


def items(found: Iterable[Placed], strays: Counter) -> Iterator[Item]:
    """What lies where. Entries that are none of a database are counted in `strays`, and there is nothing to apply.

    Raises:
        SnapshotNeededError: the log has been trimmed there.
        CorruptionError: a part of the log is lost.
        BinaryTooOldError: an entry of a later version.
    """
    for placed in found:
        if not isinstance(placed, Gap):
            for record in placed.records():
                yield record.position, _parsed(record.payload, strays)
        elif placed.kind is GapKind.TRIMMED:
            raise SnapshotNeededError(placed.start, placed.stop)
        elif placed.kind is GapKind.LOST:
            raise CorruptionError(f"[{placed.start}, {placed.stop}) of the log is lost")
        else:
            yield LogPosition(placed.stop - 1), None


def _parsed(payload: bytes, strays: Counter) -> Entry | None:
    try:
        entry = parse_untrusted(payload)
    except MalformedError:
        entry = None
    if entry is None or not is_proposed(entry):
        strays.value += 1
        return None
    return entry
