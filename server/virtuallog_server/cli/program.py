"""The group of all commands. Those of other packages come through the entry-point group `virtuallog.commands`.

A command's module is imported when the command is called, or when all are listed: what one command needs, others shall
not wait for.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import click

from virtuallog_server.cli.common.extras import remedy
from virtuallog_server.cli.common.failures import Failure, translated

ENTRY_POINTS: Final = "virtuallog.commands"
_MODULES: Final = {
    "archive.archive": ("archive",),
    "cluster.certificates": ("certificates",),
    "cluster.database": ("database",),
    "cluster.explain": ("explain",),
    "cluster.membership": ("node",),
    "cluster.metastore": ("metastore",),
    "cluster.nodes": ("up", "serve", "status"),
    "log.append": ("append",),
    "log.chain": ("chain", "reconfigure", "truncate", "seal"),
    "log.read": ("read", "tail", "trim"),
    "paxos_log.paxos_log": ("paxos-log",),
}
"""Module of this package -> the commands in it."""
_OWN: Final = {
    name: EntryPoint(name, f"virtuallog_server.cli.{module}:{name.replace('-', '_')}", ENTRY_POINTS)
    for module, names in _MODULES.items()
    for name in names
}


class Program(click.Group):
    """Loads commands when they are asked for, and turns errors into exit codes."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted({*_OWN, *_plugged_in()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        found = _OWN.get(name) or _plugged_in().get(name)
        return load(found) if found else None

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with translated():
            return super().make_context(*arguments, **extra)

    def invoke(self, context: click.Context) -> Any:
        with translated():
            return super().invoke(context)


def load(found: EntryPoint) -> click.Command:
    """The command; one that cannot be loaded says so when it is run, and spoils no other."""
    try:
        command = found.load()
    except (ImportError, AttributeError) as error:
        return refusing(found.name, remedy(error) or f"{found.value} cannot be loaded: {error}")
    assert isinstance(command, click.Command)
    return command


def refusing(name: str, reason: str) -> click.Command:
    """A command that fails with this reason, whatever options it is given."""

    def refuse() -> None:
        raise Failure(reason)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=refuse, short_help=reason, context_settings=anything)


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
    from virtuallog_server.process import log_output

    log_output.configure("warning")  # `serve` has levels of its own
