"""Looks inside a cluster, when its faults stop and when its run is over: at what no client can see, and on the disks.

Nothing in the world changes: disks are copied before they are read, as they would be after a loss of power.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Final

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.provider import RetainedLoglets
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.disk import Disk
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import NativeConfig, decode_untrusted
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.drivers.log_server_service import STORAGE
from virtuallog_loglets.wal.core.segment_format import sequence_in
from virtuallog_loglets.wal.recovery import recover_log
from virtuallog_server.storage.identity import FormatPhase
from virtuallog_server.storage.stores import RECOVERING as RECOVERING_STORES
from virtuallog_simulation.checks.cluster.acceptor_watch import AcceptorWatch
from virtuallog_simulation.checks.history.facts import newest_chain
from virtuallog_simulation.checks.state.log_servers import HeldLoglet, restart_forgets_nothing, servers_agree
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.stop_reasons import ROT

RECOVERING: Final = frozenset(role for _, role in RECOVERING_STORES)
"""Roles that others tell what a lost store has known."""
OPENING_SECONDS: Final = 10.0
"""A life has opened its roles, or refused them, within this time in peace."""
ROLES_COMPARED: Final = "roles of former lives compared"


async def check_nodes(cluster: Cluster, watch: AcceptorWatch | None = None) -> None:
    """Check all that can be checked of the nodes of a cluster.

    Args:
        cluster: what is wrong with it goes into `World.violations`.
        watch: what has been seen of its acceptors before.
    """
    world = cluster.world
    servers = log_servers(cluster)
    configs = native_configs(world.history, cluster.retained_loglets)
    world.violations.extend(servers_agree(servers, configs, world.counts))
    world.violations.extend(wiped_node_does_not_vote(cluster.machines, servers))
    world.violations.extend(lost_role_does_not_vote(cluster))
    (watch or AcceptorWatch(world, cluster.machines)).look()
    for node in cluster.nodes:
        cluster.note_refusals(node)
    world.violations.extend(roles_come_back(cluster))
    for node in sorted(servers):
        async for violation in held_is_recovered(cluster.machines[node], servers[node]):
            world.violations.append(violation)


def roles_come_back(cluster: Cluster) -> Iterator[Violation]:
    """Roles that a data directory has served are served again by a later life, unless the role is
    refused with a reason."""
    for node, product in sorted(cluster.products.items()):
        if not cluster.machines[node].running or product.identity.phase is not FormatPhase.FORMATTED:
            continue
        had = cluster.had_roles.get((node, product.identity.store_id), frozenset())
        missing = had - product.open_roles - product.refusals.keys()
        if missing and cluster.world.now() - cluster.began[node] >= OPENING_SECONDS:
            message = f"node {node} has served {sorted(missing)} before, and neither does nor says why"
            yield Violation("restarts serve what was served", message)
        cluster.world.counts[ROLES_COMPARED] += len(had)
        cluster.note_roles(node)


def log_servers(cluster: Cluster) -> dict[NodeId, LogServer]:
    """The LogServer of each node that has opened one in its last life."""
    providers = {node: served.get("native") for node, served in cluster.served.items()}
    services = {
        node: provider.log_server for node, provider in providers.items() if isinstance(provider, NativeProvider)
    }
    return {node: service.core for node, service in services.items() if service is not None}


def native_configs(
    history: History, retained_loglets: Callable[[Segment], RetainedLoglets | None]
) -> dict[SegmentId, NativeConfig]:
    """Configs of the native loglets in the newest known chain, by the ids that their servers use:
    segments, stripes of them, and hot copies of archives."""
    newest = newest_chain(history)
    kept = [retained_loglets(segment) or {} for segment in (newest.segments if newest is not None else ())]
    return {
        loglet: decode_untrusted(config) for each in kept for loglet, (kind, config) in each.items() if kind == "native"
    }


def wiped_node_does_not_vote(machines: Mapping[NodeId, Machine], serving: Collection[NodeId]) -> Iterator[Violation]:
    """A node with new disks is a new node: it has forgotten what it had promised, so it must not
    answer."""
    for node in sorted(serving):
        if machines[node].wiped and machines[node].running:
            yield Violation("wiped stays out", f"node {node} serves again, with disks that know nothing")


def lost_role_does_not_vote(cluster: Cluster) -> Iterator[Violation]:
    """A role whose store is gone has forgotten what it had promised, unless it can ask others for
    it: it must not answer."""
    for node, product in sorted(cluster.products.items()):
        machine = cluster.machines[node]
        for store in sorted(machine.gone - RECOVERING):
            if machine.running and product.is_open(store):
                yield Violation(
                    "lost store stays out", f"node {node} serves its role {store} again, from a store that is new"
                )


def power_loss_is_no_damage(machines: Mapping[NodeId, Machine]) -> Iterator[Violation]:
    """A node that lost its power, and nothing else, serves again: the rest of a torn write is cut
    off, and no role is refused for it.

    Valid for a world whose disks neither fail nor rot.
    """
    for node, machine in machines.items():
        if machine.failure:
            yield Violation("restart forgets nothing", f"node {node} does not serve any more: {machine.failure}")


async def held_is_recovered(machine: Machine, server: LogServer) -> AsyncIterator[Violation]:
    """The durable state of a server equals what its WAL, as it was synced, contains."""
    disk = machine.disk(STORAGE)
    if disk is None or not disk.files:
        return  # it has been wiped
    # Taken at one moment: reading takes turns of the scheduler, in which a server may go on.
    held, tombstones = HeldLoglet.by(server.durable), server.durable.tombstones
    copy, recovered = Disk(random.Random(0)), DurableLogs()
    for name in disk.files:
        copy.overwrite(name, 0, disk.peek(name))
    try:
        first = next((name for name in sorted(disk.files) if sequence_in(name) is not None), None)
        size = len(disk.peek(first)) if first is not None else 0
        await recover_log(copy.mount(), size, recovered.replay)
    except CorruptionError as error:
        if not machine.counts[ROT[0]]:
            yield Violation("restart forgets nothing", f"node {machine.node}: {error}")
        return
    for violation in restart_forgets_nothing(machine.node, held, recovered, machine.world.counts, tombstones):
        yield violation
