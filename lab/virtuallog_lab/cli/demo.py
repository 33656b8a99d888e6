"""`virtuallog demo`. `demo_job.py` does the work, and is imported when the command runs."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.png",
    help="Draw a picture as well; needs the extra virtuallog[lab].",
)
@click.option(
    "--page",
    default=Path("virtuallog-demo.html"),
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the page: all results of the demo, in one HTML file.",
)
@click.option("--phase", default=2.0, show_default=True, type=click.FloatRange(0.2, 60), help="Seconds between steps.")
def demo(picture: Path | None, page: Path, phase: float) -> None:
    """Swap everything under a log that is in use, and check that no client noticed.

    Starts three nodes and three log servers on this machine, runs a workload in which every entry is numbered, moves the log
    live through every kind of loglet that needs no other server, puts old segments into Parquet files, trims, kills the node
    that orders appends, and leaves it to the cluster to go on. Then reads everything and compares: exit code 0 means that
    each entry is in the log once, in order, where its writer was told.

    \b
    Example:
        virtuallog demo --page /tmp/demo.html --picture /tmp/demo.png
    """
    from virtuallog_lab.cli import demo_job

    demo_job.run(picture, page, phase)
