"""Replicas as processes, under a checked load: acknowledged entries are in the log once, in order,
through all faults."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.server.process.test_processes import command
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_lab.experiments.failover.kill import run as kill_repeatedly
from virtuallog_lab.experiments.failover.report import report
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.orderer import ANSWER_SECONDS
from virtuallog_lab.harness.trial import Trial, TrialLoad, run_trial, set_up_client
from virtuallog_loglets.paxos.config import decode_untrusted
from virtuallog_loglets.paxos.messages import GetStanding, Standing, Status
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]

LOAD = TrialLoad(writers=16)
PATIENCE_SECONDS = 30.0
"""Until appends go on, on a machine that is busy with other things. How long it really takes is measured by virtuallog_lab.experiments.failover.kill."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Prints what the nodes have logged; pytest shows it when the test has failed."""
    yield tmp_path
    for log in sorted(tmp_path.rglob("node-*/log")):
        sys.stderr.write(f"--- {log.parent.name}\n{log.read_text()[-4000:]}")
    shutil.rmtree(tmp_path)


async def active(trial: Trial) -> Segment:
    return (await trial.log.view.refresh()).chain.last


async def standing(trial: Trial, node: NodeId) -> Standing | None:
    """Standing of a replica of the active segment; None if it does not answer."""
    segment = await active(trial)
    try:
        return await trial.services.call(node, GetStanding(segment=segment.id), ANSWER_SECONDS)
    except UnavailableError:
        return None


async def wait_voting(trial: Trial, node: NodeId) -> Standing:
    """Wait until the replica takes part in decisions."""
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        while (found := await standing(trial, node)) is None or found.status != Status.VOTING:
            await trial.clock.sleep(0.05)
    return found


async def appends_go_on(trial: Trial) -> bool:
    """Check that appends from now on are acknowledged."""
    return await trial.wait_acknowledged(trial.workload.elapsed, PATIENCE_SECONDS)


async def follower(trial: Trial) -> NodeId:
    """A replica that does not lead."""
    replicas = decode_untrusted((await active(trial)).config).replicas
    orderer = await trial.orderer()
    return next(node for node in replicas if node != orderer)


async def reconfigure(trial: Trial, *arguments: str) -> Segment:
    """Reconfigure with the command."""
    trial.cluster.write_file()
    done = await trio.to_thread.run_sync(
        partial(command, "reconfigure", *arguments, "--json", cluster=trial.cluster.file_path)
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["segments"][-1]["kind"] == arguments[1]
    return await active(trial)


@pytest.mark.long
async def test_a_replica_whose_store_was_deleted_recovers_and_votes_again(folder: Path) -> None:
    """kill -9, rm -r of the directory of its replicas only, start, all under load. It recovers by itself; then it is one of the
    two that are left when another one dies, and the log goes on."""

    async def story(trial: Trial) -> None:
        assert await appends_go_on(trial)
        victim = await follower(trial)
        before = await standing(trial, victim)
        assert before is not None
        await trial.cluster.kill(victim)
        assert await appends_go_on(trial)
        await trio.to_thread.run_sync(shutil.rmtree, folder / f"node-{victim}" / "values" / "paxos")
        await trial.cluster.start(victim)
        assert (await wait_voting(trial, victim)).incarnation > before.incarnation

        leader = await trial.orderer()
        await trial.cluster.kill(leader)
        assert await appends_go_on(trial)
        await trial.restart(leader)
        assert await appends_go_on(trial)

    set_up_client()
    async with open_local_cluster(folder, base_port=0, loglet="paxos") as cluster:
        await cluster.wait_ready()
        evidence = await run_trial(cluster, LOAD, story)

    assert evidence.verdict.problems == ()
    assert evidence.workload.acknowledged > 0


async def test_a_log_outlives_the_death_of_its_coordinator() -> None:
    """After a kill -9, without an operator, another replica is elected and the chain stays as it is."""
    evidence = await kill_repeatedly(["coordinator"], LOAD, 0.2, PATIENCE_SECONDS, loglet="paxos")

    assert report(Machine.look(), evidence).problems == []


@pytest.mark.long
async def test_five_replicas_outlive_two_and_the_set_can_be_another_one(folder: Path) -> None:
    """Mesos could never do this: under load the log goes from native onto three replicas, onto
    five, of which two die, onto three others, and back to native."""

    async def story(trial: Trial) -> None:
        await reconfigure(trial, "--to", "paxos", "--set", "servers=1,2,3")
        assert await appends_go_on(trial)
        await reconfigure(trial, "--to", "paxos", "--set", "servers=1,2,3,4,5")
        assert await appends_go_on(trial)

        dead = [await trial.orderer(), await follower(trial)]
        await trial.cluster.kill(*dead)
        assert await appends_go_on(trial)
        assert await trial.restart(*dead) == []

        moved = await reconfigure(trial, "--to", "paxos", "--set", "servers=3,4,5")
        assert decode_untrusted(moved.config).replicas == (3, 4, 5)
        assert await appends_go_on(trial)
        await reconfigure(trial, "--to", "native")
        assert await appends_go_on(trial)

    set_up_client()
    async with open_local_cluster(folder, nodes=5, base_port=0) as cluster:
        await cluster.wait_ready()
        evidence = await run_trial(cluster, LOAD, story)

    assert evidence.verdict.problems == ()
