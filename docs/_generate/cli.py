"""The page of all commands: what `--help` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from docs._generate.source import WRITTEN
from virtuallog_server.cli.program import main

HEAD: Final = """# Command line

All commands are below `virtuallog`. `virtuallog COMMAND --help` prints the same as this page.
`VIRTUALLOG_CLUSTER` names the `cluster.toml` for all of them.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed: the same command will fail again |
| 2 | wrong usage; nothing was started |
| 3 | unavailable: not enough nodes answered. The request may have been carried out |
| 130 | ended by Ctrl-C or SIGTERM |

The reason of a failure is one line on stderr, and says what to do about it where that is known. Tables and progress bars have no colours if
`NO_COLOR` is set, or if the output is no terminal. `virtuallog completion SHELL` prints the completion script of bash, zsh or fish; it and a manual
page, `man virtuallog`, are files below `share/` of the wheel, so `pipx install` puts the manual page in place.

"""


def page() -> str:
    """All commands, each with its help."""
    return WRITTEN + HEAD + "\n".join(_sections(main, context_of(main, "virtuallog", None)))


def context_of(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """A context with the command's own settings, as if it had been run on a terminal wide enough."""
    settings: dict[str, Any] = dict(command.context_settings)
    width = settings.get("max_content_width") or (parent and parent.max_content_width)
    return command.context_class(command, info_name=name, parent=parent, **settings | {"terminal_width": width})


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"## {context.command_path}\n\n```text\n{text}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _sections(inner, context_of(inner, name, context))
