"""State of the lease, and its commands.

At most one replica has the lease. It ends at one position of the log, by a command of its holder or
of a replica that has waited for long enough, never by the passing of time alone. Clocks only decide
when a replica proposes that.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.enabled_engines import is_enabled
from virtuallog_database.engines.core.keys import section
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "lease"


@attrs.frozen
class Acquire:
    """Command: take the lease, if no replica has it."""

    replica: str
    milliseconds: int


@attrs.frozen
class Renew:
    """Command: the holder still holds the lease, and has applied everything below `applied`."""

    lease: LogPosition
    applied: LogPosition


@attrs.frozen
class Confirm:
    """Command: the holder has applied everything below `applied`, which others wait for. Renews
    nothing."""

    lease: LogPosition
    applied: LogPosition


@attrs.frozen
class Release:
    """Command: the holder does not rely on the lease any more."""

    lease: LogPosition


@attrs.frozen
class Expire:
    """Command: end the lease if it was not renewed since `renewals`. Its proposer has waited for as
    long as the holder may rely on it."""

    lease: LogPosition
    renewals: int


@attrs.frozen
class Grant:
    """The lease that a replica has."""

    lease: LogPosition
    """Log position where it was acquired: its name."""
    replica: str
    milliseconds: int
    """Time that the holder may rely on it after it has proposed a renewal."""
    renewals: int
    applied: LogPosition
    """The holder has applied everything below, or will have before it relies on the lease."""


_RECORDS: Final = Vocabulary((Grant,))
_KEY: Final = section(NAME) + b"lease"


def current(state: StoreReader | StoreTransaction) -> Grant | None:
    """The lease in force at this position of the log. None if there is none."""
    stored = state.get(_KEY)
    return None if stored is None else _RECORDS.parse_stored(stored)


def apply(
    transaction: StoreTransaction, command: Acquire | Renew | Confirm | Release | Expire, position: LogPosition
) -> bool:
    """Apply a command. Returns True if it had an effect: it names the lease in force, or acquires a
    free one."""
    lease = current(transaction)
    after: Grant | None
    match command:
        case Acquire():
            if lease is not None or not is_enabled(transaction, NAME):
                return False
            after = Grant(position, command.replica, command.milliseconds, 0, position)
        case _ if lease is None or lease.lease != command.lease:
            return False
        case Renew():
            # If the engine is disabled, the lease is not renewed, but stays in force until its
            # holder cannot rely on it any longer.
            if not is_enabled(transaction, NAME):
                return False
            after = attrs.evolve(
                lease, renewals=lease.renewals + 1, applied=LogPosition(max(lease.applied, command.applied))
            )
        case Confirm():
            after = attrs.evolve(lease, applied=LogPosition(max(lease.applied, command.applied)))
        case Expire() if command.renewals != lease.renewals:
            return False
        case _:
            after = None
    _put(transaction, after)
    return True


def _put(transaction: StoreTransaction, lease: Grant | None) -> None:
    if lease is None:
        transaction.delete(_KEY)
    else:
        transaction.put(_KEY, _RECORDS.encode(lease))
