"""The ordering rule, on the smallest loglet that needs it (`virtuallog.testing.weak_seal`), over a slow network."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog.testing.sim.process import Process
from virtuallog.testing.weak_seal import EntriesServer, SealServer, WeakSealLoglet
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet import race as loglet_story
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_ENTRIES, _SEAL = NodeId(1), NodeId(2)
_NETWORK = LinkQuality(tail_probability=0.2, tail_seconds=0.02, loss=0.01, duplicate=0.01, reorder=0.05)


async def _story(world: World) -> None:
    world.network.set_quality(_NETWORK)
    world.network.listen(Process(_ENTRIES), EntriesServer().handlers)
    world.network.listen(Process(_SEAL), SealServer().handlers)

    def open_loglet(environment: Environment) -> WeakSealLoglet:
        return WeakSealLoglet(environment, _ENTRIES, _SEAL)

    await loglet_story.run(world, loglet_story.RaceClients(), open_loglet)
    world.check(*LOGLET_CHECKS)


WEAK_SEAL: Final = Scenario(
    name="weak-seal",
    about="clients race over a loglet whose seal bit and entries live apart",
    story=_story,
    limit_seconds=60.0,
)
