"""`virtuallog registrar`: registries, as they are stored. docs/howto/state.md is its manual."""

from __future__ import annotations

import click

from virtuallog_server.cli.commands.state import storage_option
from virtuallog_server.cli.common.options import json_option


@click.group()
def registrar() -> None:
    """Durable tables with one fenced owner."""


@registrar.command()
@click.argument("name")
@storage_option
@click.option("--table", metavar="TABLE", help="Only this table.")
@json_option
def show(name: str, storage: str, table: str | None, as_json: bool) -> None:
    """Print the records of a registry, a line each, and its owner.

    \b
    Example:
        virtuallog registrar show registry --storage cluster:cluster/cluster.toml --table agents
    """
    from virtuallog_server.cli.state import registrar_job as work

    work.show(storage, name, table, as_json)
