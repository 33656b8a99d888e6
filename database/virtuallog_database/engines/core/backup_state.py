"""State of log backups: the ranges backed up, and the replica at work on each further one.

    begin        backed up        tail of bids
      |---------------|----|----|----|........
           done        bid  bid  bid   free

Ranges follow each other without gaps. A bid takes the next range; its bidder uploads it, and then
says so. A bid whose bidder is silent for too long is dropped, and any replica may take the range.
The state starts when the engine is enabled: what is trimmed while it is disabled is not backed up,
and must not count as such.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.ports import Span
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.enabled_engines import enabled_at, is_enabled
from virtuallog_database.engines.core.keys import section, section_span
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "log_backup"
BIDS_MAX: Final = 16
"""Ranges that are being uploaded, or wait for it, at a time."""


@attrs.frozen
class Begin:
    """Command: back up the log from here on. No effect if that was decided before."""

    start: LogPosition


@attrs.frozen
class Bid:
    """Command: the replica uploads this range."""

    start: LogPosition
    stop: LogPosition
    replica: str


@attrs.frozen
class Uploaded:
    """Command: this range is durable elsewhere, no matter which replica holds the bid now."""

    start: LogPosition
    stop: LogPosition


@attrs.frozen
class DropBid:
    """Command: drop the bid of a silent replica."""

    start: LogPosition
    bid: LogPosition


@attrs.frozen
class Progress:
    """Progress of backups."""

    begin: LogPosition
    backed_up: LogPosition
    """Everything from `begin` up to here is durable elsewhere."""
    next: LogPosition
    """Start of the next new range."""


@attrs.frozen
class Range:
    """One range that does not lie below `backed_up` yet."""

    stop: LogPosition
    bid: LogPosition
    """Log position of the bid."""
    replica: str
    """Name of the bidder; empty if the range is free."""
    uploaded: int
    """1 if the range is durable elsewhere; it waits for those before it."""

    @property
    def is_free(self) -> bool:
        """True if any replica may bid for it."""
        return not self.replica and not self.uploaded


_RECORDS: Final = Vocabulary((Progress, Range))
_PROGRESS: Final = section(NAME) + b"progress/"
"""Key of the progress; its value also has the position where the engine was enabled, u64,
big-endian: enabled again, it begins anew."""
_RANGE: Final = section(NAME) + b"range/"
_RANGES: Final[Span] = (_RANGE, section(NAME) + b"range0")


def progress(state: StoreReader | StoreTransaction) -> Progress | None:
    """Progress as of this state. None if the engine is disabled, or no `Begin` was applied since it
    was enabled."""
    since = enabled_at(state, NAME)
    stored = None if since is None else state.get(_progress_key(since))
    return None if stored is None else _RECORDS.parse_stored(stored)


def allowed(state: StoreReader | StoreTransaction, position: LogPosition) -> LogPosition:
    """Position up to which the log may be trimmed, if all other engines allow `position`."""
    now = progress(state)
    return position if now is None else min(position, now.backed_up)


def ranges(state: StoreReader | StoreTransaction) -> dict[LogPosition, Range]:
    """Open ranges by their start, in order."""
    return {
        LogPosition(int.from_bytes(key.removeprefix(_RANGE), "big")): _RECORDS.parse_stored(value)
        for key, value in state.scan(_RANGES, BIDS_MAX + 1)
    }


def apply(transaction: StoreTransaction, command: Begin | Bid | Uploaded | DropBid, position: LogPosition) -> bool:
    """Apply a command; returns True if it had an effect. While the engine is disabled, none has."""
    now = progress(transaction)
    if isinstance(command, Begin):
        return now is None and is_enabled(transaction, NAME) and _begin(transaction, command)
    if now is None:
        return False
    if isinstance(command, Bid):
        return _bid(transaction, command, position, now)
    if isinstance(command, DropBid):
        return _drop(transaction, command)
    return _finish(transaction, command, now)


def _begin(transaction: StoreTransaction, command: Begin) -> bool:
    """Start backups at a position that no replica has trimmed. The proposer's view is ignored:
    while this engine is disabled, replicas trim up to the floor."""
    for key, _ in transaction.scan(section_span(NAME), BIDS_MAX + 2):
        transaction.delete(key)
    start = max(command.start, view.floor(transaction))
    _put_progress(transaction, Progress(start, start, start))
    return True


def _bid(transaction: StoreTransaction, command: Bid, position: LogPosition, now: Progress) -> bool:
    present = ranges(transaction)
    free = present.get(command.start)
    if free is not None:
        allowed = free.is_free and free.stop == command.stop
    else:
        allowed = command.start == now.next < command.stop <= position and len(present) < BIDS_MAX
        if allowed:
            _put_progress(transaction, attrs.evolve(now, next=command.stop))
    if allowed:
        _put(transaction, command.start, Range(command.stop, position, command.replica, 0))
    return allowed


def _drop(transaction: StoreTransaction, command: DropBid) -> bool:
    taken = ranges(transaction).get(command.start)
    if taken is None or taken.bid != command.bid or not taken.replica or taken.uploaded:
        return False
    _put(transaction, command.start, attrs.evolve(taken, replica=""))
    return True


def _finish(transaction: StoreTransaction, command: Uploaded, now: Progress) -> bool:
    taken = ranges(transaction).get(command.start)
    if taken is None or taken.stop != command.stop or taken.uploaded:
        return False
    _put(transaction, command.start, attrs.evolve(taken, uploaded=1))
    _advance(transaction, now)
    return True


def _advance(transaction: StoreTransaction, now: Progress) -> None:
    backed_up = now.backed_up
    for start, each in ranges(transaction).items():
        if start != backed_up or not each.uploaded:
            break
        backed_up = each.stop
        transaction.delete(_RANGE + start.to_bytes(8, "big"))
    _put_progress(transaction, attrs.evolve(now, backed_up=backed_up))


def _put_progress(transaction: StoreTransaction, now: Progress) -> None:
    since = enabled_at(transaction, NAME)
    assert since is not None
    transaction.put(_progress_key(since), _RECORDS.encode(now))


def _progress_key(since: LogPosition) -> bytes:
    return _PROGRESS + since.to_bytes(8, "big")


def _put(transaction: StoreTransaction, start: LogPosition, each: Range) -> None:
    transaction.put(_RANGE + start.to_bytes(8, "big"), _RECORDS.encode(each))
