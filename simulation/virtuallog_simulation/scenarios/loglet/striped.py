"""One bare StripedLoglet: its stripes on machines, clients that race over it.

First nothing is wrong, and single clients append a batch each: idle stripes must not hold them up.
Then come the others, and faults. Stripes are recorded as loglets of their own, so that a violation
is reported where it happened.

`halves` is directed at one danger: some stripes are sealed and others not, because the sealer
reaches only a part of the servers, while others append, look and trim.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import InvalidSettingError, VirtualLogError
from virtuallog.contract.provider import compose
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_loglets.striped.config import decode_untrusted
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.loglet import native
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

CALM_SECONDS: Final = 60.0
LONE_SECONDS: Final = 0.2
"""Seconds for an append to idle stripes when nothing is wrong: some twenty times the usual."""
LONE: Final = "lone append"
_LONE_APPENDS: Final = 3
_FIRST_LONE: Final = 1201
_SEALERS: Final = (NodeId(1301), NodeId(1302))


async def _stripes(world: World) -> None:
    source = world.random("plan")
    served = await _served(world, source)
    _demand_refusal(served)
    race = LogletRace(world, partial(served.open, SEGMENT))
    await _demand_lone_appends(served)
    nemesis = Nemesis(world, served.machines, FaultPlan.draw(source, without=LOSING, pace=0.1))
    nemesis.prepare()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        with trio.move_on_after(CALM_SECONDS):
            await race.run(_draw_cast(source))
        nursery.cancel_scope.cancel()
    nemesis.stop(dead_max=1)
    await race.demand_seal(CALM_SECONDS)
    world.check(*LOGLET_CHECKS)


async def _halves(world: World) -> None:
    """Each stripe has servers of its own; each sealer is cut off from those of one stripe at first, and then is not."""
    source = world.random("plan")
    served = await _served(world, source, groups=True)
    groups = StripedGroups.of(served)
    world.network.set_quality(LinkQuality(tail_probability=0.2, tail_seconds=0.05, reorder=0.1))
    race = LogletRace(world, partial(served.open, SEGMENT))
    cast = RaceClients(
        appenders=source.randint(2, 4), batches=10, sealers=0, observers=2, waiters=1, readers=1,
        trimmers=1, pause_seconds=0.01, in_flight=source.choice((1, 4)),
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        for node in _SEALERS:
            nursery.start_soon(_seal_a_part, served, node, source.choice(groups), source.random() * 0.15)
        with trio.move_on_after(CALM_SECONDS):
            await race.run(cast)
        nursery.cancel_scope.cancel()
    world.network.heal()
    await race.demand_seal(CALM_SECONDS)
    world.check(*LOGLET_CHECKS)


class StripedGroups:
    """The servers of the stripes."""

    @staticmethod
    def of(served: ServedLoglets) -> list[tuple[NodeId, ...]]:
        provider, config = native.provider(), decode_untrusted(served.config(SEGMENT))
        return [group for stripe in config.stripes for group in provider.placement(stripe).groups]


async def _seal_a_part(served: ServedLoglets, node: NodeId, missed: tuple[NodeId, ...], after_seconds: float) -> None:
    """Seal some stripes, as a reconfigurer does that dies, or gives up, half-way."""
    world = served.world
    await trio.sleep(after_seconds)
    for server in missed:
        world.network.link(node, server).blocked = world.network.link(server, node).blocked = True
    async with world.client(node, lifetime_seconds=0.3) as environment:
        loglet = RecordedLoglet(
            served.open(SEGMENT, environment, f"sealer {node}"), world.history, SEGMENT, f"sealer {node}"
        )
        try:
            await loglet.seal()
            await loglet.check_tail()
        except VirtualLogError:
            return


async def _served(world: World, source: random.Random, *, groups: bool | None = None) -> ServedLoglets:
    """Two or three stripes, over the same servers or over disjoint ones."""
    served = ServedLoglets(world, StripedProvider, below=(native.provider,))
    disjoint = source.random() < 0.4 if groups is None else groups
    served.start(6 if disjoint else source.choice((3, 3, 5)))
    await trio.sleep(0.1)
    settings = {"groups": "1,2,3;4,5,6"} if disjoint else {"stripes": str(source.choice((2, 3)))}
    served.create(SEGMENT, settings=settings)
    return served


def _demand_refusal(served: ServedLoglets) -> None:
    """Demand a refusal: stripes of a kind with unused places in between would leave holes that are
    never filled."""
    planner = StripedProvider()
    compose({"striped": planner, "paxos": PaxosProvider(), "native": native.provider()})
    with suppress(InvalidSettingError):
        planner.plan(served.cluster, {"of": "paxos"}, None)
        served.world.violations.append(Violation("sparse stripes are refused", "stripes of kind paxos were planned"))


async def _demand_lone_appends(served: ServedLoglets) -> None:
    """Demand appends of clients that come one after the other, each with its own session, so that
    each stripe has its turn."""
    world = served.world
    for number in range(_LONE_APPENDS):
        began = world.now()
        with trio.move_on_after(LONE_SECONDS) as limit:
            await _append_alone(served, NodeId(_FIRST_LONE + number))
        world.demanded(LONE, world.now() - began)
        if limit.cancelled_caught:
            message = (
                f"not acknowledged within {LONE_SECONDS:g} s, though nothing was wrong and no other client appended"
            )
            world.violations.append(Violation(LONE, message, (len(world.history.events) - 1,)))


async def _append_alone(served: ServedLoglets, node: NodeId) -> None:
    world, who = served.world, f"appender {node}"
    async with world.client(node) as environment:
        loglet = RecordedLoglet(served.open(SEGMENT, environment, who), world.history, SEGMENT, who)
        session = SessionId(environment.random.randbytes(16))
        for sequence in range(2):
            await loglet.append(Batch.build(session, sequence, [b"alone"]), opens=sequence == 0)


def _draw_cast(source: random.Random) -> RaceClients:
    return RaceClients(
        appenders=source.randint(1, 4),
        batches=source.randint(5, 20),
        sealers=source.randint(0, 2),
        observers=source.randint(1, 2),
        pause_seconds=source.choice((0.002, 0.01, 0.05)),
        in_flight=source.choice((1, 1, 4)),
        impatient=source.choice((0.0, 0.1)),
        readers=source.randint(0, 1),
        waiters=source.randint(0, 1),
        trimmers=source.randint(0, 1),
    )


STRIPES: Final = Scenario(
    name="stripes",
    about="clients race over one striped loglet whose servers crash; lone appends must not wait",
    story=_stripes,
    limit_seconds=300.0,
)
HALVES: Final = Scenario(
    name="halves",
    about="clients race over one striped loglet, some stripes of which are sealed long before the others",
    story=_halves,
    limit_seconds=300.0,
)
