"""`virtuallog state`: named values with versions. docs/howto/state.md is its manual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, TextIO, TypeVar

import click

from virtuallog_server.cli.common.options import json_option

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def storage_option(command: CommandT) -> CommandT:
    """`--storage LOCATION`."""
    return click.option(
        "--storage", required=True, metavar="LOCATION", envvar="VIRTUALLOG_STATE", show_envvar=True,
        help="cluster:FILE, rocks:DIR, zookeeper:HOST:PORT/ROOT, or paxos-log:DIR?quorum=N.",
    )(command)  # fmt: skip


def _version_option(command: CommandT) -> CommandT:
    return click.option(
        "--version", "expected", metavar="HEX", help="Only if it has this version.  [default: its present one]"
    )(command)  # fmt: skip


@click.group()
def state() -> None:
    """Named values with versions, on exchangeable storages."""


@state.command()
@storage_option
@json_option
def names(storage: str, as_json: bool) -> None:
    """Print the names of all variables."""
    from virtuallog_server.cli.state import state_job as work

    work.names(storage, as_json)


@state.command()
@click.argument("name")
@storage_option
@json_option
def get(name: str, storage: str, as_json: bool) -> None:
    """Print the value of a variable, as it is.

    \b
    Example:
        virtuallog state get config --storage cluster:cluster/cluster.toml
    """
    from virtuallog_server.cli.state import state_job as work

    work.get(storage, name, as_json)


@state.command(name="set")
@click.argument("name")
@click.argument("value", required=False)
@click.option("--file", type=click.File("rb"), help="Read the value from a file, or - for standard input.")
@storage_option
@_version_option
@json_option
def set_(name: str, value: str | None, file: Any, storage: str, expected: str | None, as_json: bool) -> None:
    """Store a value, and print its version.

    \b
    Example:
        virtuallog state set config hello --storage rocks:data
    """
    from virtuallog_server.cli.state import state_job as work

    work.store(storage, name, work.value_of(value, file), expected, as_json)


@state.command()
@click.argument("name")
@storage_option
@_version_option
def expunge(name: str, storage: str, expected: str | None) -> None:
    """Remove a variable."""
    from virtuallog_server.cli.state import state_job as work

    work.expunge(storage, name, expected)


@state.command()
@storage_option
@click.option("--out", type=click.File("w"), default="-", help="File to write.  [default: standard output]")
def dump(storage: str, out: TextIO) -> None:
    """Write all variables as JSON, a line each, for `restore`."""
    from virtuallog_server.cli.state import state_job as work

    work.dump(storage, out)


@state.command()
@storage_option
@click.argument("file", type=click.File("rb"))
@click.option("--replace", is_flag=True, help="Replace variables that exist; they are an error otherwise.")
def restore(storage: str, file: BinaryIO, replace: bool) -> None:
    """Store the variables of a dump. Lines before a bad one are stored."""
    from virtuallog_server.cli.state import state_job as work

    work.restore(storage, file, replace)


@state.command()
@click.argument("source")
@click.argument("target")
@click.option("--replace", is_flag=True, help="Replace variables that exist; they are an error otherwise.")
def copy(source: str, target: str, replace: bool) -> None:
    """Copy all variables from one storage to another. They get new versions.

    \b
    Example:
        virtuallog state copy zookeeper:localhost:2181/state cluster:cluster/cluster.toml
    """
    from virtuallog_server.cli.state import state_job as work

    work.copy(source, target, replace)
