"""A NativeLoglet that is trimmed while it grows: at, below and past its tail, by clients that reach different majorities.

A trim drops only committed entries, returns no point past the tail, and never a lower one than
before (specs: Delos, section 11, case 40).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.state.log_servers import servers_agree
from virtuallog_simulation.scenarios.loglet.directed import DirectedLoglet
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_CAST: Final = RaceClients(appenders=2, batches=10, sealers=0, observers=1, pause_seconds=0.01)
_TRIMS: Final = 6
_PAST: Final = 40
"""Beyond any tail that such a run gets to."""


async def _story(world: World) -> None:
    source = world.random("plan")
    staged = DirectedLoglet.begin(world, servers=3, sequencer=4)
    world.network.set_quality(LinkQuality(tail_probability=0.2, tail_seconds=0.02, duplicate=0.1))
    race = LogletRace(world, partial(staged.served.open, SEGMENT))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(race.run, _CAST)
        for _ in range(_TRIMS):
            await trio.sleep(source.random() * 0.05)
            trim = partial(_trim, LogletOffset(source.randint(0, _PAST)))
            reached = source.sample(staged.config.servers, staged.config.majority)
            await staged.act("trimmer", reached, trim)
    await race.demand_seal(60.0)
    world.check(*LOGLET_CHECKS)
    world.violations.extend(servers_agree(staged.log_servers, {SEGMENT: staged.config}))


async def _trim(offset: LogletOffset, loglet: Loglet) -> None:
    await loglet.prefix_trim(offset)


TRIMMED: Final = Scenario(
    name="trimmed",
    about="a NativeLoglet is trimmed below, at and past its tail while it grows",
    story=_story,
    limit_seconds=300.0,
)
