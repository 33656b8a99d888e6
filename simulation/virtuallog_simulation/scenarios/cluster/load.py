"""The main scenario: a cluster of the product's own nodes under load and faults, then peace, then a verdict.

Two phases. Safety: a random workload while the nemesis works; all that is acknowledged, read or
decided goes into the history. Liveness: faults stop, a majority lives, and a client that knows
nothing must append and read everything within a bound of simulated time. The checks then run over
the whole history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.plugins import loglet_maker
from virtuallog.testing.checker.actions import LogTrim
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.weak_seal_provider import KIND as WEAK_SEAL
from virtuallog_loglets.archive.restored_origin import Origin
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import TransferLimits
from virtuallog_loglets.raft.drivers.replica_service import RaftService
from virtuallog_loglets.raft.provider import RaftProvider
from virtuallog_loglets.wal import WalSettings
from virtuallog_simulation.checks.cluster.acceptor_watch import AcceptorWatch
from virtuallog_simulation.checks.cluster.archives import ArchiveWatch, hot_copies_are_kept
from virtuallog_simulation.checks.cluster.node_state import check_nodes
from virtuallog_simulation.checks.cluster.paxos_store_watch import PaxosWatch
from virtuallog_simulation.checks.cluster.raft_watch import RaftWatch
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.history.readers import followers_reach_the_tail
from virtuallog_simulation.faults.nemesis import LOST_MAX, FaultPlan, Nemesis
from virtuallog_simulation.faults.processes import LOST_DATABASE, LOST_STORE
from virtuallog_simulation.scenarios.cluster.liveness import HurtNodes, demand_progress
from virtuallog_simulation.scenarios.raft.replica_group import raft
from virtuallog_simulation.workload import driver
from virtuallog_simulation.workload.actor import WorkloadContext
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.workload.required_shapes import KINDS
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan, ProviderMaker
from virtuallog_simulation.world.external_services import ARCHIVE, ExternalServices
from virtuallog_simulation.world.options import Options
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

LATER_ORIGIN_SHARE: Final = 0.2
LATER_ORIGINS: Final = "logs that begin later"
"""Counted."""
_RESTORE: Final = "restore"
START_SECONDS: Final = 30.0
"""Within this time a fresh cluster without faults must be ready."""
WORKLOAD_SECONDS: Final = 15.0
"""Clients that are still busy then, because of what the nemesis does, are stopped."""
CATCH_UP_SECONDS: Final = 2.5
"""Readers that follow the log see the judge's last entry within this time: their longest pause, by the slowest of clocks."""
NATIVE_ONLY: Final = 0.5
"""Share of the seeds in which all loglets are native; in the others some are on an external
service."""
PAXOS: Final = "paxos"
RAFT: Final = "raft"
SIMULATED: Final = frozenset({"archive", "native", "paxos", "striped", "weak-seal", "zookeeper"})
"""Kinds that scenarios set up by themselves, on simulated services where they need some. Others run as they are installed."""
SETTINGS: Final = VirtualLogSettings(
    appender=AppenderSettings(give_up=5.0, batch_bytes=4 << 10, entry_bytes_max=2 << 10)
)
_PIECES: Final = TransferLimits(wave_bytes=4 << 10, repair_bytes=6 << 10)
_WAL: Final = WalSettings(
    segment_bytes=16 << 10, record_bytes_max=6 << 10, group_bytes_max=7 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=4 << 10,
)  # fmt: skip
"""Small segments, so that a short run fills some, rolls over and drops them. They must hold a wave, which is at most as
large as the largest batch (5 entries of 1,000 bytes), and a repair; a quarter of one is for the snapshot: 61 bytes for
each loglet that a server knows, some 60 of them. A run makes up to 30."""


def native() -> NativeProvider:
    """Provider with a small WAL, and waves and repairs that fit into it."""
    return NativeProvider(_WAL, _PIECES)


def draw_plan(source: random.Random, service: ExternalServices) -> ClusterPlan:
    """Draw nodes, members and kinds of a cluster of native loglets; in half of the runs others live
    on an external service."""
    nodes = source.choice((3, 5))
    kinds: tuple[ProviderMaker, ...] = (native,)
    if source.random() >= NATIVE_ONLY:
        kinds = (native, service.provider) if source.random() < 0.7 else (service.provider, native)
    return ClusterPlan(nodes=nodes, members=source.choice((3, nodes)), kinds=kinds)


async def tell(
    world: World,
    kinds: Sequence[ProviderMaker] = (),
    dead_max: int = LOST_MAX,
    draw: Callable[[random.Random, ExternalServices], ClusterPlan] = draw_plan,
    share: float = 1.0,
) -> None:
    """Tell the story.

    Args:
        world: a fresh one.
        kinds: of loglets, the first one first; none: as the seed and the options say.
        dead_max: most nodes that are lost in the end, with those that have lost their data.
        draw: what the cluster is made of, before the options narrow it.
        share: of the usual load, for runs in which each act costs more.
    """
    source = world.random("plan")
    service = ExternalServices(world)
    drawn = draw(source, service)
    kept = tuple(kinds) or left(drawn.kinds, world.options)
    cluster = Cluster(world, attrs.evolve(drawn, kinds=kept), SETTINGS)
    if not cluster.kinds:  # none of them can travel over streams
        cluster = Cluster(world, attrs.evolve(drawn, kinds=(native,)), SETTINGS)
    on_nodes = cluster.replicated_kinds
    without = (LOST_DATABASE,) if PAXOS in on_nodes else (LOST_STORE, LOST_DATABASE)
    nemesis = Nemesis(world, cluster.machines, FaultPlan.draw(source, without=without))
    plan = WorkloadPlan.draw(world.random("workload")).lighter(share).narrowed(world.options)
    service.start(cluster.nodes)
    replicas, rafts = PaxosWatch(world), RaftWatch(world, cluster.machines, partial(_raft_services, cluster))
    if PAXOS in on_nodes:
        replicas.start()
    if RAFT in on_nodes:
        rafts.start()
    draw_origin(world, cluster)
    cluster.start()
    if not await _is_ready(cluster):
        return
    nemesis.prepare()
    watch = AcceptorWatch(world, cluster.machines)
    watch.start()
    archives = ArchiveWatch(service.files, world.counts, world.violations)
    archives.start()
    async with trio.open_nursery() as nursery:
        stage = _stage(cluster, plan, nursery, service)
        await _load(stage, nemesis, service)
        await check_nodes(cluster, watch)  # now, as the judge trims everything away
        archives.look(world.history)
        dead = nemesis.stop(dead_max)
        await demand_progress(stage, HurtNodes.after(stage, nemesis, dead))
        await trio.sleep(CATCH_UP_SECONDS)
        world.check(followers_reach_the_tail)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, hot_copies_are_kept)
    archives.look(world.history)
    replicas.judge()
    rafts.look()
    await check_nodes(cluster, watch)


def _raft_services(cluster: Cluster) -> Mapping[NodeId, RaftService | None]:
    providers = {node: served.get(RAFT) for node, served in cluster.served.items()}
    return {node: each.replicas for node, each in providers.items() if isinstance(each, RaftProvider)}


def _stage(cluster: Cluster, plan: WorkloadPlan, nursery: trio.Nursery, service: ExternalServices) -> WorkloadContext:
    """Context of the clients, as far as these kinds of loglets support it."""
    kinds = cluster.kind_names
    swaps = [kind for kind in kinds if kind in KINDS]
    return WorkloadContext(
        cluster,
        plan,
        nursery,
        copies=service.provider() if WEAK_SEAL in kinds else None,
        swaps=swaps if len(swaps) > 1 else (),
        archives=service.archive_provider if ARCHIVE in kinds else None,
    )


async def _load(stage: WorkloadContext, nemesis: Nemesis, service: ExternalServices) -> None:
    """The first phase."""
    seconds = stage.cluster.world.options.seconds
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        nursery.start_soon(service.run, stage.cluster.kind_names)
        with trio.move_on_after(WORKLOAD_SECONDS if seconds is None else seconds):
            await driver.run(stage)
        nursery.cancel_scope.cancel()
    service.stop()


def left(kinds: tuple[ProviderMaker, ...], options: Options) -> tuple[ProviderMaker, ...]:
    """Kinds that a narrowed run keeps, in the order of the option; native if none is left."""
    if options.loglets is None:
        return kinds
    makers = {make().kind: make for make in kinds}
    installed = [kind for kind in options.loglets if kind not in {*SIMULATED, *makers}]
    makers |= {kind: raft if kind == RAFT else loglet_maker(kind) for kind in installed}
    return tuple(makers[kind] for kind in options.loglets if kind in makers) or (native,)


async def _is_ready(cluster: Cluster) -> bool:
    with trio.move_on_after(START_SECONDS):
        await cluster.wait_ready()
        return True
    cluster.world.violations.append(Violation("progress", f"no register within {START_SECONDS:g} s of the first start"))
    return False


def draw_origin(world: World, cluster: Cluster, share: float = LATER_ORIGIN_SHARE) -> LogPosition:
    """Draw where the log of a cluster begins, mostly at 0. Call it before the cluster starts.

    In a share of the seeds the log begins later, as that of a restored cluster does. What lies below
    counts as trimmed (docs/decisions/0010-a-log-that-begins-later.md). So the history begins with
    that trim, and the tail is known to have been there.
    """
    source = world.random("origin")
    if source.random() >= share:
        return LogPosition(0)
    few, some, many = 1 + source.randrange(100), source.randrange(1 << 16, 1 << 20), source.randrange(1 << 40, 1 << 41)
    position = LogPosition(source.choice((1, few, some, many)))
    cluster.origin = Origin(cluster=ClusterId(source.randbytes(16)), position=position)
    world.counts[LATER_ORIGINS] += 1
    world.history.observed(_RESTORE, LogTrim(position), position)
    return position


CLUSTER: Final = Scenario(
    name="cluster",
    about="product nodes under load and faults, reconfigured all the time",
    story=tell,
    limit_seconds=600.0,
)
