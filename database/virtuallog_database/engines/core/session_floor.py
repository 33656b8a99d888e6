"""Floor of SessionOrderEngine: the position below which no incarnation may have begun, as records
were dropped.

    began    of an incarnation: the cursor of its replica when its first entry was proposed; a header of the entry of number 0
    last     of a record: the position of the newest entry of its replica that was applied
    floor    the position behind the greatest `last` of any dropped record

A copy of an entry of number 0 may be delayed for as long as the server that holds it stands still.
While the record of its replica exists, the copy is skipped. Without a record, an entry of number 0
looks like the first one of a new replica. So an entry of number 0 is skipped if its incarnation
began below the floor. That holds also if there is a record of an earlier incarnation, so that a
lagging replica knows from any floor what cannot be applied any more.

The rule is sound. Each copy of an entry of an incarnation has a position of `began` or above, since
what is below the cursor is decided. If a copy was applied, or an entry of a later incarnation, then
`last` of the record was as high, and so is the floor once the record is gone.

The rule begins with a switch of `virtuallog_database.engines.rollout`, `FLOOR`, so that replicas of
the former version go on with equal states. The position of the switch is the first floor: records
dropped before it have left no other trace. An entry without the header is of the former version,
and counts as begun at 0.
"""

from __future__ import annotations

import struct
from typing import Final

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.enabled_engines import FLOOR, enabled_at
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import section
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

_POSITION: Final = struct.Struct(">Q")
_KEY: Final = section(FLOOR)


def with_beginning(entry: Entry, began: LogPosition) -> Entry:
    """The entry of number 0, with a header that says where its incarnation began: u64, big-endian."""
    return entry.with_header(FLOOR, _POSITION.pack(began))


def beginning_of(entry: Entry) -> LogPosition:
    """Position where the incarnation of an entry of number 0 began.

    Raises:
        MalformedError: the header is no position.
    """
    header = entry.headers.get(FLOOR)
    if header is None:
        return LogPosition(0)
    if len(header) != _POSITION.size:
        raise MalformedError(f"a header of {len(header)} bytes for where an incarnation began")
    return LogPosition(_POSITION.unpack(header)[0])


def floor(state: StoreReader | StoreTransaction) -> LogPosition:
    """The least position at which an incarnation may have begun whose number 0 comes now; 0 while
    the rule is off.

    Raises:
        CorruptionError: the stored value is no position.
    """
    enabled = enabled_at(state, FLOOR)
    if enabled is None:
        return LogPosition(0)
    stored = state.get(_KEY)
    if stored is not None and len(stored) != _POSITION.size:
        raise CorruptionError(f"a floor of {len(stored)} bytes for the order of sessions")
    return max(enabled, LogPosition(_POSITION.unpack(stored)[0])) if stored is not None else enabled


def dropped(transaction: StoreTransaction, last: LogPosition) -> None:
    """Raise the floor above `last`, the newest entry of a replica whose record is dropped, if the
    rule is on."""
    if enabled_at(transaction, FLOOR) is not None and last >= floor(transaction):
        transaction.put(_KEY, _POSITION.pack(last + 1))
