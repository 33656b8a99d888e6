"""Clients with rights on three servers of a database: ACLs, logins, quotas, unauthorized clients,
read-only mode, lists of servers.

The super user, two clients with digests, two that log in by SASL and one without anything use the same few znodes and change who may use
them. In a share of the runs a login is a duty. In a share one server is cut off from the log for long enough to serve in read-only
mode, in another one a server is killed and started again. The model judges every answer, also each refusal.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_server.config.zookeeper_settings import SaslUser, ZooKeeperSettings
from virtuallog_simulation.checks.database.rights import RIGHTS_CHECKS
from virtuallog_simulation.checks.database.watches import TOLD, events_compared
from virtuallog_simulation.scenarios.database.lag import CAUGHT_UP
from virtuallog_simulation.scenarios.database.servers import OptionalEngines
from virtuallog_simulation.scenarios.database.three_servers import COMPARED, FIRST_CLIENT, NODES, ThreeServers
from virtuallog_simulation.workload.database.acl_operations import CREDENTIALS, SHAPES, SUPER, USERS, AclActor, found
from virtuallog_simulation.workload.database.authentication_model import digest_of
from virtuallog_simulation.workload.database.embedded_client import EmbeddedClientPace
from virtuallog_simulation.workload.database.requests import Rules
from virtuallog_simulation.workload.database.session import DatabaseClient
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

PREFIX: Final = "rights "
"""Prefix of the counters."""
LOGIN_IS_A_DUTY: Final = 0.25
CUT_OFF: Final = 0.35
"""Share of the runs with a server in read-only mode; in as many others a server is killed."""
KILLED: Final = 0.25
CALM_SECONDS: Final = 3.0
SILENT_SECONDS: Final = (6.5, 8.0)
START_SECONDS: Final = 30.0
TIMEOUT_MS: Final = 20_000
MANNER: Final = EmbeddedClientPace(pause_seconds=1.0, weights=(1, 0, 0), paths=("/r", "/p", "/r/x"))
LOOKED: Final = (*(PREFIX + shape for shape in SHAPES if shape != "right shown"), COMPARED, TOLD, CAUGHT_UP)
PEOPLE: Final = (((SUPER,), "sam"), (CREDENTIALS[:1], ""), (CREDENTIALS, "sue"), (CREDENTIALS[1:], "sam"), ((), ""))
"""Digests, and the user of a login."""


@attrs.define(eq=False)
class _Run:
    world: World
    source: random.Random
    three: ThreeServers = attrs.field(init=False)
    lonely: NodeId | None = None
    """The server that will be cut off."""
    is_duty: bool = False
    clients: list[DatabaseClient] = attrs.field(factory=list)

    def count(self, what: str) -> None:
        self.world.counts[PREFIX + what] += 1

    async def live(self, number: int, credentials: tuple[bytes, ...], user: str, ready: trio.Event) -> None:
        """One client, for the whole run."""
        node = NodeId(FIRST_CLIENT + number)
        async with self.world.client(node):
            stays = self.lonely if number in (1, 2) else None
            client = self.three.client(number, node, timeout_ms=TIMEOUT_MS, only=stays)
            client.read_only = stays is not None
            self.clients.append(client)
            if number == 0:
                await found(client)
                ready.set()
            await ready.wait()
            user = user or ("sue" if self.is_duty and self.source.random() < 0.7 else "")
            source = self.world.random(f"client with rights {number}")
            await AclActor(client, source, credentials, user, lambda: self.clients, self.count).perform()

    async def trouble(self) -> None:
        """Cause one of the three kinds of trouble of a run."""
        await trio.sleep(CALM_SECONDS * self.source.uniform(0.7, 1.3))
        if self.lonely is not None:
            with self.three.isolated(self.lonely):
                await trio.sleep(self.source.uniform(*SILENT_SECONDS))
            await trio.sleep(2.0)
        elif self.source.random() < KILLED / (1 - CUT_OFF):
            machine = self.three.machine(self.source.choice(NODES))
            machine.crash(power=self.source.random() < 0.5)
            self.world.fault("staged kill")
            await trio.sleep(self.source.uniform(0.2, 1.5))
            machine.start()
            await trio.sleep(3.0)
        else:
            await trio.sleep(CALM_SECONDS)


async def _story(world: World) -> None:
    source = world.random("plan")
    run = _Run(world, source)
    run.is_duty = source.random() < LOGIN_IS_A_DUTY
    if source.random() < CUT_OFF:
        run.lonely = source.choice(NODES)
    super_digest = digest_of(SUPER.decode())
    settings = ZooKeeperSettings(
        session_timeout_min_ms=1000,
        read_only=True,
        superuser_digest=super_digest,
        sasl_required=run.is_duty,
        sasl_users=tuple(SaslUser(name=name, password=password) for name, password in USERS.items()),
    )
    world.history.observed("settings", Rules(super_digest, USERS, run.is_duty), None)
    run.three = ThreeServers.begin(world, OptionalEngines((), frozenset()), run.count, manner=MANNER, settings=settings)
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        for number, (credentials, user) in enumerate(PEOPLE):
            nursery.start_soon(partial(run.live, number, credentials, user, ready))
        with trio.move_on_after(START_SECONDS):
            await ready.wait()
        if ready.is_set():
            await run.trouble()
            await run.three.demand_no_lag()
        else:
            message = f"no client was served within {START_SECONDS:g} s of the first start"
            world.violations.append(Violation("progress", message))
        nursery.cancel_scope.cancel()
    run.three.judge()
    world.check(*RIGHTS_CHECKS)
    world.counts[TOLD] += events_compared(world.history)


RIGHTS: Final = Scenario(
    name="rights",
    about="clients with rights on three servers: ACLs, logins, quotas, wrong passwords, read-only mode, lists of servers",
    story=_story,
    limit_seconds=200.0,
)
