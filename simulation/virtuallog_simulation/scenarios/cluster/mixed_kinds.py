"""The main story with every kind of loglets on one chain: native, paxos, raft, striped, in a ZooKeeper, and archived.

Operators put one kind in the place of another all the time, beside everything else that they do in `load`, and move closed
segments to archives; in the end the judge demands a swap to each kind that takes appends. Nodes may also lose the store of their
paxos replicas, and nothing else, and must recover.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_simulation.scenarios.cluster import load, single_kind
from virtuallog_simulation.scenarios.raft.replica_group import raft
from virtuallog_simulation.world.cluster import ClusterPlan, ProviderMaker
from virtuallog_simulation.world.external_services import ExternalServices
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

OUTSIDE: Final = 0.2
"""Share of the seeds in which some loglets are copies on an external service as well."""
ALL: Final = 0.5
"""Share of the seeds with all kinds; in the others there are two, which so meet each other more often."""


RAFT: Final = 0.4
"""Share of the seeds with raft loglets as one kind more, drawn apart: the other seeds are as they were without that kind."""


async def _story(world: World) -> None:
    more = (raft,) if world.random("raft beside others").random() < RAFT else ()
    await load.tell(world, draw=partial(_draw_plan, more), share=single_kind.SHARE)


def _draw_plan(more: Sequence[ProviderMaker], source: random.Random, service: ExternalServices) -> ClusterPlan:
    makers: list[ProviderMaker] = [load.native, PaxosProvider, StripedProvider, service.zookeeper_provider]
    source.shuffle(makers)
    if source.random() >= ALL:
        del makers[2:]
    if source.random() < OUTSIDE:
        makers.append(service.provider)
    if StripedProvider in makers and load.native not in makers:
        makers.append(load.native)
    nodes = source.choice((3, 5))
    archives = (service.archive_provider,) if source.random() < 0.5 else ()
    return ClusterPlan(nodes=nodes, members=source.choice((3, nodes)), kinds=(*makers, *more, *archives))


MIXED: Final = Scenario(
    name="mixed",
    about="product nodes under load and faults, swapped between all kinds of loglets all the time; closed segments are archived",
    story=_story,
    limit_seconds=load.CLUSTER.limit_seconds,
    needs="pyarrow",
)
