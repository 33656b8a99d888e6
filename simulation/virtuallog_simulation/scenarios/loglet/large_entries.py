"""Waves of some kilobytes under a NativeLoglet's WALs: groups that a loss of power tears, segments that fill up.

`torn`      all servers lose their power while large groups are under way, then start again
`dropped`   the loglet is trimmed a little, and a little more, so that segments go; servers lose their power as well

Acknowledged entries must be readable in the end, whole, from every server that has them; a loss of
power alone must keep no server from serving again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import TransferLimits
from virtuallog_loglets.wal import WalSettings
from virtuallog_simulation.checks.cluster.node_state import held_is_recovered, power_loss_is_no_damage
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.state.log_servers import servers_agree
from virtuallog_simulation.scenarios.loglet.directed import DirectedLoglet
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_WAL: Final = WalSettings(
    segment_bytes=64 << 10, record_bytes_max=12 << 10, group_bytes_max=20 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=16 << 10,
)  # fmt: skip
_CAST: Final = RaceClients(
    appenders=3, batches=10, in_flight=2, entry_bytes=1500, sealers=0, observers=1, pause_seconds=0.003
)
_TRIMS: Final = 4


def _provider() -> NativeProvider:
    return NativeProvider(wal_settings=_WAL, pieces=TransferLimits(wave_bytes=6 << 10, repair_bytes=12 << 10))


async def _torn(world: World) -> None:
    source = world.random("plan")
    staged = _begin(world, source, write_seconds=source.choice((0.01, 0.03)))
    race = LogletRace(world, partial(staged.served.open, SEGMENT))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(race.run, _CAST)
        await trio.sleep(source.random() * 0.2)
        world.fault("blackout")
        _lose_power(staged, staged.config.servers)
    await _finish(staged, race)


async def _dropped(world: World) -> None:
    source = world.random("plan")
    staged = _begin(world, source, write_seconds=0.002)
    race = LogletRace(world, partial(staged.served.open, SEGMENT))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(race.run, _CAST)
        for _ in range(_TRIMS):
            await trio.sleep(source.random() * 0.05)
            await staged.act("trimmer", staged.config.servers, partial(_trim_some, source.random() * 0.5))
        _lose_power(staged, source.sample(staged.config.servers, source.randint(0, 3)))
    await _finish(staged, race)


def _begin(world: World, source: random.Random, write_seconds: float) -> DirectedLoglet:
    staged = DirectedLoglet.begin(world, servers=3, sequencer=4, make=_provider)
    for machine in staged.served.machines.values():
        machine.faults.write_seconds = (0.0, write_seconds)
    return staged


def _lose_power(staged: DirectedLoglet, servers: Sequence[NodeId]) -> None:
    for node in servers:
        staged.served.machines[node].crash()
    for node in servers:
        staged.served.machines[node].start()


async def _trim_some(share: float, loglet: Loglet) -> None:
    tail = (await loglet.check_tail()).tail
    await loglet.prefix_trim(LogletOffset(int(tail * share)))


async def _finish(staged: DirectedLoglet, race: LogletRace) -> None:
    world, machines = staged.world, staged.served.machines
    await race.demand_seal(20.0)
    await staged.read_everywhere()
    world.check(*LOGLET_CHECKS)
    world.violations.extend(servers_agree(staged.log_servers, {SEGMENT: staged.config}))
    world.violations.extend(power_loss_is_no_damage(machines))
    for node, server in staged.log_servers.items():
        world.violations.extend([found async for found in held_is_recovered(machines[node], server)])


TORN: Final = Scenario(
    name="torn",
    about="all servers of a NativeLoglet lose their power while large groups are on their way to the disks",
    story=_torn,
    limit_seconds=300.0,
)
DROPPED: Final = Scenario(
    name="dropped",
    about="a NativeLoglet of large entries is trimmed bit by bit, so that segments of its WALs go",
    story=_dropped,
    limit_seconds=300.0,
)
