"""Serves ZooKeeper's clients: accepts connections, keeps them within bounds, and ends those whose time is over."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import structlog
import trio
from trio.abc import Listener, Stream

from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock
from virtuallog.rpc.admission import Admission, ServerLimits
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.transport import accepted, peer_address
from virtuallog_database.replica.database import Database
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.admin.facts import LISTED_MAX, Traffic, WatchFacts
from virtuallog_server.zookeeper.session.client_session import ClientAddress, ClientSession
from virtuallog_server.zookeeper.session.handshake_quota import HandshakeQuota
from virtuallog_server.zookeeper.session.hooks import SessionHooks
from virtuallog_server.zookeeper.session.metrics import ZooKeeperMetrics
from virtuallog_server.zookeeper.session.read_budget import ReadBudget
from virtuallog_server.zookeeper.session.shared_sync import SharedSync

TICK_SECONDS: Final = 0.5
"""Between two looks for connections whose time is over, and for whom is served now."""
HELD_BYTES_MAX: Final = 256 << 20
"""What all connections together may make this server hold; the same as the RPC of a node may."""

log = structlog.get_logger(__name__)


class ZooKeeperServer:
    """See above. Connections can be served while `run` runs.

    Args:
        database: the replica that is served.
        settings: of the node.
        clock: of the node.
        random: identifiers and passwords of sessions come from it.
        node: its number.
        hooks: who clients are, whether they are served now, words of four letters.
    """

    def __init__(
        self,
        database: Database,
        settings: ZooKeeperSettings,
        clock: Clock,
        random: random.Random,
        *,
        node: int,
        hooks: SessionHooks | None = None,
    ) -> None:
        self.database: Final = database
        self.settings: Final = settings
        self.clock: Final = clock
        self.random: Final = random
        self.node: Final = node
        self.hooks: Final = hooks or SessionHooks()
        self.attempts: Final = HandshakeQuota()
        self.syncs: Final = SharedSync(database.sync)
        self.read_budget: Final = ReadBudget(lambda: database.tree.looked, clock)
        self.meter: Final = ZooKeeperMetrics()
        self._complaints = RateLimitedLog(clock, counts=self.meter.complaints)
        self._guests: dict[ClientSession, None] = {}
        self._sessions: dict[int, ClientSession] = {}
        self._hosts: Counter[str] = Counter()
        limits = ServerLimits(connections_max=settings.connections_max, held_bytes_max=HELD_BYTES_MAX)
        self._admission = Admission(limits)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Needed by `serve_stream`: ends connections whose time is over, carries out `sync`, and lets reads go on. Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.syncs.run)
            nursery.start_soon(self.read_budget.run)
            task_status.started()
            while True:
                await self.clock.sleep(TICK_SECONDS)
                self._tick()

    async def serve(
        self,
        listeners: Sequence[Listener[Any]],
        task_status: trio.TaskStatus[list[Listener[Any]]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections until cancelled; `run` must be running. While the process has no descriptors left, newcomers wait."""
        await trio.serve_listeners(self._serve_accepted, list(listeners), task_status=task_status)

    async def _serve_accepted(self, stream: Stream) -> None:
        accepted(stream)
        address = peer_address(stream)
        if address is None:
            await trio.aclose_forcefully(stream)
        else:
            await self.serve_stream(stream, *address)

    async def serve_stream(self, stream: Stream, host: str, port: int = 0, subject: str | None = None) -> None:
        """Serve one connection until it ends; closes the stream. Cancelling cuts it off.

        Args:
            stream: to the client.
            host: its address, without a port; empty if it has none.
            port: its own; 0 if it has none.
            subject: of the certificate that it has shown by TLS; empty: none. None: it does not come by TLS.
        """
        caller = ClientAddress(host=host, port=port, subject=subject)
        guest = ClientSession(self, caller)
        refusal = self._refusal(guest)
        if refusal:
            self.meter.rejected.value += 1
            self._complaints.warn("connection refused", address=caller.address, reason=refusal)
            await trio.aclose_forcefully(stream)
            return
        self._guests[guest] = None
        self._hosts[caller.host] += 1
        try:
            reason = await guest.run(stream)
            log.debug("connection ended", address=caller.address, session=hex(guest.session), reason=str(reason))
        finally:
            self._forget(guest)

    def _refusal(self, guest: ClientSession) -> str:
        """Why this connection is not let in; empty: it is."""
        most, host = self.settings.connections_per_client_max, guest.caller.host
        if most and self._hosts[host] >= most and not self._push_out_silent(host):
            return f"{most} connections from this address are open"
        if not self._admission.enter(guest):
            return f"{len(self._admission)} connections are open"
        return ""

    def _push_out_silent(self, host: str) -> bool:
        """End the oldest connection from this address that has not said anything; False: there is none."""
        for guest in self._guests:
            if guest.caller.host == host and not guest.has_asked and not guest.has_gone:
                guest.end("one more came from its address, and this one has not said anything")
                return True
        return False

    def _forget(self, guest: ClientSession) -> None:
        self._admission.leave(guest)
        del self._guests[guest]
        self._hosts[guest.caller.host] -= 1
        if not self._hosts[guest.caller.host]:
            del self._hosts[guest.caller.host]
        if self._sessions.get(guest.session) is guest:
            del self._sessions[guest.session]
        self.meter.left(guest.connection)

    # -- what guests ask ---------------------------------------------------------------------------------------------

    def settle(self, guest: ClientSession) -> None:
        """It has its session, and has shown the password if that is not new: the former connection of the session is ended."""
        former, self._sessions[guest.session] = self._sessions.get(guest.session), guest
        if former is not None:
            former.end("the session goes on at another connection")

    def weigh(self, guest: ClientSession) -> None:
        self._admission.weigh(guest)

    # -- time --------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        standing = self.hooks.standing()
        for guest in list(self._guests):
            guest.tick(TICK_SECONDS, standing)
        self._admission.expire(self.clock.monotonic())

    def close_all(self, reason: str) -> None:
        """End all connections now. Sessions of the log live on."""
        for guest in list(self._guests):
            guest.end(reason)

    # -- figures -----------------------------------------------------------------------------------------------------

    def traffic(self) -> Traffic:
        """What connections do, for four-letter words and admin pages; `virtuallog_server.zookeeper.admin.facts.CountsTraffic`."""
        connections = [guest.facts() for guest in self._guests]
        received, sent = self.meter.frames(guest.connection for guest in self._guests)
        return Traffic(
            connections=connections,
            watches=self.database.watches.count,
            latency=self.meter.latency(),
            received=received,
            sent=sent,
            rejected=round(self.meter.rejected.value),
            outstanding=sum(each.outstanding for each in connections),
        )

    def watches(self) -> WatchFacts:
        """Who watches what; `virtuallog_server.zookeeper.admin.facts.ServerFacts.list_watches`."""
        watches, watching, left = self.database.watches, {}, LISTED_MAX
        for guest in self._guests:
            if guest.session and left:
                found = {*islice(watches.data.paths_of(guest), left), *islice(watches.child.paths_of(guest), left)}
                if found:
                    watching[guest.session] = sorted(found)[:left]
                    left -= len(watching[guest.session])
        return WatchFacts(paths_of=watching, more=0 if left else watches.count - LISTED_MAX)

    def reset_traffic(self) -> None:
        """Start counting anew."""
        self.meter.reset(guest.connection for guest in self._guests)

    def metrics(self) -> list[MetricFamily]:
        """See `virtuallog.contract.metrics.MetricsSource`."""
        return self.meter.metrics(
            [guest.connection for guest in self._guests],
            self.settings.connections_max,
            self._admission.held_bytes,
            HELD_BYTES_MAX,
        )
