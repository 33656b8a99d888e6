"""A wave that only a minority has, and that will never be more: who reads it reads what may be gone tomorrow.

The sequencer reaches a minority. One client waits for news at its servers, another seals by a
majority of the others, which knows nothing of the wave. Then the sequencer dies; or it comes back,
and appenders must soon get the error that the loglet is sealed. Delos, OSDI'20, sections 3.2 and
4.2.1.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import RetryableError, SealedError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.state.log_servers import servers_agree
from virtuallog_simulation.scenarios.loglet.directed import DirectedLoglet, batch, seal
from virtuallog_simulation.scenarios.loglet.race import SEGMENT
from virtuallog_simulation.scenarios.loglet.race_clients import read_range
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

SOON_SECONDS: Final = 4.0
"""Much less than a call to the sequencer takes to be given up."""


async def _story(world: World) -> None:
    source = world.random("plan")
    servers = source.choice((3, 5))
    staged = DirectedLoglet.begin(world, servers=servers, sequencer=servers + 1)
    sequencer = staged.config.sequencer
    have = source.sample(staged.config.servers, source.randint(1, staged.config.majority - 1))
    others = [server for server in staged.config.servers if server not in have]
    staged.cut(sequencer, others)
    async with trio.open_nursery() as nursery:
        offered = batch(1, entries=source.randint(1, 3))
        nursery.start_soon(staged.act, "appender", [sequencer], partial(_offer, offered))
        nursery.start_soon(staged.act, "waiter", staged.config.servers, _wait_and_read)
        await trio.sleep(source.random() * 0.1)
        await staged.act("sealer", others, seal)
        if source.random() < 0.5:
            staged.served.machines[sequencer].crash()
            nursery.cancel_scope.cancel()
        else:
            staged.heal(sequencer)
            await _demand_refusal(staged, source)
    await staged.read_everywhere()
    world.check(*LOGLET_CHECKS)
    world.violations.extend(servers_agree(staged.log_servers, {SEGMENT: staged.config}))


async def _offer(offered: Batch, loglet: Loglet) -> None:
    await loglet.append(offered, opens=True)


async def _wait_and_read(loglet: Loglet) -> None:
    tail = await loglet.wait_tail(LogletOffset(0))
    await read_range(loglet, 0, tail.tail)


async def _demand_refusal(staged: DirectedLoglet, source: random.Random) -> None:
    """Demand a refusal: no other server informs a client that its loglet is sealed; without it the
    client waits instead of going on."""
    refused: list[bool] = []

    async def offer(loglet: Loglet) -> None:
        try:
            await loglet.append(batch(2, entries=source.randint(1, 3)), opens=True)
        except SealedError:
            refused.append(True)
        except RetryableError:
            return

    with trio.move_on_after(SOON_SECONDS):
        await staged.act("appender", [staged.config.sequencer], offer)
    if not refused:
        message = f"an append to a sealed loglet was not refused within {SOON_SECONDS:g} s"
        staged.world.violations.append(Violation("progress", message, (len(staged.world.history.events) - 1,)))


MINORITY: Final = Scenario(
    name="minority",
    about="a wave that a minority has is waited for and read, while a majority of the others is sealed",
    story=_story,
    limit_seconds=120.0,
)
