"""A console as a process: one client of the cluster, one listener, and an orderly end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import trio
from trio.abc import Listener

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.ports import Clock
from virtuallog.plugins import metastore_provider
from virtuallog.rpc.connection_pace import ConnectionPace
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.tls_acceptor import TlsAcceptor
from virtuallog.rpc.transport import bound_address
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.process_priority import give_way
from virtuallog_console.access.admission import Admission
from virtuallog_console.access.application import ConsoleApplication
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.access.routes import RouteGroup
from virtuallog_console.actions.action_pages import ActionPages
from virtuallog_console.door.entry_json import hides_nothing
from virtuallog_console.door.log_door import door
from virtuallog_console.door.metrics_route import ConnectionMetrics, ConsoleMetrics
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_console.pages.page_routes import Pages
from virtuallog_console.pages.problem_page import problem_page
from virtuallog_console.past.past_reader import PastReader
from virtuallog_console.settings import ConsoleSettings
from virtuallog_console.views.masks import Masks
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.process.console.http_connections import HttpBounds, HttpConnections
from virtuallog_server.process.end_signals import end_on_signal
from virtuallog_server.process.listeners import listen

CONNECTIONS_MAX: Final = 256
"""Connections without a request under way. For one more the oldest is closed. Those with one are bounded by `Admission`."""
CONNECTIONS_OF_ADDRESS_MAX: Final = 64
"""The same of one address, unless it is that of a proxy or of this machine."""
HANDSHAKES_PER_SECOND: Final = 4.0
"""TLS handshakes of one address that fail, unless it is that of a proxy: 1 ms of CPU each. More wait, then they are refused."""
HANDSHAKES_AT_ONCE: Final = 128
"""The same of an address that has not come for a while, and handshakes at a time, as of a program that opens its tails again."""
HANDSHAKE_WAIT_SECONDS: Final = 2.0
"""Longest wait of a connection for its turn."""
HEAD_BYTES_MAX: Final = 16 << 10
"""Most bytes of a request's head: browsers send some, proxies add some."""
IDLE_SECONDS: Final = 15.0
"""Seconds for which a connection without a whole head of a request is kept: a browser soon asks for the next page."""
CONNECTION_SECONDS: Final = 300.0
"""Longest duration of a connection. A request that has begun is not cut off."""
_NO_TLS: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"this console serves connections inside TLS only: use https\n"
)

BOUNDS: Final = HttpBounds(
    connections=CONNECTIONS_MAX,
    connections_of_address=CONNECTIONS_OF_ADDRESS_MAX,
    head_bytes=HEAD_BYTES_MAX,
    read_seconds=None,
    keep_alive_seconds=IDLE_SECONDS,
    connection_seconds=CONNECTION_SECONDS,
)


async def run_until_signalled(settings: ConsoleSettings, cluster: ClusterFile, announce: Callable[[str], None]) -> None:
    """Serve a cluster until SIGTERM or SIGINT.

    Args:
        settings: of this console.
        cluster: the cluster, with the certificate to call it with.
        announce: called with the URL, once the console serves.

    Raises:
        InvalidSettingError: the address or the certificate cannot be used, or actions are on and it is not one of an admin.
        UnavailableError: no node of the cluster answers.
    """
    called = _with_identity(cluster, settings)
    _check_may_act(called, settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_on_signal, nursery.cancel_scope)
        credentials = Credentials.open(settings.tls, serves=True) if settings.tls else None
        listeners = await listen(settings.listen)
        async with connect(called, more=[DATABASE]) as log:
            give_way(settings.priority)
            announce(url_of(settings, listeners))
            policy, masks = settings.policy, Masks(settings.masks)
            past = PastReader(settings.cluster, called.tls, settings.priority, log.view.environment.clock)
            pages = Pages(log, metastore_provider(), masks, past)
            groups = [ActionPages.of(log, policy, settings.archives, masks).routes()]
            await serve(log, policy, listeners, SystemClock(), credentials=credentials, pages=pages, groups=groups)


async def serve(
    log: VirtualLog,
    policy: AccessPolicy,
    listeners: Sequence[Listener[Any]],
    clock: Clock,
    *,
    credentials: Credentials | None = None,
    pages: Pages | None = None,
    groups: Sequence[RouteGroup] = (),
    admission: Admission | None = None,
) -> None:
    """Serve the door to a log, its pages, and further groups of routes, until cancelled.

    Args:
        log: the log.
        policy: says who may do what.
        listeners: where to serve.
        clock: clock of all times.
        credentials: certificate and authority. None to serve without TLS.
        pages: the pages. None to serve none.
        groups: further routes, such as those of actions.
        admission: bounds what is under way. None: with the defaults.
    """
    hub = TailHub(log, clock)
    shown = [pages.routes(hub)] if pages is not None else []
    hides = pages.hides if pages is not None else hides_nothing
    figures = ConsoleMetrics()
    served = [door(log, hub, clock, hides), figures.routes(), *shown, *groups]
    application = ConsoleApplication(served, policy, clock, admission, problem_page)
    pace = ConnectionPace(
        per_second=HANDSHAKES_PER_SECOND,
        burst=HANDSHAKES_AT_ONCE,
        wait_seconds=HANDSHAKE_WAIT_SECONDS,
        unpaced=policy.is_trusted,
    )
    acceptor = TlsAcceptor(credentials, clock, RateLimitedLog(clock), _NO_TLS) if credentials else None
    connections = HttpConnections(application, BOUNDS, clock, acceptor=acceptor, pace=pace, uncounted=policy.is_trusted)
    figures.parts += [ConnectionMetrics(connections), application, hub]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        if pages is not None:
            nursery.start_soon(pages.run)
        await connections.run(listeners)


def url_of(settings: ConsoleSettings, listeners: Sequence[Listener[Any]]) -> str:
    """The URL that a client on this machine opens."""
    address = bound_address(listeners[0])
    if settings.tls is None:
        return f"http://{address}"
    host = settings.hosts[0]
    return f"https://{f'[{host}]' if ':' in host else host}:{address.rpartition(':')[2]}"


def _check_may_act(cluster: ClusterFile, settings: ConsoleSettings) -> None:
    """Check that nodes let this console do what admins want from it.

    Raises:
        InvalidSettingError: actions are on, and the certificate is not one of an admin.
    """
    owner = Credentials.open(cluster.tls).owner if settings.actions and cluster.tls else None
    if owner is not None and owner.role < Role.ADMIN:
        raise InvalidSettingError("actions", f"need a certificate of an admin for the console; this is {owner}")


def _with_identity(cluster: ClusterFile, settings: ConsoleSettings) -> ClusterFile:
    """The cluster, called with the console's own certificate if it uses TLS at all."""
    return attrs.evolve(cluster, tls=settings.tls) if cluster.tls and settings.tls else cluster
