"""A node loses one store, alone, just when its vote would count: its identity and all other stores are there.

    native      what two of three log servers have acknowledged, one of them has no more; it and a server that lagged look like a majority
    metastore   a version that two of three acceptors have decided, one of them knows no more; it and one that missed it could decide another

The role of the store must be refused, with the reason, at each start. The rest of the node goes on.
Drawn: how the node is stopped, how long it is down, and the order in which nodes come back. In a
share of the runs it dies while its first stores are founded, which is no loss.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.native.drivers.log_server_service import STORAGE
from virtuallog_metastore.drivers.acceptor_driver import STORE
from virtuallog_simulation.checks.cluster.acceptor_watch import AcceptorWatch
from virtuallog_simulation.checks.cluster.node_state import lost_role_does_not_vote
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.history.register import REGISTER_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import act, cut
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

READY_SECONDS: Final = 30.0
_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=3.0))
_FIRST, _SECOND, _THIRD = (NodeId(number) for number in range(2001, 2004))


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(provider,)), _SETTINGS, healing="off")
    cluster.start()
    if source.random() < 0.4:
        await _die_at_birth(cluster, source)
    with trio.move_on_after(READY_SECONDS) as limit:
        await cluster.wait_serving()
    if limit.cancelled_caught:
        _fail(world, f"nodes that died before they were founded do not serve within {READY_SECONDS:g} s")
        return
    watch = AcceptorWatch(world, cluster.machines)
    store = source.choice((STORAGE, STORE))
    kept, hollow, apart = source.sample(cluster.nodes, 3)
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        cut(world, apart, [kept, hollow, _FIRST])
        await act(stage, _FIRST, source.randint(1, 3))
        if store == STORE:
            await _extend(stage, _FIRST, kept)
        watch.look()
        await _lose(cluster.machines[hollow], store, source)
        cluster.machines[kept].crash(power=False)
        world.network.heal()
        await act(stage, _SECOND, 1)
        if store == STORE:
            await _extend(stage, _SECOND, apart)
        _look(cluster, watch)
        if source.random() < 0.5:
            cluster.machines[hollow].crash(power=False)  # no start of it makes a new one
            cluster.machines[hollow].start()
        cluster.machines[kept].start()
        await act(stage, _THIRD, 1)
        _look(cluster, watch)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, *REGISTER_CHECKS)


async def _die_at_birth(cluster: Cluster, source: random.Random) -> None:
    """Some nodes, while their stores are founded or before."""
    for machine in cluster.machines.values():
        machine.faults.write_seconds = machine.faults.change_seconds = (0.0, 0.2)
    for node in source.sample(cluster.nodes, source.randint(1, 3)):
        machine = cluster.machines[node]
        await trio.sleep(source.random() * 0.8)
        machine.crash(power=source.random() < 0.5)
        await trio.sleep(source.random() * 0.3)
        machine.start()
    for machine in cluster.machines.values():
        machine.faults.write_seconds = machine.faults.change_seconds = (0.0, 0.0)


async def _extend(stage: WorkloadContext, client: NodeId, server: NodeId) -> None:
    """Continue the log on one node, as far as that is decided within a while."""
    settings = {"servers": str(server), "sequencer": str(server)}
    with trio.move_on_after(6.0):
        async with stage.cluster.client("operator", node=NodeId(client + 100)) as operator:
            actor = Actor(stage, operator, operator.random, f"{client} extends")
            change = partial(operator.log.reconfig_extend, "native", settings)
            while not await attempt(actor.change(ExtendChange("native", f"server={server}"), change())):
                await trio.sleep(0.2)


async def _lose(machine: Machine, store: str, source: random.Random) -> None:
    machine.crash(power=source.random() < 0.5)
    assert machine.lose(store)
    machine.world.fault("lost store", f"{store} of {machine.node}")
    await trio.sleep(source.random())
    machine.start()


def _look(cluster: Cluster, watch: AcceptorWatch) -> None:
    cluster.world.violations.extend(lost_role_does_not_vote(cluster))
    watch.look()


def _fail(world: World, message: str) -> None:
    world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))


HOLLOW: Final = Scenario(
    name="hollow",
    about="a node loses its native or its MetaStore's store alone when its vote would make a majority",
    story=_story,
    limit_seconds=300.0,
)
