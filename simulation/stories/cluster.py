"""The main scenario: a cluster of the product's own nodes under load and faults, then peace, then a verdict.

Two phases. Safety: a random workload while the nemesis works; whatever is acknowledged, read or decided goes into the
history. Liveness: faults stop, a majority lives, and a client that knows nothing must append and read everything
within a bound of simulated time. The checks then run over the whole history.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from loglets.native import NativeProvider
from loglets.native.config import NativeConfig, decode_untrusted
from loglets.native.log_server import LogServer
from loglets.wal import WalSettings
from simulation.checks.chain import CHAIN_CHECKS, newest_chain
from simulation.checks.log import LOG_CHECKS
from simulation.checks.loglet import LOGLET_CHECKS
from simulation.checks.native import servers_agree
from simulation.checks.violation import Violation
from simulation.faults.nemesis import FaultPlan, Nemesis
from simulation.stories.scenario import Scenario
from simulation.workload.workload import Workload, WorkloadPlan
from simulation.world.cluster import Client, Cluster, ClusterPlan
from simulation.world.world import World
from virtuallog.appender import AppenderSettings
from virtuallog.chain import SegmentId
from virtuallog.errors import VirtualLogError
from virtuallog.types import NodeId
from virtuallog.virtual_log import VirtualLogSettings

START_SECONDS: Final = 30.0
"""Within this time a fresh cluster without faults must be ready."""
CALM_SECONDS: Final = 60.0
"""Within this time after the last fault a client must get an append acknowledged and have read everything: several
times the longest timeout, grace period and watchdog period one after the other."""
OPERATOR_SECONDS: Final = 20.0
"""Nothing replaces a sequencer that died for good while nothing was in flight: that is an operator's part today
(`virtuallog reconfigure`), so the judge plays it when no append has succeeded for so long."""
WORKLOAD_SECONDS: Final = 20.0
"""Clients that are still busy then, because of what the nemesis does, are stopped."""
_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=5.0))

_WAL: Final = WalSettings(
    segment_bytes=256 << 10, record_bytes_max=96 << 10, group_bytes_max=100 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=48 << 10,
)  # fmt: skip
"""Small segments, so that a short run fills some, rolls over and drops them."""


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, _plan(source), _SETTINGS)
    nemesis = Nemesis(world, cluster.machines, FaultPlan.draw(source))
    workload = Workload(cluster, WorkloadPlan.draw(source), partial(_settings, nodes=cluster.plan.nodes))
    cluster.start()
    if not await _is_ready(cluster):
        return
    nemesis.prepare()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        with trio.move_on_after(WORKLOAD_SECONDS):
            await workload.run()
        nursery.cancel_scope.cancel()
    nemesis.stop()
    await _demand_progress(workload)
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)
    world.violations.extend(servers_agree(_log_servers(cluster), _native_configs(world)))


def _log_servers(cluster: Cluster) -> dict[NodeId, LogServer]:
    """The LogServer of each node that has opened one in its last life."""
    providers = {node: served["native"] for node, served in cluster.served.items()}
    services = {
        node: provider.log_server for node, provider in providers.items() if isinstance(provider, NativeProvider)
    }
    return {node: service.core for node, service in services.items() if service is not None}


def _native_configs(world: World) -> dict[SegmentId, NativeConfig]:
    """Of the native segments in the newest chain that anybody knows."""
    newest = newest_chain(world.history)
    segments = newest.segments if newest is not None else ()
    return {segment.id: decode_untrusted(segment.config) for segment in segments if segment.kind == "native"}


def _plan(source: random.Random) -> ClusterPlan:
    nodes = source.choice((3, 5))
    return ClusterPlan(nodes=nodes, members=source.choice((3, nodes)), kinds=(_native,))


def _native() -> NativeProvider:
    return NativeProvider(wal_settings=_WAL)


def _settings(kind: str, source: random.Random, nodes: int) -> Mapping[str, str]:
    """What an operator may ask for: nothing, other servers, another sequencer."""
    numbers = [str(number) for number in range(1, nodes + 1)]
    settings = {}
    if source.random() < 0.4:
        settings["servers"] = ",".join(source.sample(numbers, source.choice((3, nodes))))
    if source.random() < 0.4:
        settings["sequencer"] = source.choice(numbers)
    return settings


async def _is_ready(cluster: Cluster) -> bool:
    with trio.move_on_after(START_SECONDS):
        await cluster.wait_ready()
        return True
    cluster.world.violations.append(Violation("progress", f"no register within {START_SECONDS:g} s of the first start"))
    return False


async def _demand_progress(workload: Workload) -> None:
    """An append and a full read by a client that knows nothing, and once more by another one."""
    history = workload.cluster.world.history
    for _ in range(2):
        with trio.move_on_after(CALM_SECONDS) as limit:
            async with workload.cluster.client("judge") as judge:
                began = workload.cluster.world.now()
                while not await _append_and_read(workload, judge):
                    await trio.sleep(0.5)
                    if workload.cluster.world.now() - began > OPERATOR_SECONDS:
                        workload.cluster.world.fault("judge replaced a dead loglet")
                        await _extend(judge)
        if limit.cancelled_caught:
            message = f"no append and full read within {CALM_SECONDS:g} s after the faults stopped"
            workload.cluster.world.violations.append(Violation("progress", message, (len(history.events) - 1,)))
            return


async def _extend(judge: Client) -> None:
    with suppress(VirtualLogError):
        await judge.log.reconfig_extend(min(judge.log.view.providers))


async def _append_and_read(workload: Workload, judge: Client) -> bool:
    try:
        if (await judge.log.view.refresh()).chain.active is None:
            await _extend(judge)
        await workload.append(judge)
        tail = await workload.check_tail(judge)
        at = 0
        while at < tail:
            at = await workload.read(judge, at, tail)
    except VirtualLogError:
        return False
    return True


CLUSTER: Final = Scenario(
    name="cluster",
    about="product nodes under load and faults, reconfigured all the time",
    story=_story,
    limit_seconds=600.0,
)
