"""Which ranges of the log are backed up, and who is at which, as a part of the state.                            Pure.

    begin        backed up        tail of bids
      |---------------|----|----|----|........
           done        bid  bid  bid   nobody yet

Ranges follow each other without gaps. A bid takes the next one; its bidder uploads it, and says when that is done. A bid whose bidder
is not heard of for too long is dropped, and the range is free for anybody.
"""

from __future__ import annotations

from typing import Final

import attrs

from database.engines.keys import section
from database.engines.switches import is_enabled
from database.engines.vocabulary import Vocabulary
from database.ports import Reading
from database.transaction import Transaction
from virtuallog.ports import Span
from virtuallog.types import LogPosition

NAME: Final = "log_backup"
BIDS_MAX: Final = 16
"""Ranges that are being uploaded, or wait for it, at a time."""


@attrs.frozen
class Begin:
    """Back up the log from here on; nothing, if that was decided before."""

    start: LogPosition


@attrs.frozen
class Bid:
    """I upload this range."""

    start: LogPosition
    stop: LogPosition
    replica: str


@attrs.frozen
class Uploaded:
    """The range that was bid for there is durable elsewhere."""

    start: LogPosition
    bid: LogPosition


@attrs.frozen
class DropBid:
    """Its bidder is silent."""

    start: LogPosition
    bid: LogPosition


@attrs.frozen
class Progress:
    """Where backups stand."""

    begin: LogPosition
    backed_up: LogPosition
    """Everything from `begin` up to here is durable elsewhere."""
    next: LogPosition
    """Where the next new range starts."""


@attrs.frozen
class Range:
    """One range that is not behind `backed_up` yet."""

    stop: LogPosition
    bid: LogPosition
    """Where in the log somebody bid for it."""
    replica: str
    """Who; nobody: it is free."""
    uploaded: int
    """1: durable elsewhere; it waits for those before it."""


_RECORDS: Final = Vocabulary((Progress, Range))
_PROGRESS: Final = section(NAME) + b"progress"
_RANGE: Final = section(NAME) + b"range/"
_RANGES: Final[Span] = (_RANGE, section(NAME) + b"range0")


def progress(state: Reading | Transaction) -> Progress | None:
    """None: nobody has begun."""
    stored = state.get(_PROGRESS)
    return None if stored is None else _RECORDS.parse_stored(stored)


def ranges(state: Reading | Transaction) -> dict[LogPosition, Range]:
    """By where they start, in order."""
    return {
        LogPosition(int.from_bytes(key.removeprefix(_RANGE), "big")): _RECORDS.parse_stored(value)
        for key, value in state.scan(_RANGES, BIDS_MAX + 1)
    }


def apply(transaction: Transaction, command: Begin | Bid | Uploaded | DropBid, position: LogPosition) -> bool:
    """Returns whether it had an effect. While the engine is disabled, nothing begins and nobody bids."""
    now = progress(transaction)
    if isinstance(command, Begin):
        return now is None and is_enabled(transaction, NAME) and _begin(transaction, command)
    if now is None:
        return False
    if isinstance(command, Bid):
        return is_enabled(transaction, NAME) and _bid(transaction, command, position, now)
    taken = ranges(transaction).get(command.start)
    if taken is None or taken.bid != command.bid or not taken.replica:
        return False
    if isinstance(command, DropBid):
        _put(transaction, command.start, attrs.evolve(taken, replica=""))
    else:
        _put(transaction, command.start, attrs.evolve(taken, uploaded=1))
        _advance(transaction, now)
    return True


def _begin(transaction: Transaction, command: Begin) -> bool:
    transaction.put(_PROGRESS, _RECORDS.encode(Progress(command.start, command.start, command.start)))
    return True


def _bid(transaction: Transaction, command: Bid, position: LogPosition, now: Progress) -> bool:
    present = ranges(transaction)
    free = present.get(command.start)
    if free is not None:
        allowed = not free.replica and free.stop == command.stop
    else:
        allowed = command.start == now.next < command.stop <= position and len(present) < BIDS_MAX
        if allowed:
            transaction.put(_PROGRESS, _RECORDS.encode(attrs.evolve(now, next=command.stop)))
    if allowed:
        _put(transaction, command.start, Range(command.stop, position, command.replica, 0))
    return allowed


def _advance(transaction: Transaction, now: Progress) -> None:
    backed_up = now.backed_up
    for start, each in ranges(transaction).items():
        if start != backed_up or not each.uploaded:
            break
        backed_up = each.stop
        transaction.delete(_RANGE + start.to_bytes(8, "big"))
    transaction.put(_PROGRESS, _RECORDS.encode(attrs.evolve(now, backed_up=backed_up)))


def _put(transaction: Transaction, start: LogPosition, each: Range) -> None:
    transaction.put(_RANGE + start.to_bytes(8, "big"), _RECORDS.encode(each))
