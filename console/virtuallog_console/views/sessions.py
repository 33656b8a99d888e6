"""Sessions of the database's clients, for admins: each with its server and the number of its ephemerals.

Every server of the database is asked once, at the same time: each knows all sessions, and serves some. A page has at most `SESSIONS_MAX` rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from virtuallog.admin.cluster_status import call_each
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import NodeId
from virtuallog_console.views.tree import hex_session
from virtuallog_console.views.tree_server import READ_SECONDS
from virtuallog_console.views.viewer import NEEDS_ADMIN, Viewer
from virtuallog_database.control.tree_messages import SESSIONS_MAX, ListSessions, SessionsReport


@attrs.frozen(kw_only=True)
class SessionRow:
    """One session."""

    session: str
    """Its number, in hexadecimal."""
    timeout_ms: int
    attachments: int
    """Number of its attachments to servers."""
    ephemerals: int
    has_more_ephemerals: bool
    """True if it has more than were counted."""
    server: int | None
    """Node whose connection serves it. None if none does: its client is away, or its server silent."""


@attrs.frozen(kw_only=True)
class SessionServerRow:
    """One server, and its clients."""

    node: int
    connections: int = 0
    watches: int = 0
    problem: str = ""


@attrs.frozen(kw_only=True)
class SessionsView:
    """A page of sessions, and all servers."""

    total: int = 0
    ephemerals: int = 0
    """Ephemerals of all sessions together."""
    zxid: int = 0
    sessions: tuple[SessionRow, ...] = ()
    next: str | None = None
    """Session behind which the next page begins. None if this is the last one."""
    servers: tuple[SessionServerRow, ...] = ()
    problem: str = ""


async def read_sessions(log: VirtualLog, viewer: Viewer, after: str = "", count: int = SESSIONS_MAX) -> SessionsView:
    """The sessions behind a number, which `SessionsView.next` names; empty: the first ones."""
    if not viewer.is_admin:
        return SessionsView(problem=NEEDS_ADMIN)
    try:
        number = int(after, 16) if after else 0
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 63:
        return SessionsView(problem="this is no number of a session")
    request = ListSessions(after=number, count=max(1, min(count, SESSIONS_MAX)))
    try:
        nodes = sorted((await log.view.current()).nodes)
    except VirtualLogError as error:
        return SessionsView(problem=str(error))
    return describe_sessions(await call_each(log.view.environment.services, nodes, request, READ_SECONDS))


def describe_sessions(answers: Mapping[NodeId, Outcome[SessionsReport]]) -> SessionsView:
    """The page of the server that has applied most, with the servers of its sessions."""
    reports = {node: each for node, each in answers.items() if not isinstance(each, VirtualLogError)}
    servers = tuple(
        _server_row(node, answer)
        for node, answer in sorted(answers.items())
        if not isinstance(answer, UnsupportedError)
    )
    if not reports:
        return SessionsView(servers=servers, problem="no server of a database answers")
    newest = max(reports.values(), key=lambda report: report.zxid)
    attached = {
        each.session: int(node) for node, report in reports.items() for each in report.sessions if each.attached
    }
    rows = tuple(
        SessionRow(
            session=hex_session(each.session),
            timeout_ms=each.timeout_ms,
            attachments=each.generation,
            ephemerals=each.ephemerals,
            has_more_ephemerals=each.has_more_ephemerals,
            server=attached.get(each.session),
        )
        for each in newest.sessions
    )
    return SessionsView(
        total=newest.total,
        ephemerals=newest.ephemerals,
        zxid=newest.zxid,
        sessions=rows,
        next=rows[-1].session if newest.has_more and rows else None,
        servers=servers,
    )


def _server_row(node: NodeId, answer: Outcome[SessionsReport]) -> SessionServerRow:
    if isinstance(answer, VirtualLogError):
        return SessionServerRow(node=node, problem=str(answer))
    return SessionServerRow(node=node, connections=answer.connections, watches=answer.watches)
