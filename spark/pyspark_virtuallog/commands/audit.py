"""`virtuallog spark audit`: reads a log with Spark, and says what is wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from pyspark_virtuallog.command_line import spark_options
from virtuallog_server.cli.common.failures import FAILED
from virtuallog_server.cli.common.options import POSITION, cluster_path_option, echo_json, json_option, page_option
from virtuallog_server.cli.common.progress_bar import progress_bar


@click.command()
@click.option("--start", type=POSITION, help="Where to begin.  [default: the first position that is not trimmed]")
@click.option("--stop", type=POSITION, help="Where to end, exclusively.  [default: the tail]")
@click.option(
    "--top", type=click.IntRange(1, 100), default=10, show_default=True, help="How many prefixes of keys are told."
)
@click.option(
    "--depth", type=click.IntRange(1, 16), default=1, show_default=True, help="Components of a path in a prefix."
)
@page_option
@spark_options
@cluster_path_option
@json_option
def audit(
    cluster: Path,
    start: int | None,
    stop: int | None,
    top: int,
    depth: int,
    page: Path | None,
    master: str,
    configuration: dict[str, str],
    as_json: bool,
) -> None:
    """Read the log, and check that it keeps its promises. Nothing is changed.

    Checks that every position is there once; that each session's entries are in order, none doubled, none missing, across all
    segments; that segments lie and end where the chain says; that replicas of a database report equal states; and that markers of
    Spark's sink name existing entries. Shows what was written when, by which session, and to which keys. Ends with exit code 1 if
    the log is wrong anywhere.

    \b
    Examples:
        virtuallog spark audit --page audit.html
        virtuallog spark audit --start 1000000 --master spark://host:7077 --json
    """
    if start is not None and stop is not None and start > stop:
        raise click.UsageError(f"--start {start} is behind --stop {stop}")
    from pyspark_virtuallog.audit.core.summary import summary
    from pyspark_virtuallog.audit.job import AuditSettings
    from pyspark_virtuallog.audit.job import audit as run
    from pyspark_virtuallog.session import open_session

    settings = AuditSettings(start=start, stop=stop, prefixes_max=top, depth=depth)
    with open_session("virtuallog audit", master=master, configuration=configuration) as spark, _told() as tell:
        findings = run(spark, cluster, settings, tell)
    if as_json:
        echo_json(findings.plain())
    else:
        click.echo("\n".join(summary(findings)))
    if page is not None:
        from pyspark_virtuallog.audit.page import audit_page
        from virtuallog_server.report import made_now, this_command, write

        write(audit_page(findings, this_command(), made_now()), page)
    if findings.violations:
        raise click.exceptions.Exit(FAILED)


@contextmanager
def _told() -> Iterator[Callable[[str], None]]:
    """Shows the current step if a terminal is attached."""
    with progress_bar() as bar:
        if bar is None:
            yield lambda what: None
        else:
            task = bar.add_task("", total=None)
            yield lambda what: bar.update(task, description=what)
