"""Everything is swapped for everything, on real processes and under a checked load."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import attrs
import pytest
import trio

from virtuallog.contract.types import NodeId
from virtuallog_lab.bench.reconfigure import SwapMatrixPlan, run
from virtuallog_lab.bench.swaps import swap, wait_resumed
from virtuallog_lab.bench.targets import LOG_NODES, Target, target_names
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.trial import Trial, TrialLoad, run_trial, temporary_cluster

pytestmark = pytest.mark.processes

LOAD = TrialLoad(writers=16)
APART_SECONDS = 0.004
"""Kills come that much later into each next swap than into the one before: before the seal, in the middle, behind the put."""


@pytest.mark.long
async def test_each_kind_is_swapped_for_each_under_load(targets: list[Target]) -> None:
    """All 36 ordered pairs; appends go on after each, and everything is in the log once, in order."""
    outcome = await run(SwapMatrixPlan(targets=targets, swaps=1, load=LOAD, window_seconds=0.05), Machine.look())

    assert outcome.report.problems == []
    assert [(cell.source, cell.target) for cell in outcome.matrix.cells] == list(product(target_names(), repeat=2))
    assert {cell.swaps for cell in outcome.matrix.cells} == {1}
    assert outcome.report.plain["acknowledged"] > 0


@pytest.mark.long
async def test_a_node_dies_in_the_middle_of_each_swap(targets: list[Target]) -> None:
    """kill -9 at another moment each time; the swap comes to an end, appends come back, nothing is lost or doubled.

    Servers are left to the planners, which would refuse to name a dead one.
    """
    goals = [attrs.evolve(target, settings=dict(_without_servers(target))) for target in targets]

    async def story(trial: Trial) -> int:
        await swap(trial, goals[-1])
        for number, target in enumerate(goals):
            await _swap_and_kill(trial, target, NodeId(number % 3 + 1), APART_SECONDS * (number + 1))
        return (await trial.log.view.refresh()).version

    async with temporary_cluster(log_nodes=LOG_NODES) as cluster:
        evidence = await run_trial(cluster, LOAD, story)

    assert evidence.verdict.problems == ()
    assert evidence.result > len(goals)
    assert evidence.workload.acknowledged > 0


async def _swap_and_kill(trial: Trial, target: Target, victim: NodeId, after_seconds: float) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(swap, trial, target)
        await trial.clock.sleep(after_seconds)
        await trial.cluster.kill(victim)
    await wait_resumed(trial, target)
    assert await trial.restart(victim) == []


def _without_servers(target: Target) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in target.settings.items() if name != "servers")
