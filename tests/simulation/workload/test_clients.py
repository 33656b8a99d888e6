"""Client processes of the simulator: how they end, and what is counted when they do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from tests.simulation.world.stage import PLAN, on_stage
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog_simulation.workload import driver
from virtuallog_simulation.workload.actor import Actor
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.world import World, open_world

CLIENT = NodeId(1000)


def in_a_world(story: Callable[[World], Awaitable[None]]) -> None:
    async def told() -> None:
        async with open_world(1) as world:
            await story(world)

    scheduler.run(1, told)


def test_a_client_dies_without_an_error() -> None:
    """Its later acts are not done, and leave no trace."""
    done: list[str] = []

    async def story(world: World) -> None:
        async with world.client(CLIENT, lifetime_seconds=1.0) as environment:
            try:
                await trio.sleep(10.0)
            finally:
                environment.clock.timeout(1.0)
                done.append("a timeout")
        done.append("the end")

    in_a_world(story)
    assert done == ["the end"]


def test_that_somebody_else_is_dead_is_no_excuse() -> None:
    """A client that uses a port of another life, while it lives itself, has a bug: its error must not pass for a death."""
    dead = Process(NodeId(7))
    dead.crash()

    async def story(world: World) -> None:
        async with world.client(CLIENT):
            dead.check()

    with pytest.raises(BaseExceptionGroup) as caught:
        in_a_world(story)
    assert caught.group_contains(CrashedError)


@pytest.mark.parametrize(("lifetime", "dies"), [(None, False), (0.2, True)])
def test_only_a_client_that_dies_has_died(lifetime: float | None, dies: bool) -> None:
    """One that is stopped when its time is over, in the middle of an act, has not."""

    async def story(actor: Actor) -> None:
        with trio.move_on_after(2.0):
            await driver.run(actor.stage)

    plan = attrs.evolve(PLAN, lifetime_seconds=lifetime, acts=dict.fromkeys(PLAN.acts, 10_000))
    plan = attrs.evolve(plan, pauses=dict.fromkeys(PLAN.pauses, 0.01))
    assert bool(on_stage(story, plan=plan).counts["did: die in the middle"]) is dies
