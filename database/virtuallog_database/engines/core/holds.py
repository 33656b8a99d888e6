"""Holds: promises that the log stays, from some position on.                                                     Pure.

They are part of the state (`view.py`), placed and dropped by commands. A hold is granted from the position that was asked for on,
or from the floor on, if that is higher: what is below may be gone already. Who holds for a time renews the hold before that is
over. Each replica measures the time with its own clock, from where it has applied the last renewal; the first to find it over
proposes to drop the hold *as it was placed then*, which does nothing if it has been renewed since.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.errors import OverloadedError, TrimmedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.view import HOLDS_MAX, Hold
from virtuallog_database.transaction import StoreTransaction

ANY: Final = -1


@attrs.frozen
class PlaceHold:
    """Place a hold, or renew it: then its position and its time are the new ones."""

    holder: str
    position: LogPosition
    milliseconds: int


@attrs.frozen
class PlaceExactly:
    """The same from its very position on, or not at all: then a hold of this name that is there stays."""

    holder: str
    position: LogPosition
    milliseconds: int


@attrs.frozen
class DropHold:
    """Drop a hold, if it is the one that was placed there."""

    holder: str
    placed: int
    """Or `ANY`."""


def place(transaction: StoreTransaction, command: PlaceHold | PlaceExactly, position: LogPosition) -> LogPosition:
    """Returns from where on the log stays.

    Raises:
        OverloadedError: there are too many holds.
    """
    present = view.holds(transaction)
    if command.holder not in present and len(present) >= HOLDS_MAX:
        raise OverloadedError(f"there are {HOLDS_MAX} holds already")
    granted = max(command.position, view.floor(transaction))
    view.change_hold(transaction, command.holder, Hold(granted, position, max(0, command.milliseconds)))
    return granted


def place_exactly(transaction: StoreTransaction, command: PlaceExactly, position: LogPosition) -> LogPosition:
    """The same.

    Raises:
        TrimmedError: some of it may be gone.
        OverloadedError: there are too many holds.
    """
    floor = view.floor(transaction)
    if command.position < floor:
        raise TrimmedError(floor)
    return place(transaction, command, position)


def drop(transaction: StoreTransaction, command: DropHold) -> bool:
    """Returns whether there was such a hold."""
    present = view.holds(transaction).get(command.holder)
    if present is None or command.placed not in {present.placed, ANY}:
        return False
    view.change_hold(transaction, command.holder, None)
    view.raise_floor(transaction)
    return True
