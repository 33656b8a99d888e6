"""What several operators are told in a row or at once, on a small simulated cluster."""

from __future__ import annotations

from functools import partial

import trio

from simulation.options import Options
from simulation.stories.native import provider
from simulation.stories.wiped import cut
from simulation.world import scheduler
from simulation.world.cluster import Client, Cluster, ClusterPlan
from simulation.world.transport import CALLS
from simulation.world.world import World, open_world
from virtuallog.errors import InvalidSettingError, RetryableError, VirtualLogError
from virtuallog.membership import DrainNode, Progress, ReplaceNode
from virtuallog.types import LogPosition, NodeId

OPTIONS = Options(transport=CALLS)


async def started(world: World, nodes: int, members: int = 3, healing: str = "off") -> Cluster:
    """A cluster that serves."""
    cluster = Cluster(world, ClusterPlan(nodes=nodes, members=members, kinds=(provider,)), healing=healing)
    cluster.start()
    await cluster.wait_serving()
    return cluster


async def ask(client: Client, via: int, request: DrainNode | ReplaceNode) -> Progress | VirtualLogError:
    """The answer: done, waiting for the operator, or refused."""
    while True:
        try:
            progress = await client.log.view.environment.services.call(NodeId(via), request, 5.0)
        except RetryableError:
            await trio.sleep(0.3)
            continue
        except VirtualLogError as error:
            return error
        if progress.done or progress.waits:
            return progress
        await trio.sleep(0.3)


def test_drained_nodes_may_all_be_stopped() -> None:
    """One after the other they hand over what they have, to nodes that stay. These decide, also when they start again: though
    their configs name the former ones."""

    async def story() -> None:
        async with open_world(1, OPTIONS) as world:
            cluster = await started(world, nodes=6)
            async with cluster.client("operator") as client:
                await client.log.append(b"one")
                for node in (1, 2, 3):
                    answer = await ask(client, 6, DrainNode(node=NodeId(node)))
                    assert isinstance(answer, Progress)
                    assert answer.done
                assert (await client.log.view.refresh()).members == (4, 5, 6)
                for machine in cluster.machines.values():
                    machine.crash()
                for node in (4, 5, 6):
                    cluster.machines[NodeId(node)].start()
                with trio.fail_after(20):  # simulated time
                    while True:
                        try:
                            await client.log.reconfig_extend("native")
                        except RetryableError:
                            await trio.sleep(0.3)
                        except InvalidSettingError:  # the nodes are starting
                            await trio.sleep(0.3)
                        else:
                            break
                    await client.log.append(b"two")

    scheduler.run(1, story)


def test_two_drains_at_once_are_both_done() -> None:
    """Asked of different nodes, at the same moment."""

    async def story(seed: int) -> None:
        async with open_world(seed, OPTIONS) as world:
            cluster = await started(world, nodes=7)
            async with cluster.client("operator") as client, trio.open_nursery() as nursery:
                await client.log.append(b"one")
                for node, via in ((1, 6), (2, 7)):
                    nursery.start_soon(ask, client, via, DrainNode(node=NodeId(node)))
            async with cluster.client("other") as client:
                assert {1, 2}.isdisjoint((await client.log.view.refresh()).members)

    for seed in range(3):
        scheduler.run(seed, partial(story, seed))


def test_the_last_whole_copy_is_not_given_up() -> None:
    """Server 3 has a hole; 1 has lost its disk, and is on a new one without its copies; 2 is down, and has all there is."""

    async def story() -> None:
        async with open_world(5, OPTIONS) as world:
            cluster = await started(world, nodes=5, members=5)
            async with cluster.client("writer") as client:
                log = client.log
                await log.reconfig_extend("native", {"servers": "1,2,3", "sequencer": "1"})
                cut(world, NodeId(3), [NodeId(1)])
                lost = [await log.append(b"acknowledged %d" % number) for number in range(3)]
                await trio.sleep(4)
                world.network.heal()
                for _ in range(3):
                    await log.append(b"after")
                    await trio.sleep(0.3)
                await log.reconfig_extend("native", {"servers": "3,4,5", "sequencer": "4"})
                stores = {node: entry.store_id for node, entry in (await log.view.refresh()).nodes.items()}
                one, two = (cluster.machines[NodeId(node)] for node in (1, 2))

                one.crash()
                one.wipe()
                assert isinstance(await ask(client, 4, ReplaceNode(node=one.node, store_id=stores[one.node])), Progress)
                two.crash()
                await trio.sleep(2)
                refused = await ask(client, 4, ReplaceNode(node=two.node, store_id=stores[two.node]))
                assert isinstance(refused, InvalidSettingError)
                assert "1 whole copies would be left, and 2 are needed" in str(refused)
                one.start()
                await trio.sleep(5)
                refused = await ask(client, 4, ReplaceNode(node=two.node, store_id=stores[two.node]))
                assert isinstance(refused, InvalidSettingError)
                two.start()
                await trio.sleep(5)
                assert await log.read(LogPosition(lost[0]), LogPosition(lost[-1] + 1))

    scheduler.run(5, story)
