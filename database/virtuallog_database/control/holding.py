"""Keeps the log of a database from a position on, for somebody who is none of its servers: a job, a stream.

A hold is a name and a position. It is in the state of the database, so it outlives whoever has placed it, until it is moved or
released by its name (`virtuallog database release NAME`).
"""

from __future__ import annotations

from virtuallog.errors import UnsupportedError
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog
from virtuallog_database.control.asking import ask_one
from virtuallog_database.control.messages import GetDatabaseStatus, PlaceHold


async def place_hold(log: VirtualLog, name: str, position: LogPosition) -> None:
    """Keep the log from `position` on, without an end; a hold of this name moves there.

    Args:
        log: whose client knows the interface `DATABASE`, with a certificate of an administrator.
        name: of the hold.
        position: may be behind where the hold is.

    Raises:
        UnsupportedError: no database stands on this log.
        TrimmedError: some of that may be gone; nothing was done.
        UnavailableError: no server of the database can be used, or the outcome is unknown. It may be placed again.
        VirtualLogError: of the server: there are too many holds, or we may not place any.
    """
    await _check_database(log)
    request = PlaceHold(name=name, position=position, milliseconds=0)
    await ask_one(log.view.environment.services, sorted((await log.view.current()).nodes), request)


async def find_hold(log: VirtualLog, name: str) -> LogPosition | None:
    """From where on a hold of this name keeps the log, as far as one of the servers knows: it may have moved since.

    Raises:
        UnsupportedError, UnavailableError: as of `place_hold`.
    """
    await _check_database(log)
    nodes = sorted((await log.view.current()).nodes)
    status = await ask_one(log.view.environment.services, nodes, GetDatabaseStatus())
    return next((LogPosition(hold.position) for hold in status.holds if hold.name == name), None)


async def _check_database(log: VirtualLog) -> None:
    if not (await log.view.current()).database and not (await log.view.refresh()).database:
        raise UnsupportedError("no database stands on this log: nothing trims it by itself, and nobody keeps holds")
