"""Asks one replica of the database that serves: whatever is in the state, or gets there, is the same at all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from virtuallog.admin.cluster_status import call_each
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Outcome, ReplyT, Request, Services
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.control.messages import SERVING, DatabaseStatus, GetDatabaseStatus, PlaceHold

ANSWER_SECONDS: Final = 10.0
"""For one question; each is an entry in the log at most."""


async def call_any_replica(services: Services, nodes: Iterable[NodeId], request: Request[ReplyT]) -> ReplyT:
    """The answer of one replica that serves.

    Raises:
        UnavailableError: none does, or it did not answer in time: the outcome is unknown.
        VirtualLogError: what it answered.
    """
    answers = await statuses(services, nodes)
    for node, answer in answers.items():
        if not isinstance(answer, VirtualLogError) and answer.state == SERVING:
            return await services.call(node, request, ANSWER_SECONDS)
    reasons = "; ".join(f"node {node}: {_reason(answer)}" for node, answer in answers.items())
    raise UnavailableError(f"no server of a database can be used ({reasons})")


async def statuses(services: Services, nodes: Iterable[NodeId]) -> Mapping[NodeId, Outcome[DatabaseStatus]]:
    """Of each of these nodes, or why there is none."""
    return await call_each(services, nodes, GetDatabaseStatus())


def _reason(answer: Outcome[DatabaseStatus]) -> str:
    return str(answer) if isinstance(answer, VirtualLogError) else answer.waiting_for or answer.state


# FOLDED from virtuallog_database.control.holding: Keeps the log of a database from a position on, for somebody who is none of its servers: a job, a stream.
#
# A hold is a name and a position. It is in the state of the database, so it outlives whoever has placed it, until it is moved or
# released by its name (`virtuallog database release NAME`).


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
    await call_any_replica(log.view.environment.services, sorted((await log.view.current()).nodes), request)


async def find_hold(log: VirtualLog, name: str) -> LogPosition | None:
    """From where on a hold of this name keeps the log, as far as one of the servers knows: it may have moved since.

    Raises:
        UnsupportedError, UnavailableError: as of `place_hold`.
    """
    await _check_database(log)
    nodes = sorted((await log.view.current()).nodes)
    status = await call_any_replica(log.view.environment.services, nodes, GetDatabaseStatus())
    return next((LogPosition(hold.position) for hold in status.holds if hold.name == name), None)


async def _check_database(log: VirtualLog) -> None:
    if not (await log.view.current()).database and not (await log.view.refresh()).database:
        raise UnsupportedError("no database stands on this log: nothing trims it by itself, and nobody keeps holds")
