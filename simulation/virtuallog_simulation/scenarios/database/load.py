"""ZooKeeper's clients on simulated nodes that serve the database, while the nemesis works and the consensus below is swapped.

First the load: clients change and read few znodes with all that their protocol has, come, go and
come back; operators swap kinds of loglets; nodes crash, lose their disks, and rejoin from
snapshots, as the log is trimmed after some hundred commands. Then peace: every client that is still
there must be answered, and every session whose client is gone must end. In the end all replicas
read the log to its tail, and their states are compared; a program that is no replica replays the
rest of the log, and must come to the same state.

In a share of the seeds all that goes on from a database that was restored to a position of another
cluster's log (`restored_database.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

import attrs
import trio

from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.tcp_segments import StreamQuality
from virtuallog_database.errors import SnapshotNeededError
from virtuallog_database.replica.replay import Replay
from virtuallog_database.testing.memory_store import SortedPairs
from virtuallog_database.tree.commands import Reap
from virtuallog_database.tree.results import ChangeKind
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_simulation.checks.database.replay import committed, replay
from virtuallog_simulation.checks.database.replicas import (
    ALLOWED,
    ANNOUNCED,
    REPLAYED,
    REPLICA_CHECKS,
    STATES,
    StateWatch,
)
from virtuallog_simulation.checks.database.results import DATABASE_CHECKS
from virtuallog_simulation.checks.database.sessions import lives_on, session_checks
from virtuallog_simulation.checks.database.strong_reads import FIRED, READS, Fired, strong_read_checks
from virtuallog_simulation.checks.database.watches import TOLD, WATCH_CHECKS, events_compared
from virtuallog_simulation.faults.nemesis import LOST_MAX, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.cluster import load as cluster_load
from virtuallog_simulation.scenarios.database import restored_database
from virtuallog_simulation.scenarios.database.lag import CAUGHT_UP, demand_no_lag
from virtuallog_simulation.scenarios.database.servers import DatabaseServers, OptionalEngines
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.workload.database.embedded_client import INSIDE, StrongRead
from virtuallog_simulation.workload.database.operations import PREFIX, SHAPES, TIMED, DatabaseActor, prepare
from virtuallog_simulation.workload.database.session import DatabaseClient
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan, ProviderMaker
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.store_disk import RESTORED, StoreDisk
from virtuallog_simulation.world.world import World

FIRST_CLIENT: Final = 2000
TIMEOUTS_MS: Final = (4000, 5000)
"""Longer than the longest absence that a replica forgives itself, as those of ZooKeeper are."""
LOAD_SECONDS: Final = 12.0
SERVING_SECONDS: Final = 30.0
"""Seconds within which a fresh cluster without faults must serve clients, and one whose faults are
over must serve all of them again."""
PEACE_SECONDS: Final = 15.0
"""Seconds of peace: the longest timeout by the slowest clock, the extra wait of servers other than
the session's, and a proposal that is lost."""
PACE: Final = 0.5
GENTLE: Final = 6.0
"""Faults are half as long as elsewhere and strike a third as often: clients that are away all the time do nothing that could be
wrong."""
SWAP_SECONDS: Final = (0.5, 2.0, 5.0)
"""Mean time between two swaps of a run."""
PIECE_BYTES: Final = 2 << 10
"""Some entries."""
ATTEMPTS: Final = 10
"""Each begins where the log begins by then. A replica trims once a second at most."""
ANSWERS: Final = "zelos answers compared"
REPEATED: Final = "zelos commands applied again"
SWAPS: Final = "swaps"
TIMED_OUT: Final = "znodes reaped whose time was over"
EMPTIED: Final = "containers reaped"
LOOKED: Final = (
    ANSWERS, TOLD, REPEATED, STATES, REPLAYED, ANNOUNCED, ALLOWED, RESTORED, READS, FIRED, cluster_load.LATER_ORIGINS, CAUGHT_UP,
    *(PREFIX + shape for shape in (*SHAPES, *INSIDE, SWAPS, TIMED_OUT, EMPTIED)),
)  # fmt: skip
"""Counters that a set of seeds must have shown."""


@attrs.define(eq=False)
class _Run:
    """Everything that has to do with clients in one run."""

    world: World
    cluster: Cluster
    servers: DatabaseServers
    states: StateWatch
    random: random.Random
    numbers: Iterator[int] = attrs.field(factory=lambda: count(1))
    parts: list[DatabaseActor] = attrs.field(factory=list)
    staying: list[DatabaseClient] = attrs.field(factory=list)
    """Clients that have been answered since the load is over."""

    async def client(self, number: int, acts: int, pause_seconds: float, ready: trio.Event) -> None:
        """A client process for the whole run: it does its acts, and then stays, until the run is over."""
        node = NodeId(FIRST_CLIENT + number)
        source = self.world.random(f"zelos client {number}")
        async with self.world.client(node):
            dials = self.servers.dials(self.world.clients[node], self.cluster.nodes)
            client = DatabaseClient(
                f"c{number}", self.world.history, source, dials, source.choice(TIMEOUTS_MS), lambda: next(self.numbers)
            )
            part = DatabaseActor(client, source, acts, pause_seconds, partial(_count, self.world))
            self.parts.append(part)
            if number == 1:
                await prepare(client)
                ready.set()
            await ready.wait()
            await part.perform()
            await part.stay(lambda: self.staying.append(client))

    async def operate(self) -> None:
        """Put one kind of loglets in the place of another, or of the same, again and again."""
        mean = self.random.choice(SWAP_SECONDS)
        async with self.cluster.client("operator") as client:
            while True:
                await trio.sleep(self.random.expovariate(1 / mean))
                kind = self.random.choice(self.cluster.kind_names)
                with trio.move_on_after(3.0), suppress(VirtualLogError):
                    await client.log.reconfig_extend(kind, {})
                    _count(self.world, SWAPS)


def _count(world: World, what: str) -> None:
    world.counts[PREFIX + what] += 1


async def tell(world: World) -> None:
    """Tell the story."""
    source = world.random("plan")
    cluster = Cluster(world, draw_plan(source, world), cluster_load.SETTINGS)
    witness = Witness(world.history, world.violations)
    states = StateWatch(world.history, world.violations, world.counts)
    world.on_store_open, world.on_store_write = states.opened, states.wrote
    engines = OptionalEngines.draw(source, cluster.nodes)
    servers = DatabaseServers(world, witness, engines, StreamQuality(), partial(_count, world))
    servers.start(cluster)
    _restore(world, cluster, servers, states)
    nemesis = Nemesis(world, cluster.machines, _draw_faults(source))
    run = _Run(world, cluster, servers, states, source)
    cluster.start()
    async with trio.open_nursery() as nursery:
        if await _begin(run, nursery):
            nemesis.prepare()
            await _load(run, nemesis)
            nemesis.stop(LOST_MAX)
            await _peace(run, nursery)
        nursery.cancel_scope.cancel()
    _judge(run, witness, nemesis)


def _restore(world: World, cluster: Cluster, servers: DatabaseServers, states: StateWatch) -> None:
    """In some runs, begin with a restored database."""
    position = cluster_load.draw_origin(world, cluster)
    if cluster.origin is not None:
        place, pairs = restored_database.restore(world, servers.witness, cluster.origin.cluster, position)
        servers.places = [place]
        states.began(position, StoreDisk(content=SortedPairs(dict(pairs))))


def draw_plan(source: random.Random, world: World) -> ClusterPlan:
    """A cluster of three nodes, with some of the kinds of loglets."""
    makers: list[ProviderMaker] = [cluster_load.native, PaxosProvider, StripedProvider]
    source.shuffle(makers)
    del makers[source.choice((1, 2, 3)) :]
    if StripedProvider in makers and cluster_load.native not in makers:
        makers.append(cluster_load.native)
    return ClusterPlan(nodes=3, members=3, kinds=cluster_load.left(tuple(makers), world.options))


def _draw_faults(source: random.Random) -> FaultPlan:
    drawn = FaultPlan.draw(source, pace=PACE)
    return attrs.evolve(drawn, active={name: GENTLE * mean for name, mean in drawn.active.items()})


async def _begin(run: _Run, nursery: trio.Nursery) -> bool:
    """Start the clients; whether the first one was served in time."""
    ready, options = trio.Event(), run.world.options
    for number in range(1, run.random.choice((3, 4, 5)) + 1):
        drawn = run.random.randint(40, 80)
        acts = drawn if options.operations is None else min(drawn, options.operations)
        nursery.start_soon(run.client, number, acts, LOAD_SECONDS / drawn, ready)
    with trio.move_on_after(SERVING_SECONDS):
        await ready.wait()
        return True
    message = f"no client was served within {SERVING_SECONDS:g} s of the first start"
    run.world.violations.append(Violation("progress", message))
    return False


async def _load(run: _Run, nemesis: Nemesis) -> None:
    """The first phase."""
    seconds = run.world.options.seconds
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        nursery.start_soon(run.operate)
        await trio.sleep(LOAD_SECONDS if seconds is None else seconds)
        nursery.cancel_scope.cancel()


async def _peace(run: _Run, nursery: trio.Nursery) -> None:
    """The second phase: clients come to an end, and unused sessions and containers end."""
    clients = len(run.parts)
    for part in run.parts:
        part.acts = 0
    with trio.move_on_after(SERVING_SECONDS):
        while len(run.staying) < clients:
            await trio.sleep(0.1)
    if len(run.staying) < clients:
        message = f"only {len(run.staying)} of {clients} clients were answered within {SERVING_SECONDS:g} s of peace"
        run.world.violations.append(Violation("progress", message))
    await trio.sleep(PEACE_SECONDS)
    used = {client.session for client in run.staying}
    run.world.check(partial(lives_on, alive=used.__contains__))
    await demand_no_lag(run.world, run.cluster, run.servers)
    await _replay(run)


async def _replay(run: _Run) -> None:
    """Replay the log without a replica."""
    with trio.move_on_after(SERVING_SECONDS):
        await replay_log(run.cluster, run.states)
        return
    message = f"the log could not be replayed within {SERVING_SECONDS:g} s of peace"
    run.world.violations.append(Violation("progress", message))


async def replay_log(cluster: Cluster, states: StateWatch) -> None:
    """Replay the log without a replica and compare the state at every cursor that a replica has had.

    Spark's compaction rests on this (`virtuallog_database.replica.replay`). The replay begins with
    a store that was seen on the way, so what was trimmed behind it is not needed; it begins with an
    empty store if nothing was trimmed. Returns when the replay has reached the tail.

    Raises:
        VirtualLogError: the log cannot be read to its tail.
    """
    async with cluster.client("replay") as client:
        for _ in range(ATTEMPTS):
            try:
                return await _replay_once(client.log, states)
            except SnapshotNeededError:  # the replicas go on, and have trimmed what was to be read
                continue
        raise UnavailableError(f"the log was trimmed under {ATTEMPTS} replays")


async def _replay_once(log: VirtualLog, states: StateWatch) -> None:
    trim_point = await log.find_trim_point()
    tail = LogPosition((await log.check_tail()).tail)
    disk = StoreDisk(content=states.oldest_copy(trim_point))
    disk.digest = disk.full_digest()
    replay = Replay(disk.open())
    async for piece in scan(log, replay.cursor, tail, piece_bytes=PIECE_BYTES):
        for effects in replay.play(piece):
            assert replay.cursor == effects.position + 1
            states.replayed(replay.cursor, disk.digest)
    states.replayed(replay.cursor, disk.digest)


def _judge(run: _Run, witness: Witness, nemesis: Nemesis) -> None:
    world = run.world
    calm = not nemesis.plan.active
    world.check(*DATABASE_CHECKS, *WATCH_CHECKS, *REPLICA_CHECKS)
    drift = world.clock_errors.drift
    world.check(*session_checks(drift, calm=calm), *strong_read_checks(drift))
    world.counts[ANSWERS] += replay(world.history).compared
    world.counts[TOLD] += events_compared(world.history)
    world.counts[REPEATED] += witness.compared
    world.counts[READS] += sum(told.returned for told in world.history.operations(StrongRead))
    world.counts[FIRED] += len(world.history.operations(Fired))
    _count_reaped(world)


def _count_reaped(world: World) -> None:
    changes = replay(world.history).changes
    for told in committed(world.history):
        if isinstance(told.action.command.operation, Reap):
            for kind, path in changes.get(told.action.zxid, ()):
                if kind is ChangeKind.DELETED:
                    _count(world, TIMED_OUT if TIMED in path else EMPTIED)


DATABASE: Final = Scenario(
    name="zelos",
    about="ZooKeeper's clients on nodes that serve the database, under load and faults, while loglets are swapped below",
    story=tell,
    limit_seconds=300.0,
)
