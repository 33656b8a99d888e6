"""The lease, as a part of the state.                                                                             Pure.

At most one replica has it. It ends at one position of the log, by a command of its holder or of somebody who waited for long
enough, never by the passing of time alone: what a clock says decides only when somebody proposes that.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.keys import section
from virtuallog_database.engines.core.switches import is_enabled
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "lease"


@attrs.frozen
class Acquire:
    """Have the lease, if nobody has it."""

    replica: str
    milliseconds: int


@attrs.frozen
class Renew:
    """The holder still holds, and has applied everything below `applied`."""

    lease: LogPosition
    applied: LogPosition


@attrs.frozen
class Confirm:
    """The holder has applied everything below `applied`: what others wait for. Renews nothing."""

    lease: LogPosition
    applied: LogPosition


@attrs.frozen
class Release:
    """The holder does not rely on the lease any more."""

    lease: LogPosition


@attrs.frozen
class Expire:
    """Somebody has waited for as long as the holder may rely on the lease after `renewals`: end it, if there was none since."""

    lease: LogPosition
    renewals: int


@attrs.frozen
class Grant:
    """The lease somebody has."""

    lease: LogPosition
    """Where it was acquired: its name."""
    replica: str
    milliseconds: int
    """How long the holder may rely on it after he has proposed a renewal."""
    renewals: int
    applied: LogPosition
    """The holder has applied everything below, or will have before it relies on the lease."""


_RECORDS: Final = Vocabulary((Grant,))
_KEY: Final = section(NAME) + b"lease"


def current(state: StoreReader | StoreTransaction) -> Grant | None:
    """The lease that is in force at this position of the log."""
    stored = state.get(_KEY)
    return None if stored is None else _RECORDS.parse_stored(stored)


def apply(
    transaction: StoreTransaction, command: Acquire | Renew | Confirm | Release | Expire, position: LogPosition
) -> bool:
    """Returns whether it had an effect: the lease it names is in force, or nobody has one."""
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
            # Disabled, the lease is renewed no more, but stays in force until its holder cannot rely on it any longer.
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
