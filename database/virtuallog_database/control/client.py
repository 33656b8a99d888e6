"""Calls one serving replica of the database, and holds the log through it. Any replica will do: the
state is the same at all of them.

`place_hold` keeps the log from a position on for a client that is no server: a job, or a stream. A
hold is a name and a position. It is in the state of the database, so it outlives the client that
placed it, until it is moved or released by its name (`virtuallog database release NAME`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from virtuallog.admin.cluster_status import call_each
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Outcome, ReplyT, Request, Services
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.control.messages import SERVING, DatabaseStatus, GetDatabaseStatus, PlaceHold, ReleaseHold

ANSWER_SECONDS: Final = 10.0
"""Timeout of one request; each is at most one entry in the log."""


async def call_any_replica(services: Services, nodes: Iterable[NodeId], request: Request[ReplyT]) -> ReplyT:
    """The reply of one serving replica.

    Raises:
        UnavailableError: none serves, or it did not reply in time: the outcome is unknown.
        VirtualLogError: the error that it replied.
    """
    answers = await statuses(services, nodes)
    for node, answer in answers.items():
        if not isinstance(answer, VirtualLogError) and answer.state == SERVING:
            return await services.call(node, request, ANSWER_SECONDS)
    reasons = "; ".join(f"node {node}: {_reason(answer)}" for node, answer in answers.items())
    raise UnavailableError(f"no server of a database can be used ({reasons})")


async def statuses(services: Services, nodes: Iterable[NodeId]) -> Mapping[NodeId, Outcome[DatabaseStatus]]:
    """Status of each node, or the error that stands in for it."""
    return await call_each(services, nodes, GetDatabaseStatus())


def _reason(answer: Outcome[DatabaseStatus]) -> str:
    return str(answer) if isinstance(answer, VirtualLogError) else answer.waiting_for or answer.state


async def place_hold(log: VirtualLog, name: str, position: LogPosition, seconds: float = 0) -> None:
    """Keep the log from `position` on. An existing hold of this name moves there.

    Args:
        log: its client must know the interface `DATABASE`, and have a certificate of an
            administrator.
        name: name of the hold.
        position: may be before the position of the existing hold.
        seconds: the hold ends after this time; 0 for never.

    Raises:
        UnsupportedError: no database stands on this log.
        TrimmedError: some of that range may be trimmed already; nothing was done.
        UnavailableError: no server of the database can be used, or the outcome is unknown. May be
            called again.
        VirtualLogError: the server refused: too many holds, or no permission.
    """
    await _check_database(log)
    request = PlaceHold(name=name, position=position, milliseconds=int(seconds * 1000))
    await call_any_replica(log.view.environment.services, sorted((await log.view.current()).nodes), request)


async def release_hold(log: VirtualLog, name: str) -> None:
    """Release the hold of this name; a missing one is no error. Raises: as of `place_hold`, except TrimmedError."""
    nodes = sorted((await log.view.current()).nodes)
    await call_any_replica(log.view.environment.services, nodes, ReleaseHold(name=name))


async def find_hold(log: VirtualLog, name: str) -> LogPosition | None:
    """Position of the hold of this name, as one of the servers knows it; it may have moved since.
    None if there is no such hold.

    Raises:
        UnsupportedError, UnavailableError: as of `place_hold`.
    """
    await _check_database(log)
    nodes = sorted((await log.view.current()).nodes)
    status = await call_any_replica(log.view.environment.services, nodes, GetDatabaseStatus())
    return next((LogPosition(hold.position) for hold in status.holds if hold.name == name), None)


async def _check_database(log: VirtualLog) -> None:
    if not (await log.view.current()).database and not (await log.view.refresh()).database:
        raise UnsupportedError("no database stands on this log: nothing trims it by itself, and no holds are kept")
