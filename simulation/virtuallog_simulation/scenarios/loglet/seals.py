"""A seal that a bare majority has heard of, under load; then servers lose their power, or their disks fail.

The sealer does nothing but seal, so that no client repairs what it left undone: from the moment it
returns nothing may be acknowledged, whatever becomes of single servers (Delos, OSDI'20, section
4.2.1).
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.contract.loglet import Loglet
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.state.log_servers import servers_agree
from virtuallog_simulation.scenarios.loglet.directed import DirectedLoglet, seal
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_CAST: Final = RaceClients(appenders=3, batches=40, sealers=0, observers=1, pause_seconds=0.004)


async def _sealed(world: World) -> None:
    source = world.random("plan")
    servers = source.choice((3, 5))
    staged = DirectedLoglet.begin(world, servers=servers, sequencer=servers + 1)
    world.network.set_quality(LinkQuality(tail_probability=0.3, tail_seconds=0.02, loss=0.02, reorder=0.2))
    for machine in staged.served.machines.values():
        machine.faults.write_seconds = (0.0, 0.005)
    race = LogletRace(world, partial(staged.served.open, SEGMENT))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(race.run, _CAST)
        nursery.start_soon(_seal, staged, source)
        nursery.start_soon(_lose_power, staged, source)
    world.network.set_quality(LinkQuality())
    await race.demand_seal(60.0)
    await staged.read_everywhere()
    world.check(*LOGLET_CHECKS)
    world.violations.extend(servers_agree(staged.log_servers, {SEGMENT: staged.config}))


async def _seal(staged: DirectedLoglet, source: random.Random) -> None:
    await trio.sleep(source.random() * 0.1)
    await staged.act("sealer", source.sample(staged.config.servers, staged.config.majority), _only_seal)


async def _only_seal(loglet: Loglet) -> None:
    await loglet.seal()


async def _lose_power(staged: DirectedLoglet, source: random.Random) -> None:
    """Some servers, all at once: the others must not need them, and they must know what they have said."""
    await trio.sleep(source.random() * 0.2)
    machines = staged.served.machines
    for node in source.sample(staged.config.servers, source.randint(0, len(staged.config.servers))):
        machines[node].crash(power=source.random() < 0.8)
        machines[node].start()


async def _broken_disk(world: World) -> None:
    """Server a cannot sync any more, c is cut off from the sequencer: what a acknowledges decides. Then a loses its
    power, and the sealer reaches a and c."""
    source = world.random("plan")
    staged = DirectedLoglet.begin(world, servers=3, sequencer=4)
    a, c = source.sample(staged.config.servers, 2)
    machine = staged.served.machines[a]
    staged.cut(staged.config.sequencer, [c])
    race = LogletRace(world, partial(staged.served.open, SEGMENT))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(race.run, _CAST)
        await trio.sleep(source.random() * 0.1)
        machine.faults.sync_error = source.choice((0.3, 1.0))
        await trio.sleep(source.random() * 0.1)
        machine.faults.sync_error = 0.0
        machine.crash()  # also if its process has given up by then: what it wrote and could not sync must go
        machine.start()
        await staged.act("sealer", [a, c], seal)
        staged.heal(staged.config.sequencer)
    await race.demand_seal(60.0)
    world.check(*LOGLET_CHECKS)


SEALED: Final = Scenario(
    name="sealed",
    about="a NativeLoglet under load is sealed by a bare majority, then servers lose their power",
    story=_sealed,
    limit_seconds=300.0,
)
BROKEN_DISK: Final = Scenario(
    name="broken-disk",
    about="a server of a NativeLoglet whose syncs fail, and whose word decides, loses its power",
    story=_broken_disk,
    limit_seconds=300.0,
)
