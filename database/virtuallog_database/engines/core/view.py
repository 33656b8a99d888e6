"""The view, the holds and the floor: state that decides how much of the log is no longer needed.

The *view* is the replicas that take part, with the position up to which each has a durable
snapshot. A *hold* is a promise to a client outside of the view: one that copies a snapshot, or a
reader of the log. The position *allowed* to be trimmed is the least of all these positions. The
*floor* is the highest position ever allowed: no replica at this position of the log, or before it,
can have trimmed more. Hence a hold at or above the floor is kept for certain by all replicas, even
by one that has not read of it yet. (SOSP'21, section 4, knows the view only.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.ports import Span
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.keys import section
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "view"
MEMBERS_MAX: Final = 64
"""Most members. A database has some five to seven replicas; each is a key that is read at each
change of the view."""
HOLDS_MAX: Final = 256
"""Most holds, each also a key that is read then; each joiner, and each reader of the log, has one."""


@attrs.frozen
class Member:
    """One replica of the view."""

    durable: LogPosition
    """Everything below is applied in a durable snapshot of this replica."""
    heard: LogPosition
    """Log position of its last announcement."""
    engines: tuple[str, ...]
    """Engines that its program knows."""


@attrs.frozen
class Hold:
    """A promise that the log stays from `position` on."""

    position: LogPosition
    placed: LogPosition
    """Log position where it was placed or renewed."""
    milliseconds: int
    """Time after which it is dropped unless renewed; 0: never."""


@attrs.frozen
class Floor:
    position: LogPosition


_RECORDS: Final = Vocabulary((Member, Hold, Floor))
_SECTION: Final = section(NAME)
_FLOOR: Final = _SECTION + b"floor"
_MEMBER: Final = _SECTION + b"member/"
_HOLD: Final = _SECTION + b"hold/"
_START: Final = LogPosition(0)


def members(state: StoreReader) -> Mapping[str, Member]:
    """The view, by names of replicas."""
    return _table(state, _MEMBER, MEMBERS_MAX)


def holds(state: StoreReader) -> Mapping[str, Hold]:
    """All holds, by name."""
    return _table(state, _HOLD, HOLDS_MAX)


def floor(state: StoreReader) -> LogPosition:
    """Highest position that was ever allowed to be trimmed."""
    stored = state.get(_FLOOR)
    return _START if stored is None else _RECORDS.parse_stored(stored).position


def allowed(state: StoreReader) -> LogPosition:
    """Position below which the log is needed by no member and no hold, as of now. Below the floor
    if a replica came back from far behind."""
    needed = [member.durable for member in members(state).values()]
    if not needed:
        return _START  # no replica has a snapshot yet, so the log is all there is
    return min([*needed, *(hold.position for hold in holds(state).values())])


def kept(state: StoreReader, copies: int) -> LogPosition:
    """Position up to which `copies` members have the state in a durable snapshot."""
    durable = sorted((member.durable for member in members(state).values()), reverse=True)
    return durable[copies - 1] if copies <= len(durable) else _START


def change_member(transaction: StoreTransaction, name: str, member: Member | None) -> None:
    """Put a member into the view, or remove it if None."""
    _change(transaction, _MEMBER + name.encode(), member)


def change_hold(transaction: StoreTransaction, name: str, hold: Hold | None) -> None:
    """Place or renew a hold, or drop it if None."""
    _change(transaction, _HOLD + name.encode(), hold)


def raise_floor(transaction: StoreTransaction) -> LogPosition:
    """The floor after a change of members or holds."""
    former, now = floor(transaction), allowed(transaction)
    if now > former:
        transaction.put(_FLOOR, _RECORDS.encode(Floor(now)))
    return max(former, now)


def _table(state: StoreReader, prefix: bytes, count: int) -> Mapping[str, Any]:
    span: Span = prefix, prefix[:-1] + b"0"  # the byte behind a slash
    return {
        key.removeprefix(prefix).decode(): _RECORDS.parse_stored(value) for key, value in state.scan(span, count + 1)
    }


def _change(transaction: StoreTransaction, key: bytes, record: Member | Hold | None) -> None:
    if record is None:
        transaction.delete(key)
    else:
        transaction.put(key, _RECORDS.encode(record))
