"""The load of other scenarios on disks so fast that the event loop writes itself (`runtime/sync_worker.py`).

An answer may then come within the turn that has asked for it, from within another callback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from virtuallog_simulation.scenarios.cluster.load import CLUSTER
from virtuallog_simulation.scenarios.loglet.native import NATIVE
from virtuallog_simulation.scenarios.paxos.race import PAXOS
from virtuallog_simulation.scenarios.raft.race import RAFT
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World


async def _on_fast_disks(story: Callable[[World], Awaitable[None]], world: World) -> None:
    world.prompt_writes = world.random("prompt writes").choice((0.5, 0.95, 1.0))
    await story(world)


def _fast(name: str, of: Scenario) -> Scenario:
    return Scenario(
        name=name,
        about=f"the load of {of.name}, on disks that are as fast as memory",
        story=partial(_on_fast_disks, of.story),
        limit_seconds=of.limit_seconds,
    )


FAST_NATIVE: Final = _fast("fast-native", NATIVE)
FAST_PAXOS: Final = _fast("fast-paxos", PAXOS)
FAST_RAFT: Final = _fast("fast-raft", RAFT)
FAST_CLUSTER: Final = _fast("fast-cluster", CLUSTER)
