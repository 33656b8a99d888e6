"""Patroni with PostgreSQL on our servers, and on ZooKeeper's: the primary moves once when it is killed, and never else."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import click
import pytest

from tests.clients.ensembles import ENSEMBLES, Open, open_virtuallog, open_zookeeper
from tests.clients.patroni.member import require_patroni
from tests.clients.patroni.story import Story, open_story
from tests.clients.spans import overlaps
from virtuallog_lab.harness.report import Table


@pytest.mark.long
@pytest.mark.processes
async def test_primary_moves_once_per_kill_through_five_swaps(tmp_path: Path) -> None:
    """Two swaps come while there is no primary. No swap, and no death of a node, moves the primary."""
    require_patroni()
    async with open_virtuallog(tmp_path) as ensemble, open_story(ensemble, tmp_path) as story:
        await story.rest()
        await story.swap("paxos")
        await story.swap("striped")
        await story.kill_server(story.primary_server, "the server of the primary's Patroni")
        await story.swap("raft")
        await story.kill_primary(swap_to="native")
        await story.kill_server(await ensemble.leader(), "the server that orders writes")
        await story.kill_primary(swap_to="paxos")
        await judge(story, kills=2)


@pytest.mark.long
@pytest.mark.processes
async def test_primary_moves_once_per_kill_on_zookeeper(tmp_path: Path) -> None:
    """The same without swaps, to compare the gaps."""
    require_patroni()
    async with open_zookeeper(tmp_path) as ensemble, open_story(ensemble, tmp_path) as story:
        await story.rest()
        await story.kill_server(story.primary_server, "the server of the primary's Patroni")
        await story.kill_primary()
        await story.kill_server(await ensemble.leader(), "the server that orders writes")
        await story.kill_primary()
        await judge(story, kills=2)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("open_ensemble", ENSEMBLES)
async def test_primary_moves_once_when_its_server_dies_with_it(tmp_path: Path, open_ensemble: Open) -> None:
    """As when the machine dies that has both: another server must find out that the leader's session is over."""
    require_patroni()
    async with open_ensemble(tmp_path) as ensemble, open_story(ensemble, tmp_path) as story:
        await story.rest()
        await story.kill_machine_of_primary()
        await judge(story, kills=1)


async def judge(story: Story, kills: int) -> None:
    """Fail unless there was one primary at a time, which moved once per kill, and no acknowledged row is lost."""
    events = story.finish()
    acknowledged = [number for _, number in story.writer.acknowledged]
    leaders = [term.member for term in story.key.terms]

    assert overlaps(story.spans) == []
    assert len(leaders) == 1 + kills and all(former != later for former, later in pairwise(leaders)), leaders
    assert [span.name for span in story.spans] == leaders
    assert await story.timeline() == 1 + kills
    for rows in await story.rows():
        assert rows.issuperset(acknowledged)
        assert rows <= set(range(1, story.writer.tried + 1))

    title = f"{story.ensemble.name}: {len(acknowledged)} rows acknowledged, none lost; leaders {', '.join(leaders)}"
    gaps = Table(title, ["event", "longest write gap, s"], [[event.what, f"{event.gap:.2f}"] for event in events])
    click.echo("\n" + gaps.markdown())
