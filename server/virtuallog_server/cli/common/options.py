"""Options that many commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from virtuallog_server.cli.common.limits import GRACE_SECONDS, POSITION_MAX

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
POSITION: Final = click.IntRange(0, POSITION_MAX)
GRACE_SECONDS_MAX: Final = 10 * 365 * 86_400.0
"""Longest grace period. Its end must fit into the config of a loglet, and into a clock."""


def cluster_option(command: CommandT) -> CommandT:
    """`--cluster FILE`, given to the command as a ClusterFile."""
    return _cluster_option(command, _read_cluster)


def cluster_path_option(command: CommandT) -> CommandT:
    """`--cluster FILE`, given to the command as a path. The file has been read once, so it is valid."""
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


def _checked_cluster(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    _read_cluster(context, parameter, path)
    return path


def _read_cluster(context: click.Context, parameter: click.Parameter, path: Path | None) -> ClusterFile:
    if path is None:
        raise click.UsageError("name the cluster: --cluster FILE, or VIRTUALLOG_CLUSTER=FILE in the environment")
    return read_own_cluster(path)


def read_own_cluster(path: Path) -> ClusterFile:
    """Read a cluster file, and add the certificate that the environment names.

    Raises:
        click.UsageError: the environment names only half of a certificate.
        InvalidSettingError: the file cannot be used.
    """
    from virtuallog.client.cluster_file import read_cluster_file, with_own_certificate
    from virtuallog.contract.errors import InvalidSettingError

    cluster = read_cluster_file(path)
    try:
        return with_own_certificate(cluster, os.environ)
    except InvalidSettingError as error:
        raise click.UsageError(error.reason) from error


def complete_kinds(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Names of installed kinds of loglets that begin so, without their code."""
    from importlib.metadata import entry_points

    return sorted(kind.name for kind in entry_points(group="virtuallog.loglets") if kind.name.startswith(typed))


def restored_option(command: CommandT) -> CommandT:
    """`--restored DIR|URL`, given to the command as `origin`, an absolute URL. Empty without the option."""
    return click.option(
        "--restored",
        "origin",
        metavar="DIR|URL",
        default="",
        callback=_absolute_url,
        help="Begin a new cluster with what `virtuallog restore` has written there.",
    )(command)


def _absolute_url(_context: click.Context, _parameter: click.Parameter, place: str) -> str:
    if not place:
        return ""
    from virtuallog_loglets.archive.drivers.fsspec_files import absolute_url

    return absolute_url(place)


def grace_option(command: CommandT) -> CommandT:
    """`--grace SECONDS`."""
    return click.option(
        "--grace",
        type=float,
        callback=_checked_grace,
        default=GRACE_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="How long nodes keep their copies.",
    )(command)


def _checked_grace(_context: click.Context, _parameter: click.Parameter, seconds: float) -> float:
    # The ranges of click accept nan.
    if not 0 <= seconds <= GRACE_SECONDS_MAX:
        raise click.BadParameter(f"{seconds:g} is not from 0 to {GRACE_SECONDS_MAX:g} seconds, ten years")
    return seconds


def page_option(command: CommandT) -> CommandT:
    """`--page FILE.html`. A file that cannot be written is refused before the command begins its work."""
    return click.option(
        "--page",
        type=click.Path(path_type=Path, dir_okay=False, writable=True),
        metavar="FILE.html",
        callback=_checked_page,
        help="Write the whole report as an HTML page.",
    )(command)


def _checked_page(_context: click.Context, _parameter: click.Parameter, page: Path | None) -> Path | None:
    if page is not None and not os.access(page.absolute().parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{page.absolute().parent} is no directory that can be written to")
    return page


def json_option(command: CommandT) -> CommandT:
    """`--json`, given to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


def parse_moment(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int | None, int | None]:
    """Callback of an option: a position, or a time in milliseconds; both None without the option."""
    if text is None:
        return None, None
    if text.isascii() and text.isdigit() and int(text) <= POSITION_MAX:
        return int(text), None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is neither a position nor a time such as 2026-11-22T12:00:00Z") from None
    return None, int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def echo_json(value: object) -> None:
    """Print one JSON value on one line."""
    click.echo(json.dumps(value))


def printable(text: str) -> str:
    """Text for a terminal: control characters, line separators and lone surrogates escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """Parse the values of `--set name=value`, repeated.

    Raises:
        click.UsageError: a value is not name=value, or names a setting for the second time.
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
