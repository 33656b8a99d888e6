"""Sessions of clients that stay and of clients that vanish, at three servers of which one or another is cut off from the log, stands
still, hears late or begins anew, or is given a handshake that is out of date, with clocks at the limits of a drawn drift.

Clients that stay only ping and read, so the log knows of them by what their servers report alone. Some go on elsewhere when their
server does not answer, others have one server only. Each races with the expiry of its session: a server must stop answering
before another one may have expired the session, and nothing may expire it within its timeout of an answer. In a share of the runs
nothing fails, and sessions of clients that vanish must end soon. The drift, the servers, the episodes and their lengths are drawn.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_database.tree.commands import Create, Mode
from virtuallog_simulation.checks.database.replay import replay
from virtuallog_simulation.checks.database.sessions import lives_on
from virtuallog_simulation.scenarios.database.lag import CAUGHT_UP
from virtuallog_simulation.scenarios.database.servers import OptionalEngines
from virtuallog_simulation.scenarios.database.three_servers import FIRST_CLIENT, NODES, ThreeServers
from virtuallog_simulation.workload.database import wire
from virtuallog_simulation.workload.database.connection import Dial
from virtuallog_simulation.workload.database.embedded_client import EmbeddedClientPace
from virtuallog_simulation.workload.database.requests import GetData
from virtuallog_simulation.workload.database.session import DatabaseClient
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import ClockErrors, World

DRIFTS: Final = (0.0, 0.1, 0.2, 0.3)
"""Drift of all clocks, each at one of the limits. Up to 0.2 no session ends within its timeout."""
TIMEOUTS_MS: Final = (1500, 2000, 3000)
"""Short ones: the longest absence of a server is then longer than others wait."""
MANNER: Final = EmbeddedClientPace(pause_seconds=2.0)
"""Programs beside the replicas are not what is judged here."""
STAYING: Final = 5
"""Clients that stay: one for each server, the others for all."""
START_SECONDS: Final = 30.0
CALM: Final = 0.2
"""Share of the runs in which nothing fails."""
EPISODES: Final = (1, 2)
EPISODE_SECONDS: Final = (1.0, 6.0)
STUTTER_SECONDS: Final = (0.2, 2.5)
"""Length of one of several stops in a row."""
STUTTERS: Final = (2, 4)
AWAKE_SECONDS: Final = (0.001, 0.2)
"""Between two such stops: enough to answer, and often not enough to report."""
LATE_SECONDS: Final = (0.05, 0.4)
"""Delay in seconds of what one server hears of the others."""
BETWEEN_SECONDS: Final = (0.3, 2.0)
STRAGGLER: Final = NodeId(FIRST_CLIENT + STAYING + 3)
"""Process from which a handshake comes late."""
READ_SECONDS: Final = 1.5
"""Mean time between two reads of a client that stays."""
STAY_SECONDS: Final = (0.2, 6.0)
"""Time that a client which vanishes has a session for."""
PEACE_SECONDS: Final = 10.0
"""Longer than any session without a client: the longest timeout as other servers wait for it, by the
slowest clock, a proposal that was lost, and a look."""

EXPIRED: Final = "expiring sessions expired"
MOVED: Final = "expiring sessions that went on at another server"
LOOKED: Final = (EXPIRED, MOVED, CAUGHT_UP)


@attrs.define(eq=False)
class _Run:
    world: World
    source: random.Random
    staying: list[DatabaseClient] = attrs.field(factory=list)
    pinned: dict[NodeId, DatabaseClient] = attrs.field(factory=dict)
    """Clients that know one server only, by that."""
    three: ThreeServers = attrs.field(init=False)

    def client(self, number: int, node: NodeId, only: NodeId | None) -> DatabaseClient:
        return self.three.client(number, node, timeout_ms=self.source.choice(TIMEOUTS_MS), only=only)

    async def stay(self, number: int, only: NodeId | None) -> None:
        """Keep a session, and read now and then."""
        node = NodeId(FIRST_CLIENT + number)
        async with self.world.client(node):
            client, known = self.client(number, node, only), 0
            self.staying.append(client)
            if only is not None:
                self.pinned[only] = client
            while True:
                async with client.connection() as connection:
                    self.world.counts[MOVED] += client.session == known
                    known = client.session
                    while connection.is_open:
                        await trio.sleep(self.source.expovariate(1 / READ_SECONDS))
                        with suppress(UnavailableError):
                            await connection.ask(GetData("/", watch=False))

    async def vanish(self, number: int) -> None:
        """Have a session with an ephemeral for a while, and leave it, again and again."""
        node = NodeId(FIRST_CLIENT + number)
        async with self.world.client(node):
            client = self.client(number, node, None)
            while True:
                async with client.connection() as connection:
                    with suppress(UnavailableError):
                        await connection.ask(Create(f"/{number}", b"", mode=Mode.EPHEMERAL_SEQUENTIAL))
                    await trio.sleep(self.source.uniform(*STAY_SECONDS))
                if self.source.random() < 0.7:
                    client.forget()

    # -- episodes ---------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        return self.source.uniform(*EPISODE_SECONDS)

    async def isolate(self, server: NodeId) -> None:
        """Cut it off from the log; clients reach it."""
        with self.three.isolated(server):
            await trio.sleep(self.seconds)

    async def pause(self, server: NodeId) -> None:
        """Stop it, and let it go on."""
        self.three.machine(server).pause()
        await trio.sleep(self.seconds)
        self.three.machine(server).resume()

    async def stutter(self, server: NodeId) -> None:
        """Stop it again and again, cut off from the log or not."""
        if self.source.random() < 0.5:
            with self.three.isolated(server):
                await self._stutter(server)
        else:
            await self._stutter(server)

    async def _stutter(self, server: NodeId) -> None:
        machine = self.three.machine(server)
        for _ in range(self.source.randint(*STUTTERS)):
            machine.pause()
            await trio.sleep(self.source.uniform(*STUTTER_SECONDS))
            machine.resume()
            await trio.sleep(self.source.uniform(*AWAKE_SECONDS))

    async def delay(self, server: NodeId) -> None:
        """Delay what it hears of the others, so that it always waits for an answer. Then stop it for a moment, and let nothing that it
        says afterwards reach them: the answers that it finds are old, and the last ones."""
        others = [node for node in NODES if node != server]
        heard = [self.world.network.link(node, server) for node in others]
        said = [self.world.network.link(server, node) for node in others]
        former, late = [link.quality for link in heard], self.source.uniform(*LATE_SECONDS)
        for link in heard:
            link.quality = attrs.evolve(link.quality, delay_seconds=late)
        await trio.sleep(self.seconds)
        self.three.machine(server).pause()
        for link in said:
            link.cut("staged")
        await trio.sleep(self.source.uniform(*STUTTER_SECONDS))
        self.three.machine(server).resume()
        await trio.sleep(self.seconds)
        for link in said:
            link.mend("staged")
        for link, quality in zip(heard, former, strict=True):
            link.quality = quality

    async def restart(self, server: NodeId) -> None:
        """Kill its process, and start it again after a while."""
        self.three.machine(server).crash(power=False)
        await trio.sleep(self.source.uniform(*BETWEEN_SECONDS))
        self.three.machine(server).start()

    async def straggle(self, server: NodeId) -> None:
        """Let a handshake of its client reach another server late, and nothing after it, just when the server is cut off: it has not
        heard that the session has moved, and answers for as long as it may."""
        late = self.source.choice([node for node in NODES if node != server])
        async with self.world.client(STRAGGLER):
            with self.three.isolated(server):
                with suppress(OSError, trio.BrokenResourceError):
                    await self._claim(self.pinned[server], self.three.dial(STRAGGLER, late))
                await trio.sleep(self.seconds)

    async def _claim(self, client: DatabaseClient, dial: Dial) -> None:
        """The client's handshake, as the server finds it. The answer is not read."""
        stream = await dial()
        try:
            await stream.send_all(wire.encode_connect(client.session, client.password, 0, client.timeout_ms))
            await trio.sleep(self.source.uniform(*BETWEEN_SECONDS))
        finally:
            await trio.aclose_forcefully(stream)

    async def swap(self, server: NodeId) -> None:
        """Put a new loglet in the place of the last one, while the server is cut off for a moment."""
        async with self.three.cluster.client("operator") as client:
            with self.three.isolated(server):
                await trio.sleep(self.source.uniform(*BETWEEN_SECONDS))
                with trio.move_on_after(3.0), suppress(VirtualLogError):
                    await client.log.reconfig_extend("native", {})


_EPISODES: Final[Sequence[tuple[float, Callable[[_Run, NodeId], Awaitable[None]]]]] = (
    (3, _Run.isolate),
    (2, _Run.pause),
    (3, _Run.stutter),
    (4, _Run.delay),
    (1, _Run.restart),
    (1, _Run.swap),
    (3, _Run.straggle),
)


async def _story(world: World) -> None:
    source = world.random("plan")
    run = _Run(world, source)
    drift, calm = source.choice(DRIFTS), source.random() < CALM
    world.clock_errors = ClockErrors(drift=drift)
    run.three = ThreeServers.begin(world, OptionalEngines((), frozenset()), lambda what: None, manner=MANNER)
    for node in NODES:  # before any time has passed: later a new rate would be a jump
        run.three.machine(node).clock.rate = 1.0 + source.choice((-drift, drift))
    async with trio.open_nursery() as nursery:
        for number in range(STAYING):
            nursery.start_soon(run.stay, number + 1, NODES[number] if number < len(NODES) else None)
        async with trio.open_nursery() as leaving:
            for number in (STAYING + 1, STAYING + 2):
                leaving.start_soon(run.vanish, number)
            await _trouble(run, calm=calm)
            leaving.cancel_scope.cancel()
        await trio.sleep(PEACE_SECONDS)
        used = {client.session for client in run.staying}
        world.check(partial(lives_on, alive=used.__contains__))
        await run.three.demand_no_lag()
        nursery.cancel_scope.cancel()
    run.three.judge(calm=calm)
    world.counts[EXPIRED] += sum(life.expired for life in replay(world.history).lives.values())


async def _trouble(run: _Run, *, calm: bool) -> None:
    with trio.move_on_after(START_SECONDS) as scope:
        while not all(client.session for client in run.staying) or len(run.staying) < STAYING:
            await trio.sleep(0.1)
    if scope.cancelled_caught:
        run.world.violations.append(Violation("progress", f"not all clients were served within {START_SECONDS:g} s"))
        return
    for _ in range(run.source.randint(*EPISODES)):
        await trio.sleep(run.source.uniform(*BETWEEN_SECONDS))
        if calm:
            await trio.sleep(run.seconds)
        else:
            weights, acts = zip(*_EPISODES, strict=True)
            await run.source.choices(acts, weights)[0](run, run.source.choice(NODES))
    await trio.sleep(run.source.uniform(*BETWEEN_SECONDS))


EXPIRING: Final = Scenario(
    name="expiring",
    about="sessions of clients that stay and that vanish, while their servers are cut off, stand still or hear late",
    story=_story,
    limit_seconds=200.0,
)
