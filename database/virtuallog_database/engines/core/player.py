"""Order of play: what may be applied now, and what must be read first. The core of the base engine
(SOSP'21, section 3).

    applied           fetched or own: can be applied    |  not here   |  not known to be committed
    |-----------------|---------------------------------|-------------|................................>
    0               cursor                             missing    committed

* The acknowledgement of an own entry at position p proves that everything below p + 1 is committed.
  So play may go on without a tail check; and the entry itself is in memory, so it need not be read.
* Acknowledgements come in any order, and may come after the entry was read and applied.
* Positions may have gaps without data, or be filled by others: only a read can tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.metrics import Counter
from virtuallog.contract.types import Gap, GapKind, LogPosition
from virtuallog_database.engines.core.entry import Entry, is_proposed, parse_untrusted
from virtuallog_database.errors import SnapshotNeededError

Item: TypeAlias = tuple[LogPosition, Entry | None]
"""Entry at a position, or None for the last position of a range that holds nothing to apply."""


@attrs.define
class Player:
    """Order of play of one replica."""

    cursor: LogPosition
    """First position that has not been taken to be applied."""
    committed: LogPosition
    """Everything below is committed and readable."""
    _ready_upto: LogPosition
    _ready: deque[Item] = attrs.field(factory=deque)
    """Items from the cursor up to `_ready_upto`, without holes."""
    _own: dict[LogPosition, Entry] = attrs.field(factory=dict)
    """Own entries that are in the log past a hole."""

    @classmethod
    def at(cls, cursor: LogPosition) -> Player:
        """A player that has applied everything below `cursor`."""
        return cls(cursor, cursor, cursor)

    def acknowledge(self, position: LogPosition, entry: Entry) -> None:
        """Add an own entry that is in the log."""
        self.commit(LogPosition(position + 1))
        if position >= self._ready_upto:
            self._own[position] = entry
            self._close_up()

    def commit(self, tail: LogPosition) -> None:
        """Note that everything below `tail` is committed."""
        self.committed = max(self.committed, tail)

    def fetched(self, items: Iterable[Item]) -> None:
        """Add items read from the start of a `missing` range on, in order and without holes."""
        for position, entry in items:
            if position >= self._ready_upto:
                self._own.pop(position, None)
                self._put(position, entry)
        self._close_up()
        self.commit(self._ready_upto)

    @property
    def can_play(self) -> bool:
        """True if the next entry is here."""
        return bool(self._ready)

    def take(self, entries_max: int, bytes_max: int) -> list[Item]:
        """Take the next items to apply: at least one if there is one, then as many as fit. The
        cursor moves past them."""
        ready = self._ready
        taken: list[Item] = []
        while ready and len(taken) < entries_max and bytes_max > 0:
            item = ready.popleft()
            taken.append(item)
            if item[1] is not None:
                bytes_max -= len(item[1].payload)
        if taken:
            self.cursor = LogPosition(taken[-1][0] + 1)
        return taken

    def give_back(self, items: Sequence[Item]) -> None:
        """Return the last of the taken items, which were not applied: they are next again."""
        if items:
            assert self.cursor == items[-1][0] + 1
            self._ready.extendleft(reversed(items))
            self.cursor = items[0][0]

    @property
    def missing(self) -> tuple[LogPosition, LogPosition] | None:
        """Range [start, stop) to read now: from the first hole up to the last position that is
        committed and not here. None if there is no hole."""
        start, stop = self._ready_upto, self.committed
        while stop > start and stop - 1 in self._own:
            stop = LogPosition(stop - 1)
        return (start, stop) if start < stop else None

    def _put(self, position: LogPosition, entry: Entry | None) -> None:
        self._ready.append((position, entry))
        self._ready_upto = LogPosition(position + 1)

    def _close_up(self) -> None:
        while (own := self._own.pop(self._ready_upto, None)) is not None:
            self._put(self._ready_upto, own)


def items(found: Iterable[Placed], strays: Counter) -> Iterator[Item]:
    """Items of a read. Entries that are not from a database are counted in `strays`, and have
    nothing to apply.

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
