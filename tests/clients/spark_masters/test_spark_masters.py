"""Spark's standalone masters on our servers, and on ZooKeeper's: the standby takes over once per death, and never else."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.clients.ensembles import open_virtuallog, open_zookeeper
from tests.clients.spans import overlaps
from tests.clients.spark_masters.daemons import ELECTED, REVOKED
from tests.clients.spark_masters.story import Story, open_story
from tests.spark.java import require_java
from virtuallog_lab.harness.report import Table

pytestmark = [pytest.mark.long, pytest.mark.processes]


async def test_standby_takes_over_once_per_kill_through_five_swaps(tmp_path: Path) -> None:
    """The worker and its application are recovered. No swap moves the lead, nor the death of a node that the master is not connected to."""
    require_java()
    async with open_virtuallog(tmp_path) as ensemble, open_story(ensemble, tmp_path) as story:
        await story.swap("paxos")
        await story.swap("striped")
        await story.kill_other_server()
        await story.swap("raft")
        await story.kill_active(swap_to="native")
        await story.swap("paxos")
        await story.kill_server_of_active()
        await judge(story)


async def test_standby_takes_over_once_per_kill_on_zookeeper(tmp_path: Path) -> None:
    """To compare the times. There is no server whose death a master would not notice for sure: it may be the leader."""
    require_java()
    async with open_zookeeper(tmp_path) as ensemble, open_story(ensemble, tmp_path) as story:
        await story.kill_active()
        await story.kill_leading_server()
        await judge(story)


async def judge(story: Story) -> None:
    """Fail unless one master led at a time, which changed once per death, and the application got all its results."""
    await story.end()
    leaders = [span.name for span in story.spans]

    assert story.daemons.application.exit_code() == 0
    assert overlaps(story.spans) == []
    assert leaders == ["master-0", "master-1", "master-0"]
    assert [master.logged(ELECTED) for master in story.daemons.masters] == [2, 1]
    assert [master.logged(REVOKED) for master in story.daemons.masters] == [0, 1]

    title = f"{story.ensemble.name}: {len(story.daemons.job_ends)} jobs; leaders {', '.join(leaders)}"
    rows = [[event.what, f"{event.leaderless:.1f}", f"{event.job_gap:.1f}"] for event in story.events]
    click.echo("\n" + Table(title, ["event", "no master, s", "longest time between jobs, s"], rows).markdown())
