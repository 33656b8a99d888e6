"""Holds: promises that the log stays, from some position on.

They are part of the state (`view.py`), placed and dropped by commands. A hold is granted from the
requested position on, or from the floor on if that is higher: what is below may be trimmed already.
The holder of a timed hold renews it in time. Each replica measures the time with its own clock,
from where it has applied the last renewal. The first to find it over proposes to drop the hold *as
it was placed then*, which does nothing if it has been renewed since.
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
    """Command: place a hold, or renew it with a new position and time."""

    holder: str
    position: LogPosition
    milliseconds: int


@attrs.frozen
class PlaceExactly:
    """Command: the same from exactly this position on, or not at all; then an existing hold of this
    name stays."""

    holder: str
    position: LogPosition
    milliseconds: int


@attrs.frozen
class DropHold:
    """Command: drop a hold, if it is the one that was placed there."""

    holder: str
    placed: int
    """Position where the hold was placed, or `ANY`."""


def place(transaction: StoreTransaction, command: PlaceHold | PlaceExactly, position: LogPosition) -> LogPosition:
    """Place a hold; returns the position from which on the log stays.

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
    """Place a hold at its exact position.

    Raises:
        TrimmedError: some of that range may be trimmed already.
        OverloadedError: there are too many holds.
    """
    floor = view.floor(transaction)
    if command.position < floor:
        raise TrimmedError(floor)
    return place(transaction, command, position)


def drop(transaction: StoreTransaction, command: DropHold) -> bool:
    """Drop a hold; returns True if it was there."""
    present = view.holds(transaction).get(command.holder)
    if present is None or command.placed not in {present.placed, ANY}:
        return False
    view.change_hold(transaction, command.holder, None)
    view.raise_floor(transaction)
    return True
