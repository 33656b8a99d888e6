"""The whole service for ZooKeeper's clients: connections, and the tasks around them.

    contact        one `sync` after the other shows if the log can be reached (`read_only`)
    words, pages   their facts are collected here (`facts`)
    the list       this server puts itself into /zookeeper/config when it begins to serve

Sockets and pages are in `virtuallog_server.process.zookeeper_ports`.
"""

from __future__ import annotations

import platform
import random
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final

import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.runtime import log
from virtuallog_database.replica.database import Database
from virtuallog_database.tree.commands import Origin
from virtuallog_database.tree.paths import CONFIG
from virtuallog_database.tree.results import Error, RefusedError, Result
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.admin.facts import LISTED_MAX, Mode, ServerFacts
from virtuallog_server.zookeeper.admin.four_letter_words import FourLetterWords
from virtuallog_server.zookeeper.auth.sasl import SaslExchange
from virtuallog_server.zookeeper.auth.schemes import SUPER, Authentication
from virtuallog_server.zookeeper.log_contact import TICK_SECONDS, LogContact
from virtuallog_server.zookeeper.server import ZooKeeperServer
from virtuallog_server.zookeeper.session.serving_context import Reconfigured, ServiceMode, SessionHooks
from virtuallog_server.zookeeper.wire.quorum_config import QuorumChange, announced, reconfigured

NONCE_BYTES: Final = 24
"""Random bytes of the nonce in a SASL challenge."""
ANNOUNCE_SECONDS: Final = 1.0
"""Pause between two attempts, while the log cannot be reached, or the list does not take this server. Each attempt is an entry of
the log. Reasons for a refusal: other servers begin at the same time, or a quota.
"""


class ZooKeeperService:
    """The service of one server.

    Args:
        database: the replica that is served.
        settings: of the node.
        clock: of the node.
        random: of the node.
        node: its number.
        address: its address for other nodes, for /zookeeper/config.
        mode: returns leader, follower or standalone, as far as the node knows now.
    """

    def __init__(
        self,
        database: Database,
        settings: ZooKeeperSettings,
        clock: Clock,
        random: random.Random,
        *,
        node: int,
        address: str,
        mode: Callable[[], Mode] = lambda: Mode.FOLLOWER,
    ) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._random = random
        self._node = node
        self._address = address
        self._mode = mode
        self._begun = clock.monotonic()
        self.contact = LogContact(settings.read_only)
        self.server = ZooKeeperServer(database, settings, clock, random, node=node, hooks=self._hooks())

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that connections need, until cancelled. Connections can be served once it has started."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.server.run)
            nursery.start_soon(self._count_ticks)
            nursery.start_soon(self._keep_contact)
            nursery.start_soon(self._announce)
            task_status.started()

    def facts(self) -> ServerFacts:
        """The present facts about the server."""
        tree, standing = self._database.tree, self.contact.standing
        meta = tree.meta
        return ServerFacts(
            server=self._node,
            mode=Mode.READ_ONLY if standing is ServiceMode.READ_ONLY else self._mode(),
            serving=standing is not ServiceMode.NONE,
            zxid=tree.last_zxid,
            nodes=meta.znodes,
            data_bytes=meta.data_bytes,
            ephemerals=meta.ephemerals,
            sessions=meta.sessions,
            list_sessions=lambda: {id_: session.timeout_ms for id_, session in tree.some_sessions(LISTED_MAX).items()},
            list_ephemerals=lambda: tree.some_ephemerals(LISTED_MAX),
            traffic=self.server.traffic(),
            list_watches=self.server.watches,
            uptime_ms=round((self._clock.monotonic() - self._begun) * 1000),
            settings=_in_their_words(self._settings),
            environment=_environment(),
            members=self._members(),
        )

    def _hooks(self) -> SessionHooks:
        users = {user.name: user.password for user in self._settings.sasl_users}
        return SessionHooks(
            authentication=Authentication(self._settings.superuser_digest),
            new_exchange=(lambda: SaslExchange(users, self._random.randbytes(NONCE_BYTES).hex())) if users else None,
            sasl_required=self._settings.sasl_required,
            words=FourLetterWords(self._settings.commands, self.facts, self._reset),
            standing=lambda: self.contact.standing,
            reconfigure=self._reconfigure,
        )

    def _reset(self) -> None:
        self.server.reset_traffic()

    def _reconfigure(self, asked: QuorumChange, origin: Origin, done: Reconfigured) -> None:
        tree = self._database.tree
        command = reconfigured(*tree.get_data(CONFIG, (SUPER,)), asked)
        if isinstance(command, Error):
            done(Result(tree.last_zxid, command))
            return

        def told(outcome: Result | VirtualLogError) -> None:
            if isinstance(outcome, Result) and outcome.error is Error.OK:
                outcome = Result(outcome.zxid, Error.OK, (command.data, outcome.value))
            done(outcome)

        self._database.proposals.submit(command, origin, told)

    async def _announce(self) -> None:
        """Put this server on the list. Of two servers that do so at once one is refused, and tries again."""
        while True:
            try:
                error = await self._try_to_announce()
            except (VirtualLogError, RefusedError) as raised:
                log.debug("not announced yet", reason=str(raised))
            else:
                if error is Error.OK:
                    return
                log.debug("not announced yet", reason=error.name)
            await self._clock.sleep(ANNOUNCE_SECONDS)

    async def _try_to_announce(self) -> Error:
        await self._database.sync()
        data, stat = self._database.tree.get_data(CONFIG, (SUPER,))
        client = self._settings.client_address
        command = announced(data, stat, number=self._node, address=self._address, client=client)
        if command is None:
            return Error.OK
        return (await self._database.proposals.execute(command, Origin(identities=(SUPER,)))).error

    async def _keep_contact(self) -> None:
        while True:
            try:
                await self._database.sync()
                self.contact.answered()
            except (
                VirtualLogError
            ) as error:  # after any error the log has not answered; the replica itself ends what must end
                log.debug("the log has not answered", reason=str(error))
            await self._clock.sleep(TICK_SECONDS)

    async def _count_ticks(self) -> None:
        while True:
            await self._clock.sleep(TICK_SECONDS)
            former = self.contact.standing
            self.contact.tick()
            if self.contact.standing is not former:
                log.warning("the log cannot be reached", standing=self.contact.standing.value)

    def _members(self) -> Sequence[str]:
        try:
            data, _ = self._database.tree.get_data(CONFIG, (SUPER,))
        except RefusedError:
            return ()
        return (data or b"").decode(errors="replace").splitlines()


def _in_their_words(settings: ZooKeeperSettings) -> dict[str, object]:
    """The settings by ZooKeeper's names, as `conf` shows them."""
    host, _, port = settings.listen.rpartition(":")
    return {
        "clientPort": port,
        "clientPortAddress": host,
        "secureClientPort": settings.tls_listen.rpartition(":")[2] or -1,
        "tickTime": settings.tick_ms,
        "maxClientCnxns": settings.connections_per_client_max,
        "minSessionTimeout": settings.timeout_min_ms,
        "maxSessionTimeout": settings.timeout_max_ms,
        "maxCnxns": settings.connections_max,
        "jute.maxbuffer": settings.jute_maxbuffer_bytes,
        "readonlymode.enabled": str(settings.read_only).lower(),
    }


def _environment() -> dict[str, str]:
    """The environment by Java's names, as far as there is a value."""
    return {
        "host.name": socket.gethostname(),
        "python.version": platform.python_version(),
        "python.executable": sys.executable,
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
    }
