"""The main story with other kinds of loglets than those that live on nodes as they are: each beside native ones, under load.

    striped     stripes of native loglets, over the same servers or over disjoint ones, whose sequencers die one by one
    zookeeper   batches in an external ZooKeeper, which is gone at times, breaks connections and lags
    archive     closed segments go to files elsewhere, and the hot copies go when their time is over

Clients' acts, the judge's demands and the checks are those of `load`; operators swap kinds all the
time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_simulation.scenarios.cluster import load
from virtuallog_simulation.world.cluster import ClusterPlan, ProviderMaker
from virtuallog_simulation.world.external_services import ExternalServices
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

SHARE: Final = 0.3
"""Share of the usual load: an append to stripes is one to a native loglet and a filler or two, and
most acts are swaps."""
Draw: TypeAlias = Callable[[random.Random, ExternalServices], ClusterPlan]


def _draw_striped(source: random.Random, service: ExternalServices) -> ClusterPlan:
    return _plan(source, (3, 6, 6), [StripedProvider, load.native])


def _draw_zookeeper(source: random.Random, service: ExternalServices) -> ClusterPlan:
    return _plan(source, (3, 5), [service.zookeeper_provider, load.native])


def _draw_archive(source: random.Random, service: ExternalServices) -> ClusterPlan:
    """Archives last, as the first loglet takes appends. What is archived is of one kind, or of one of two."""
    hot: list[ProviderMaker] = [load.native]
    other = source.choice((None, None, PaxosProvider, StripedProvider, service.zookeeper_provider))
    if other is not None:
        hot.append(other)
    plan = _plan(source, (3, 5), hot)
    return ClusterPlan(nodes=plan.nodes, members=plan.members, kinds=(*plan.kinds, service.archive_provider))


def _plan(source: random.Random, nodes: tuple[int, ...], kinds: list[ProviderMaker]) -> ClusterPlan:
    source.shuffle(kinds)
    count = source.choice(nodes)
    return ClusterPlan(nodes=count, members=source.choice((3, min(count, 5))), kinds=tuple(kinds))


async def _story(world: World, draw: Draw) -> None:
    await load.tell(world, draw=draw, share=SHARE)


def _scenario(name: str, about: str, draw: Draw, needs: str = "") -> Scenario:
    limit = load.CLUSTER.limit_seconds
    return Scenario(name=name, about=about, story=partial(_story, draw=draw), limit_seconds=limit, needs=needs)


STRIPED: Final = _scenario(
    "striped", "product nodes under load and faults, swapped between striped and native loglets", _draw_striped
)
ZOOKEEPER: Final = _scenario(
    "zookeeper", "the same between a ZooKeeper, which has faults of its own, and native loglets", _draw_zookeeper
)
ARCHIVE: Final = _scenario(
    "archive",
    "the same, while closed segments go to archives, and hot copies go when their time is over",
    _draw_archive,
    needs="pyarrow",
)
