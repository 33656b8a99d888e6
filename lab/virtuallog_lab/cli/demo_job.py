"""The work of `virtuallog demo`: runs the demonstration, writes the page and the picture, prints the verdict."""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path

import click
import trio
from rich.console import Console

from virtuallog.plugins import loglet_providers
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.demo.demonstration import LOG_NODES, NODES, Demonstration, DemoOutcome
from virtuallog_lab.demo.page import RIGHT, demo_page
from virtuallog_lab.harness.machine import Machine
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.local_cluster.supervisor import open_local_cluster
from virtuallog_server.process.process import SWITCH_SECONDS
from virtuallog_server.report import made_now, this_command, write


def run(picture: Path | None, page: Path, phase: float) -> None:
    """Run the demonstration; write the page, and the picture unless None.

    Raises:
        Failure: the log is wrong.
        ModuleNotFoundError: the picture needs a module that is not installed. Raised before anything is started.
    """
    if picture is not None:
        import_module("matplotlib")  # only pictures need it; not after a demo that has run in vain
    sys.setswitchinterval(SWITCH_SECONDS)
    machine = Machine.look()
    outcome = trio.run(_run, phase)
    write(demo_page(outcome, loglet_providers(), machine, this_command(), made_now()), page)
    click.echo(f"page: {page}")
    if picture is not None:
        from virtuallog_lab.demo.picture import draw

        draw(outcome, picture)
        click.echo(f"picture: {picture}")
    _give_verdict(outcome)


async def _run(phase: float) -> DemoOutcome:
    with tempfile.TemporaryDirectory(prefix="virtuallog-demo-") as folder:
        click.echo("starting three nodes and three log servers")
        async with open_local_cluster(Path(folder), NODES, LOG_NODES, base_port=0) as cluster:
            await cluster.wait_ready()
            cluster.write_file()
            story = Demonstration(cluster, click.echo, phase)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_show_progress, story)
                outcome = await story.run()
                nursery.cancel_scope.cancel()
            return outcome


async def _show_progress(story: Demonstration) -> None:
    """A counter on stderr, if that is a terminal."""
    console, clock = Console(stderr=True), SystemClock()
    if not console.is_terminal:
        return
    with console.status("") as status:
        while True:
            status.update(f"{story.workload.acknowledged:,} entries acknowledged")
            await clock.sleep(0.1)


def _give_verdict(outcome: DemoOutcome) -> None:
    verdict, slowest = outcome.verdict, outcome.workload.slowest_seconds
    click.echo(
        f"{outcome.workload.acknowledged:,} entries acknowledged, {verdict.entries:,} in the log; "
        f"the slowest append took {slowest:.2f} s"
    )
    for problem in verdict.problems:
        click.echo(f"    {problem}", err=True)
    if verdict.problems:
        raise Failure("the log is wrong: see above")
    click.echo(f"verdict: {RIGHT.lower()}")
