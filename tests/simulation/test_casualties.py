"""When the judge may replace a loglet: only if faults explain that nobody can append to it."""

from __future__ import annotations

from collections.abc import Callable

import trio

from simulation.stories.casualties import Casualties
from simulation.workload.actor import Actor
from tests.simulation.stage import on_stage
from virtuallog.types import NodeId

RESTART_SECONDS = 2.0


def explained(
    harm: Callable[[Actor, int], None],
    *,
    nodes: frozenset[int] = frozenset(),
    outside: str | None = None,
    faults: bool = True,
) -> bool:
    """Whether what is done to the node of a native sequencer explains that its loglet takes no appends."""
    found: list[bool] = []

    async def story(actor: Actor) -> None:
        await actor.append()
        active = actor.chain.active
        assert active is not None
        config = actor.client.log.view.provider(active.kind).describe(active.config)
        harm(actor, config["sequencer"])
        await trio.sleep(RESTART_SECONDS)
        found.append(Casualties(actor.stage.cluster, nodes, outside, faults).explain(active, config))

    on_stage(story, foreign=False)
    return found[0]


def nothing(actor: Actor, node: int) -> None:
    """It lives."""


def crash(actor: Actor, node: int) -> None:
    machines = actor.stage.cluster.machines
    machines[NodeId(node)].crash()


def restart(actor: Actor, node: int) -> None:
    crash(actor, node)
    machines = actor.stage.cluster.machines
    machines[NodeId(node)].start()


def crash_another(actor: Actor, node: int) -> None:
    crash(actor, next(each for each in actor.stage.cluster.nodes if each != node))


def test_a_sequencer_that_lives_has_no_excuse() -> None:
    """Whatever has happened to others."""
    assert not explained(nothing)
    assert not explained(crash_another)


def test_a_sequencer_is_excused_that_is_down_or_has_started_again() -> None:
    """It never starts in place."""
    assert explained(crash)
    assert explained(restart)


def test_a_node_that_has_lost_its_data_is_excused() -> None:
    """It may run, and stays out."""
    assert explained(nothing, nodes=frozenset(range(1, 6)))


def test_nothing_is_excused_without_faults() -> None:
    """A process that ends by itself has a bug."""
    assert not explained(crash, faults=False)


def test_nothing_that_happens_to_nodes_concerns_somebody_elses_service() -> None:
    """Its loglets have to take appends."""
    assert not explained(restart, outside="native")
