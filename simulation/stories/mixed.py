"""The main story with two kinds of loglets on the same nodes: native and paxos, one put in the place of the other under load.

Operators swap kinds all the time, in both directions, beside everything else that they do in `cluster`; in the end the judge
demands a swap to each. Nodes may also lose the store of their paxos replicas, and nothing else, and must recover.
"""

from __future__ import annotations

import random
from typing import Final

import attrs

from loglets.paxos.provider import PaxosProvider
from simulation.stories import cluster
from simulation.stories.outside import Outside
from simulation.stories.scenario import Scenario
from simulation.world.cluster import ClusterPlan, ProviderMaker
from simulation.world.world import World

OUTSIDE: Final = 0.2
"""Share of the seeds in which some loglets are on somebody else's service as well."""


async def _story(world: World) -> None:
    await cluster.tell(world, draw=_draw_plan)


def _draw_plan(source: random.Random, service: Outside) -> ClusterPlan:
    plan = cluster.draw_plan(source, service)
    kinds: list[ProviderMaker] = [cluster.native, PaxosProvider]
    if source.random() < 0.5:
        kinds.reverse()
    if source.random() < OUTSIDE:
        kinds.append(service.provider)
    return attrs.evolve(plan, kinds=tuple(kinds))


MIXED: Final = Scenario(
    name="mixed",
    about="product nodes under load and faults, swapped between native and paxos loglets all the time",
    story=_story,
    limit_seconds=cluster.CLUSTER.limit_seconds,
)
