"""The page of all commands: what `--help` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from docs._generate.source import WRITTEN
from virtuallog_server.cli.program import main

WIDTH: Final = 100
HEAD: Final = """# Command line

All commands are below `virtuallog`. `virtuallog COMMAND --help` prints the same as this page.
`VIRTUALLOG_CLUSTER` names the `cluster.toml` for all of them.

"""


def page() -> str:
    """All commands, each with its help."""
    return (
        WRITTEN
        + HEAD
        + "\n".join(
            _sections(main, click.Context(main, info_name="virtuallog", terminal_width=WIDTH, max_content_width=WIDTH))
        )
    )


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"## {context.command_path}\n\n```text\n{text}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _sections(
                    inner,
                    click.Context(inner, info_name=name, parent=context, terminal_width=WIDTH, max_content_width=WIDTH),
                )
