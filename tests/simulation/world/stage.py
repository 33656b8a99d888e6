"""A small cluster without faults, and one client on it: for stories about single acts of the workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cache

import trio

from virtuallog.testing.checker.actions import ExtendChange
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.wal import WalSettings
from virtuallog_simulation.workload.actor import Act, Actor, WorkloadContext
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.workload.required_shapes import PREFIX
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan, ProviderMaker
from virtuallog_simulation.world.external_services import ExternalServices
from virtuallog_simulation.world.world import World, open_world

WAL = WalSettings(
    segment_bytes=128 << 10, record_bytes_max=32 << 10, group_bytes_max=48 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=32 << 10,
)  # fmt: skip
"""Small: simulated disks fill a segment with zeros, too."""
Story = Callable[[Actor], Awaitable[None]]
ClusterStory = Callable[[Cluster, Client], Awaitable[None]]

PLAN = WorkloadPlan(
    clients=dict.fromkeys(("appender", "reader", "tailer", "parker", "trimmer", "operator"), 1),
    acts=dict.fromkeys(("appender", "reader", "tailer", "parker", "trimmer", "operator"), 3),
    pauses=dict.fromkeys(("appender", "reader", "tailer", "parker", "trimmer", "operator"), 0.1),
    patience_seconds=6.0,
    cancel=0.0,
    lifetime_seconds=None,
    close=True,
)


def native() -> NativeProvider:
    return NativeProvider(WAL)


def in_cluster(
    nodes: int, story: ClusterStory, *, kinds: tuple[ProviderMaker, ...] = (native,), healing: str = "replace-failed"
) -> None:
    """Tell a story of a cluster and a client of it, of which all is well at first."""

    async def told() -> None:
        async with open_world(1) as world:
            await _tell_of_cluster(world)

    async def _tell_of_cluster(world: World) -> None:
        cluster = Cluster(world, ClusterPlan(nodes=nodes, members=3, kinds=kinds), healing=healing)
        cluster.start()
        await cluster.wait_ready()
        async with cluster.client("client") as client:
            await trio.sleep(2.0)
            await story(cluster, client)

    scheduler.run(1, told)


def on_stage(story: Story, *, seed: int = 1, plan: WorkloadPlan = PLAN, foreign: bool = True) -> World:
    """Tell a story of one client, with randomness of this seed; the world as it was at the end."""
    worlds: list[World] = []

    async def told() -> None:
        async with open_world(seed) as world:
            worlds.append(world)
            await _tell(world, story, plan, foreign=foreign)

    scheduler.run(seed, told)
    return worlds[0]


async def _tell(world: World, story: Story, plan: WorkloadPlan, *, foreign: bool) -> None:
    service = ExternalServices(world)
    kinds = (native, service.provider) if foreign else (native,)
    cluster = Cluster(world, ClusterPlan(nodes=5, members=3, kinds=kinds))
    service.start(cluster.nodes)
    cluster.start()
    await cluster.wait_ready()
    async with trio.open_nursery() as nursery, cluster.client("client") as client:
        stage = WorkloadContext(cluster, plan, nursery, service.provider() if foreign else None)
        await story(Actor(stage, client, world.random("story"), "s"))
        nursery.cancel_scope.cancel()


@cache
def shapes_of(act: Act, seed: int) -> Counter[str]:
    """Shapes of an act on a log of three segments with some entries each."""

    async def story(actor: Actor) -> None:
        for _ in range(3):
            await actor.append(3)
            await actor.change(ExtendChange("native"), actor.client.log.reconfig_extend("native"))
        await actor.append(5)
        await act(actor)

    counts = on_stage(story, seed=seed).counts
    return Counter({name.removeprefix(PREFIX): counts[name] for name in counts if name.startswith(PREFIX)})
