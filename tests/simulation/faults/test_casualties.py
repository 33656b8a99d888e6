"""When the judge plays the operator: where the cluster cannot heal itself, and faults explain what is broken."""

from __future__ import annotations

from collections.abc import Callable

import trio

from tests.simulation.world.stage import on_stage
from virtuallog.contract.types import NodeId
from virtuallog_simulation.scenarios.cluster.liveness import HurtNodes
from virtuallog_simulation.workload.actor import Actor

RESTART_SECONDS = 2.0


def excused(
    harm: Callable[[Actor], None],
    *,
    nodes: frozenset[int] = frozenset(),
    outside: frozenset[str] = frozenset(),
    faults: bool = True,
    stranger: bool = True,
) -> bool:
    """True if a node's harm excuses that its loglet is left to an operator; for an unknown kind or
    a native one."""
    found: list[bool] = []

    async def story(actor: Actor) -> None:
        await actor.append()
        active = actor.chain.active
        assert active is not None
        harm(actor)
        await trio.sleep(RESTART_SECONDS)
        provider = None if stranger else actor.client.log.view.provider(active.kind)
        found.append(HurtNodes(actor.stage.cluster, nodes, outside, faults).excuse(active, provider))

    on_stage(story, foreign=False)
    return found[0]


def nothing(actor: Actor) -> None:
    """All nodes live."""


def crash(actor: Actor) -> None:
    actor.stage.cluster.machines[NodeId(2)].crash()


def restart(actor: Actor) -> None:
    crash(actor)
    actor.stage.cluster.machines[NodeId(2)].start()


def test_nodes_that_live_are_no_excuse() -> None:
    """A loglet that takes no appends although no node was hurt has a bug."""
    assert not excused(nothing)


def test_a_loglet_of_an_unknown_kind_may_rest_on_any_node() -> None:
    """One that is down, has started again, or has lost its data."""
    assert excused(crash)
    assert excused(restart)
    assert excused(nothing, nodes=frozenset({2}))


def test_what_the_cluster_heals_is_no_operators_part() -> None:
    """A native loglet is replaced without an operator after any fault of nodes."""
    assert not excused(crash, stranger=False)
    assert not excused(nothing, nodes=frozenset(range(1, 6)), stranger=False)


def test_nothing_is_excused_without_faults() -> None:
    """A process that ends by itself has a bug."""
    assert not excused(crash, faults=False)


def test_nothing_that_happens_to_nodes_concerns_somebody_elses_service() -> None:
    """Its loglets have to take appends."""
    assert not excused(restart, outside=frozenset({"native"}))
