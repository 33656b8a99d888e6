"""The server for ZooKeeper's clients: it accepts connections, keeps them within bounds, and ends those whose time is over."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import trio
from trio.abc import Listener, Stream

from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock
from virtuallog.rpc.admission import Admission, ServerLimits
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.transport import accepted, peer_address
from virtuallog.runtime import log
from virtuallog_database.replica.database import Database
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.admin.facts import LISTED_MAX, Traffic, WatchFacts
from virtuallog_server.zookeeper.session.client_session import ClientAddress, ClientSession
from virtuallog_server.zookeeper.session.handshake_quota import HandshakeQuota
from virtuallog_server.zookeeper.session.metrics import ZooKeeperMetrics
from virtuallog_server.zookeeper.session.read_budget import ReadBudget
from virtuallog_server.zookeeper.session.serving_context import SessionHooks
from virtuallog_server.zookeeper.session.shared_sync import SharedSync

TICK_SECONDS: Final = 0.5
"""Pause between two checks: of connections whose time is over, and of the kind of clients served now."""
HELD_BYTES_MAX: Final = 256 << 20
"""Most bytes that all connections together may make this server hold; as many as for the RPC of a node."""


class ZooKeeperServer:
    """The connections of ZooKeeper's clients. They can be served while `run` runs.

    Args:
        database: the replica that is served.
        settings: of the node.
        clock: of the node.
        random: source of session ids and passwords.
        node: its number.
        hooks: authentication, the service mode, four-letter words.
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
        self._clients: dict[ClientSession, None] = {}
        self._sessions: dict[int, ClientSession] = {}
        self._hosts: Counter[str] = Counter()
        limits = ServerLimits(connections_max=settings.connections_max, held_bytes_max=HELD_BYTES_MAX)
        self._admission = Admission(limits)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """End connections whose time is over, carry out `sync`, and resume reads, until cancelled. `serve_stream` needs it."""
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
        """Serve one connection until it ends; close the stream. Cancellation cuts it off.

        Args:
            stream: to the client.
            host: its address, without a port; empty if it has none.
            port: its port; 0 if it has none.
            subject: of the certificate that it has shown by TLS; empty if it has shown none. None without TLS.
        """
        caller = ClientAddress(host=host, port=port, subject=subject)
        client = ClientSession(self, caller)
        refusal = self._refusal(client)
        if refusal:
            self.meter.rejected.value += 1
            self._complaints.warn("connection refused", address=caller.address, reason=refusal)
            await trio.aclose_forcefully(stream)
            return
        self._clients[client] = None
        self._hosts[caller.host] += 1
        try:
            reason = await client.run(stream)
            log.debug("connection ended", address=caller.address, session=hex(client.session), reason=str(reason))
        finally:
            self._forget(client)

    def _refusal(self, client: ClientSession) -> str:
        """The reason to refuse a connection. Empty if it may enter."""
        most, host = self.settings.connections_per_client_max, client.caller.host
        if most and self._hosts[host] >= most and not self._push_out_silent(host):
            return f"{most} connections from this address are open"
        if not self._admission.enter(client):
            return f"{len(self._admission)} connections are open"
        return ""

    def _push_out_silent(self, host: str) -> bool:
        """End the oldest connection from this address that has sent nothing. False if there is none."""
        for client in self._clients:
            if client.caller.host == host and not client.has_asked and not client.has_gone:
                client.end("one more came from its address, and this one has not said anything")
                return True
        return False

    def _forget(self, client: ClientSession) -> None:
        self._admission.leave(client)
        del self._clients[client]
        self._hosts[client.caller.host] -= 1
        if not self._hosts[client.caller.host]:
            del self._hosts[client.caller.host]
        if self._sessions.get(client.session) is client:
            del self._sessions[client.session]
        self.meter.left(client.connection)

    def settle(self, client: ClientSession) -> None:
        """End the former connection of a session that this client has resumed, after it has shown the password."""
        former, self._sessions[client.session] = self._sessions.get(client.session), client
        if former is not None:
            former.end("the session goes on at another connection")

    def weigh(self, client: ClientSession) -> None:
        self._admission.weigh(client)

    def _tick(self) -> None:
        standing = self.hooks.standing()
        for client in list(self._clients):
            client.tick(TICK_SECONDS, standing)
        self._admission.expire(self.clock.monotonic())

    def close_all(self, reason: str) -> None:
        """End all connections now. Sessions in the log live on."""
        for client in list(self._clients):
            client.end(reason)

    def traffic(self) -> Traffic:
        """Counts of all connections, for four-letter words and admin pages (`virtuallog_server.zookeeper.admin.facts.CountsTraffic`)."""
        connections = [client.facts() for client in self._clients]
        received, sent = self.meter.frames(client.connection for client in self._clients)
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
        """Watches by session (`virtuallog_server.zookeeper.admin.facts.ServerFacts.list_watches`)."""
        watches, watching, left = self.database.watches, {}, LISTED_MAX
        for client in self._clients:
            if client.session and left:
                found = {*islice(watches.data.paths_of(client), left), *islice(watches.child.paths_of(client), left)}
                if found:
                    watching[client.session] = sorted(found)[:left]
                    left -= len(watching[client.session])
        return WatchFacts(paths_of=watching, more=0 if left else watches.count - LISTED_MAX)

    def reset_traffic(self) -> None:
        """Reset the counts."""
        self.meter.reset(client.connection for client in self._clients)

    def metrics(self) -> list[MetricFamily]:
        """Metrics of the connections (`virtuallog.contract.metrics.MetricsSource`)."""
        return self.meter.metrics(
            [client.connection for client in self._clients],
            self.settings.connections_max,
            self._admission.held_bytes,
            HELD_BYTES_MAX,
        )
