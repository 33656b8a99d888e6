"""A sequencer that is cut off while others seal, repair and read its loglet without it, and then comes back.

`overtaken`   a wave is on its way; its sequencer hears the answers of servers that have since been sealed and repaired
`restart`     the process of the sequencer dies with a wave on one server, starts again, and is asked to order more
`uneven`      the sequencer has died while each server had another tail; clients find the tail by different majorities

Delos, OSDI'20, section 4.2.1; specs: Delos, sections 5.1 to 5.3. Nothing may be acknowledged past a
stop that a client has received, one place has one value on all servers, and repair completes what
is below the stop and nothing else.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.state.log_servers import committed_below_the_stop, servers_agree
from virtuallog_simulation.scenarios.loglet.directed import Act, DirectedLoglet, batch, half_offered, seal, store, wave
from virtuallog_simulation.scenarios.loglet.native import CALM_SECONDS
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World


async def _overtaken(world: World) -> None:
    """Servers a, b, c, d, e; d is the sequencer's, and has the wave. The sealer reaches a, b and c
    and finds nothing, the repairer a, b and d, and then informs e of what it has made known.
    Only now the sequencer reaches the others."""
    source = world.random("plan")
    sequencer = source.randint(1, 5)
    staged = DirectedLoglet.begin(world, servers=5, sequencer=sequencer)
    d = NodeId(sequencer)
    a, b, c, e = source.sample([server for server in staged.config.servers if server != d], 4)
    staged.cut(d, [a, b, c, e])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(staged.act, "appender", [d], partial(_append, batch(1)))
        await trio.sleep(0.1)
        async with trio.open_nursery() as changers:
            changers.start_soon(_later, source, staged, "sealer", [a, b, c], seal)
            repairer = staged.number()
            repair = partial(_repair, staged, repairer)
            changers.start_soon(_later, source, staged, "repairer", [a, b, d], repair, repairer)
        staged.heal(d)
    await staged.read_everywhere()
    _check(staged)


async def _restart(world: World) -> None:
    """The sequencer reaches one server, dies, starts again and reaches all."""
    source = world.random("plan")
    staged = DirectedLoglet.begin(world, servers=3, sequencer=4)
    sequencer, first = NodeId(4), source.choice((NodeId(1), NodeId(2), NodeId(3)))
    staged.cut(sequencer, [server for server in staged.config.servers if server != first])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            staged.act, "appender", [sequencer], partial(_append, batch(1, entries=source.randint(1, 2)))
        )
        await trio.sleep(0.05 + source.random())
        staged.served.machines[sequencer].crash(power=source.random() < 0.5)
        staged.heal(sequencer)
        staged.served.machines[sequencer].start()
        await staged.act("appender", [sequencer], partial(_append, batch(2, entries=source.randint(1, 2))))
    for machine in staged.served.machines.values():
        if not machine.running:
            machine.start()
    await staged.read_everywhere()
    _check(staged)


async def _uneven(world: World) -> None:
    """Each server was sent some of three waves; clients that reach different majorities look for the tail, over slow
    links, most of them after a seal."""
    source = world.random("plan")
    servers = source.choice((3, 5))
    staged = DirectedLoglet.begin(world, servers=servers, sequencer=servers)
    batches = [batch(place) for place in range(3)]
    waves = [wave(place, [offered]) for place, offered in enumerate(batches)]
    half_offered(world, batches)
    for server in staged.config.servers:
        for sent in waves:
            if source.random() < 0.6:  # what comes too early is refused
                await store(world, server, sent)
    world.network.set_quality(LinkQuality(tail_probability=0.4, tail_seconds=0.02, reorder=0.3))
    succeeded: list[bool] = []

    async def look(name: str, act: Act) -> None:
        reached = source.sample(staged.config.servers, source.randint(staged.config.majority, servers))
        succeeded.append(await _later(source, staged, name, reached, act))

    async with trio.open_nursery() as nursery:
        for _ in range(source.choice((1, 1, 2, 3))):
            nursery.start_soon(look, "sealer", seal)
        if source.random() < 0.3:
            nursery.start_soon(look, "observer", _look)
    if all(succeeded):
        world.violations.extend(committed_below_the_stop(world.history, SEGMENT, staged.config, staged.log_servers))
    world.network.set_quality(LinkQuality())
    await LogletRace(world, partial(staged.served.open, SEGMENT)).demand_seal(CALM_SECONDS)
    await staged.read_everywhere()
    _check(staged)


def _check(staged: DirectedLoglet) -> None:
    staged.world.check(*LOGLET_CHECKS)
    staged.world.violations.extend(servers_agree(staged.log_servers, {SEGMENT: staged.config}))


async def _later(
    source: random.Random,
    staged: DirectedLoglet,
    name: str,
    reaches: list[NodeId],
    act: Act,
    node: NodeId | None = None,
) -> bool:
    await trio.sleep(source.random() * 0.02)
    return await staged.act(name, reaches, act, node)


async def _append(offered: Batch, loglet: Loglet) -> None:
    """Append, with retries after an unknown outcome; any other outcome is an answer."""
    for _ in range(3):
        try:
            await loglet.append(offered, opens=True)
        except RetryableError:
            continue
        return


async def _repair(staged: DirectedLoglet, repairer: NodeId, loglet: Loglet) -> None:
    """The trim carries what the repair has made known, also to a server that is not sealed."""
    await loglet.seal()
    tail = await loglet.check_tail()
    staged.heal(repairer)
    await loglet.prefix_trim(LogletOffset(tail.tail))


async def _look(loglet: Loglet) -> None:
    await loglet.check_tail()


OVERTAKEN: Final = Scenario(
    name="overtaken",
    about="a sequencer is cut off while its loglet is sealed and repaired, then comes back",
    story=_overtaken,
    limit_seconds=120.0,
)
RESTART: Final = Scenario(
    name="restart",
    about="the process of a sequencer dies with a wave on one server, and starts again",
    story=_restart,
    limit_seconds=120.0,
)
UNEVEN: Final = Scenario(
    name="uneven",
    about="a dead sequencer has left another tail on each server; clients look for the tail by different majorities",
    story=_uneven,
    limit_seconds=120.0,
)
