"""Options that many commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from virtuallog.client.cluster_file import ClusterFile, read_cluster_file, with_own_certificate
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import POSITION_MAX

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
POSITION: Final = click.IntRange(0, POSITION_MAX)


def _read_cluster(context: click.Context, parameter: click.Parameter, path: Path | None) -> ClusterFile:
    if path is None:
        raise click.UsageError("name the cluster: --cluster FILE, or VIRTUALLOG_CLUSTER=FILE in the environment")
    return read_own_cluster(path)


def read_own_cluster(path: Path) -> ClusterFile:
    """The cluster, with the certificate that the environment names.

    Raises:
        click.UsageError: the environment names half of one.
        InvalidSettingError: the file cannot be used.
    """
    cluster = read_cluster_file(path)
    try:
        return with_own_certificate(cluster, os.environ)
    except InvalidSettingError as error:
        raise click.UsageError(error.reason) from error


def _checked_cluster(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    _read_cluster(context, parameter, path)
    return path


def cluster_option(command: CommandT) -> CommandT:
    """`--cluster FILE`, given to the command as a ClusterFile."""
    return _cluster_option(command, _read_cluster)


def cluster_path_option(command: CommandT) -> CommandT:
    """`--cluster FILE`, given to the command as its path; it has been read once, so it can be."""
    return _cluster_option(command, _checked_cluster)


def _cluster_option(command: CommandT, callback: Callable[..., Any]) -> CommandT:
    return click.option(
        "--cluster",
        metavar="FILE",
        envvar="VIRTUALLOG_CLUSTER",
        show_envvar=True,
        type=click.Path(path_type=Path, dir_okay=False),
        callback=callback,
        help="The cluster.toml that `virtuallog up` has written.",
    )(command)


def page_option(command: CommandT) -> CommandT:
    """`--page FILE.html`: refused before the work is done if it cannot be written."""
    return click.option(
        "--page",
        type=click.Path(path_type=Path, dir_okay=False, writable=True),
        metavar="FILE.html",
        callback=_checked_page,
        help="Write all of it as a page.",
    )(command)


def _checked_page(_context: click.Context, _parameter: click.Parameter, page: Path | None) -> Path | None:
    if page is not None and not os.access(page.absolute().parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{page.absolute().parent} is no directory that can be written to")
    return page


def json_option(command: CommandT) -> CommandT:
    """`--json`, given to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


def echo_json(value: object) -> None:
    """One JSON value on one line."""
    click.echo(json.dumps(value))


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """The values of `--set name=value`, repeated.

    Raises:
        click.UsageError: one does not look like that, or names the same twice.
    """
    parsed: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--set {setting}: must be name=value")
        if name in parsed:
            raise click.UsageError(f"--set {name}: given twice")
        parsed[name] = value
    return parsed
