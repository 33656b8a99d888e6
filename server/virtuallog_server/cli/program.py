"""The group of all commands. Other packages add theirs through the entry-point group `virtuallog.commands`.

A command's definition is imported when the command is called, or when all are listed; its work only when it runs.
"""

from __future__ import annotations

from copy import copy
from difflib import get_close_matches
from functools import wraps
from pkgutil import resolve_name
from typing import Any, Final

import click

from virtuallog_server.cli.common.extras import remedy
from virtuallog_server.cli.common.failures import Failure, translated
from virtuallog_server.cli.common.version import print_version

ENTRY_POINTS: Final = "virtuallog.commands"
_MODULES: Final = {
    "append": ("append",),
    "archive": ("archive",),
    "backup": ("backup", "restore"),
    "certificates": ("certificates",),
    "completion": ("completion",),
    "chain": ("chain", "reconfigure", "truncate", "seal"),
    "database": ("database",),
    "explain": ("explain",),
    "metastore": ("metastore",),
    "node": ("node",),
    "nodes": ("up", "serve", "status"),
    "paxos_log": ("paxos-log",),
    "raft_log": ("raft-log",),
    "read": ("read", "tail", "trim"),
    "registrar": ("registrar",),
    "schema": ("schema",),
    "state": ("state",),
    "upgrade": ("upgrade",),
}
"""Module of `virtuallog_server.cli.commands` -> the commands in it."""
_OWN: Final = {
    name: f"virtuallog_server.cli.commands.{module}:{name.replace('-', '_')}"
    for module, names in _MODULES.items()
    for name in names
}
"""Command -> "module:object"."""


class Program(click.Group):
    """Loads a command when it is needed, and turns errors into exit codes."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Names of all commands, also of other packages."""
        return sorted({*_OWN, *_plugged_in()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of this name. None if there is none."""
        found = _OWN.get(name) or _plugged_in().get(name)
        return with_log(load(name, found)) if found else None

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names. For a typing error the message has the closest name."""
        name = words[0]
        close = get_close_matches(name, self.list_commands(context), 1)
        if close and close != [name] and not name.startswith("-"):
            context.fail(f"No such command '{name}'; did you mean '{close[0]}'?")
        return super().resolve_command(context, words)

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Parse the arguments."""
        with translated():
            return super().make_context(*arguments, **extra)

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        with translated():
            return super().invoke(context)


def load(name: str, place: str) -> click.Command:
    """Import the command at `place`, "module:object".

    If that fails, return one that prints the reason when it runs, so that the others still work.
    """
    try:
        command = resolve_name(place)
    except (ImportError, AttributeError) as error:
        return refusing(name, remedy(error) or f"{place} cannot be loaded: {error}")
    assert isinstance(command, click.Command)
    return command


def with_log(command: click.Command) -> click.Command:
    """A copy of a command that sends warnings to stderr while it runs. `--help` does not import the library for that."""
    made = copy(command)
    if isinstance(command, click.Group):
        find = command.get_command
        setattr(made, "get_command", lambda context, name: (found := find(context, name)) and with_log(found))  # noqa: B010
    elif command.callback is not None:
        made.callback = _after_log_setup(command.callback)
    return made


def _after_log_setup(callback: Any) -> Any:
    @wraps(callback)
    def run(*arguments: Any, **options: Any) -> Any:
        from virtuallog_server.process import log_output

        log_output.configure("warning")  # `serve` sets levels of its own
        return callback(*arguments, **options)

    return run


def refusing(name: str, reason: str) -> click.Command:
    """A command that takes any options and fails with this reason."""

    def refuse() -> None:
        raise Failure(reason)

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=refuse, short_help=reason, context_settings=anything)


def _plugged_in() -> dict[str, str]:
    """Commands of other packages, and ours that are entry points: name -> "module:object"."""
    from importlib.metadata import entry_points

    return {found.name: f"{found.module}:{found.attr}" for found in entry_points(group=ENTRY_POINTS)}


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version, and the versions of the protocol and of all formats.",
)
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
        1  failed: the same command will fail again
        2  wrong usage
        3  unavailable: not enough nodes answered; the request may have been carried out
      130  ended by Ctrl-C or SIGTERM
    """
