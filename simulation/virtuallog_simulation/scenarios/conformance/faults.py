"""The scenarios `loglet/FAULT`: clients race over one loglet of any kind while one class of faults strikes, again and again.

Then the faults stop, and within a bound a client that knows nothing must be able to seal the
loglet, learn its tail and read all of it. The history is judged by the checks of loglets: all that
was acknowledged is there, once, in order.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.faults import streams
from virtuallog_simulation.faults.context import FaultContext
from virtuallog_simulation.faults.crash_points import COUNTED, CRASH_POINT
from virtuallog_simulation.faults.nemesis import FaultPlan, Nemesis
from virtuallog_simulation.faults.processes import LOST_DATABASE
from virtuallog_simulation.faults.registry import CLASSES
from virtuallog_simulation.scenarios.conformance import fixture
from virtuallog_simulation.scenarios.conformance import options as kit
from virtuallog_simulation.scenarios.conformance.options import DEAD
from virtuallog_simulation.scenarios.conformance.providers import below, find_in
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

POLL_SECONDS: Final = 0.005
QUIET_SECONDS: Final = 0.3
"""Mean time between two strikes, for something to happen that can be news."""
RACE_SECONDS: Final = 30.0
"""Clients that are still busy then, because of what the nemesis does, are stopped."""
CALM_SECONDS: Final = 60.0
"""Seconds for seal, tail and reads after the last fault: many times any timeout."""
STRIKE_SECONDS: Final = 0.3
"""Mean time between two acts of a class: a race takes about a second."""
PACE: Final = 0.1
"""Factor on how long a fault lasts, for the same reason."""
NONE: Final = "none"
ELSEWHERE: Final = ("wipe", LOST_DATABASE, *(fault.name for fault in streams.CLASSES))
"""Left to the chain: a node recognises that it was wiped by what surrounds its loglets; streams lie beneath them."""

DYING: Final = ("crash", "kill", "relaunch", "blackout")
"""Faults that, in half of the seeds, strike on slow disks just when a client has heard of a write
that may be under way."""
INFORMER: Final = NodeId(1900)


async def _story(world: World, fault: str) -> None:
    options = kit.of(world.options)
    source = world.random("plan")
    name = (options.loglets or ("native",))[0]
    served = ServedLoglets(world, find_in(world, name), below(name))
    world.options = attrs.evolve(world.options, faults=(fault,))
    nemesis = Nemesis(world, served.machines, _plan(fault))
    served.start(options.nodes)
    served.create(SEGMENT)
    nemesis.prepare()
    race = LogletRace(world, partial(served.open, SEGMENT))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_strike, served, nemesis, fault)
        with trio.move_on_after(RACE_SECONDS):
            await race.run(_cast(source))
        nursery.cancel_scope.cancel()
    if fault != DEAD:
        nemesis.stop(dead_max=0)
    await race.demand_seal(CALM_SECONDS)
    world.check(*LOGLET_CHECKS)


def _plan(fault: str) -> FaultPlan:
    """Plan in which the fault strikes in every seed."""
    rarities = {one.name: one.rarity for one in CLASSES}
    return FaultPlan(active={fault: STRIKE_SECONDS * rarities[fault]} if fault in rarities else {}, pace=PACE)


def _cast(source: random.Random) -> RaceClients:
    return RaceClients(
        appenders=source.randint(1, 4),
        batches=source.randint(5, 30),
        in_flight=source.choice((1, 4)),
        conditional=source.choice((0.0, 0.1)),
        impatient=source.choice((0.0, 0.1)),
        sealers=source.randint(0, 2),
        observers=source.randint(0, 2),
        waiters=source.randint(0, 1),
        readers=source.randint(0, 2),
        trimmers=source.randint(0, 1),
        pause_seconds=source.choice((0.005, 0.02, 0.1)),
    )


async def _strike(served: ServedLoglets, nemesis: Nemesis, fault: str) -> None:
    """Strike at random; or, where writes take long, when a client has heard of one."""
    world = served.world
    if fault == DEAD:
        await _die(served, world.random(f"fault {DEAD}"))
    elif fault in DYING and fixture.draw_disk_speeds(served.machines.values(), world.random("disks")):
        await _strike_at_news(served, nemesis, fault)
    else:
        await nemesis.run()


async def _strike_at_news(served: ServedLoglets, nemesis: Nemesis, fault: str) -> None:
    world = served.world
    stage = FaultContext(fault, world, served.machines, world.random(f"fault {fault}"), nemesis.wounds, PACE)
    async with world.client(INFORMER) as environment:
        loglet = served.open(SEGMENT, environment)
        await strike_at_news(RecordedLoglet(loglet, world.history, SEGMENT, f"informer {INFORMER}"), stage)


async def strike_at_news(loglet: Loglet, stage: FaultContext) -> None:
    """Let a class of faults strike whenever the tail has grown, until cancelled.

    This is the worst moment: a client has just heard of an entry that may not be durable yet. That
    client polls the tail, and what it hears is in the history, so a loglet that reports what it may
    lose contradicts itself at the next poll. Random strikes meet such a moment in a few of a
    hundred runs.
    """
    (act,) = [fault.act for fault in CLASSES if fault.name == stage.name]
    assert act is not None
    known = 0
    while True:
        with suppress(RetryableError):
            tail = (await loglet.check_tail()).tail
            if tail > known:
                await act(stage)
                await trio.sleep(stage.random.expovariate(1.0 / QUIET_SECONDS))
            known = tail
        await trio.sleep(POLL_SECONDS)


async def _die(served: ServedLoglets, source: random.Random) -> None:
    machine = source.choice(list(served.machines.values()))
    await trio.sleep(source.random())
    served.world.fault(DEAD, str(machine.node))
    machine.crash()


def struck(fault: str, counts: Mapping[str, int]) -> int:
    """Number of times that a fault took effect."""
    if fault == CRASH_POINT:
        return sum(count for name, count in counts.items() if name.startswith(COUNTED))
    counters = {name for one in CLASSES if one.name == fault for name in one.counters} or {fault}
    return sum(counts.get(name, 0) for name in counters)


FAULTS: Final[Mapping[str, str]] = {
    NONE: "nothing strikes",
    **{one.name: one.about for one in CLASSES if one.name not in ELSEWHERE},
    DEAD: "a node dies and never comes back",
}
"""Faults of the kit, with a description of each."""
SCENARIOS: Final = tuple(
    Scenario(name=f"loglet/{fault}", about=about, story=partial(_story, fault=fault), limit_seconds=300.0)
    for fault, about in FAULTS.items()
)
