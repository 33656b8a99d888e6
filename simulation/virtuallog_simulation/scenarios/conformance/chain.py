"""The scenarios `chain/alone` and `chain/mixed`: a whole cluster whose chain is made of loglets of the given kind.

These run the main scenario of the simulator, with its workload, its faults (those that are named in
the options, drawn anew for each seed), its judge and its checks. `mixed` alternates with native
loglets. A fault of the loglet appears here as a user of the log would see it: an acknowledged entry
that is gone, a reader that stands still. Nodes that serve loglets which consist of native ones
serve native ones as well, so for such a kind there is not much difference.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs

from virtuallog.contract.provider import SupportsRetention
from virtuallog_simulation.faults.nemesis import LOST_MAX
from virtuallog_simulation.scenarios.cluster import load
from virtuallog_simulation.scenarios.conformance import options as kit
from virtuallog_simulation.scenarios.conformance.options import DEAD
from virtuallog_simulation.scenarios.conformance.providers import below, find, find_in
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

CHAINS: Final = {
    "alone": "a chain of loglets of this kind only, reconfigured all the time",
    "mixed": "the same, and every other loglet is native",
}


async def _story(world: World, *, mixed: bool) -> None:
    options = kit.of(world.options)
    name = (options.loglets or ("native",))[0]
    make, others = find_in(world, name), (find("native"),) if mixed and name != "native" else below(name)
    if not (make().interfaces or isinstance(make(), SupportsRetention)):  # nothing that could travel as bytes
        world.options = attrs.evolve(world.options, transport="calls")
    await load.tell(world, (make, *others), dead_max=LOST_MAX if options.allows_fault(DEAD) else 0)


SCENARIOS: Final = tuple(
    Scenario(
        name=f"chain/{name}",
        about=about,
        story=partial(_story, mixed=name == "mixed"),
        limit_seconds=load.CLUSTER.limit_seconds,
    )
    for name, about in CHAINS.items()
)
