"""The scenarios `clause/NAME`: one clause of the contract, checked on a provider whose servers run
on simulated machines.

No faults but those that the clause itself makes (`RESTART_CLAUSES`); the seed decides how fast messages travel and in
which order tasks run, so every seed is another interleaving.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import trio

from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.loglet_suite import CLAUSE_SECONDS, CLAUSES, RESTART_CLAUSES, run_clause
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.scenarios.conformance import options as kit
from virtuallog_simulation.scenarios.conformance.fixture import SimulatedFixture
from virtuallog_simulation.scenarios.conformance.providers import below, find_in
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

ALL: Final[Mapping[str, Any]] = {clause.__name__: clause for clause in (*CLAUSES, *RESTART_CLAUSES)}
_EVENTS_TOLD: Final = 10
"""Events shown before a clause was broken: mostly its cause."""


def promise(clause: str) -> str:
    """Promise of the clause, in one line."""
    return " ".join((inspect.getdoc(ALL[clause]) or "").split())


async def _story(world: World, clause: str) -> None:
    options = kit.of(world.options)
    source = world.random("plan")
    world.network.set_quality(
        LinkQuality(tail_probability=source.choice((0.0, 0.1)), tail_seconds=source.choice((0.002, 0.02)))
    )
    name, roomy = (options.loglets or ("native",))[0], "largest" in clause
    served = ServedLoglets(world, find_in(world, name, roomy=roomy), below(name, roomy=roomy))
    served.start(options.nodes)
    try:
        async with trio.open_nursery() as nursery:
            contiguous = served.make().contiguous
            await run_clause(ALL[clause], SimulatedFixture(served, nursery, contiguous, world.random("clause")))
            nursery.cancel_scope.cancel()
    except* Exception as broken:
        world.violations.append(Violation(clause, _told(broken), _newest(world)))


def _newest(world: World) -> tuple[int, ...]:
    count = len(world.history.events)
    return tuple(range(max(0, count - _EVENTS_TOLD), count))


def _told(error: BaseException) -> str:
    """The first error within groups: nurseries wrap what failed in them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, AssertionError) and str(error) else f"{type(error).__name__}: {error}"


SCENARIOS: Final = tuple(
    Scenario(
        name=f"clause/{name}",
        about=promise(name),
        story=partial(_story, clause=name),
        limit_seconds=CLAUSE_SECONDS * 2,
    )
    for name in ALL
)
