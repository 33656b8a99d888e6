"""The group of all commands. Those of other packages come through the entry-point group `virtuallog.commands`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from server import logging
from server.cli.append import append
from server.cli.bench import COMMANDS as BENCH
from server.cli.chain import COMMANDS as CHAIN
from server.cli.demo import COMMANDS as DEMO
from server.cli.failures import Failure, translate
from server.cli.nodes import COMMANDS as NODES
from server.cli.read import COMMANDS as READ

ENTRY_POINTS = "virtuallog.commands"


class Program(click.Group):
    """Adds commands of other packages, loaded when they are asked for, and turns errors into exit codes."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted({*super().list_commands(context), *_plugged_in()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        own = super().get_command(context, name)
        if own is not None or name not in _plugged_in():
            return own
        return _load(_plugged_in()[name])

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
            better = translate(error)
            if better is error:
                raise
            raise better from None


def _load(found: EntryPoint) -> click.Command:
    """The command; one that cannot be loaded says so when it is run, and spoils no other."""
    try:
        command = found.load()
    except (ImportError, AttributeError) as error:
        reason = f"{found.value} cannot be loaded: {error}"

        def refuse() -> None:
            raise Failure(reason)

        return click.Command(found.name, callback=refuse, short_help=reason)
    assert isinstance(command, click.Command)
    return command


def _plugged_in() -> dict[str, EntryPoint]:
    return {found.name: found for found in entry_points(group=ENTRY_POINTS)}


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="virtuallog", prog_name="virtuallog")
def main() -> None:
    """One log over interchangeable consensus protocols, swapped live.

    \b
    Start three nodes on this machine, append, and swap the loglet under the log:
        virtuallog up --nodes 3 --data /tmp/log &
        export VIRTUALLOG_CLUSTER=/tmp/log/cluster.toml
        virtuallog append "hello"
        virtuallog reconfigure --to native --set sequencer=2
        virtuallog chain

    \b
    Exit codes:
        0  done
        1  failed: doing the same again will fail again
        2  wrong usage
        3  unavailable: not enough nodes answered; what was asked for may have happened
    """
    logging.configure("warning")  # `serve` has levels of its own


for command in (*NODES, append, *READ, *CHAIN, *BENCH, *DEMO):
    main.add_command(command)
