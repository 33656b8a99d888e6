"""The manual page virtuallog(1), for `man`: what `--help` of all commands prints, in the order that readers of manual pages expect."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

import click

from docs._generate.cli import context_of
from virtuallog_server.cli.program import main

HEAD: Final = '.\\" Written by `python -m docs._generate`; change the code instead.\n.TH VIRTUALLOG 1 "" "virtuallog" "User Commands"\n'
ENVIRONMENT: Final = {
    "VIRTUALLOG_CLUSTER": "The cluster file, for all commands that take --cluster.",
    "VIRTUALLOG_CERTIFICATE, VIRTUALLOG_KEY, VIRTUALLOG_AUTHORITY": "Certificate, key and authority of the caller, in the place of those that "
    "the cluster file names.",
    "NO_COLOR": "If set, and not empty, tables and progress bars have no colours.",
}


def page() -> str:
    """The page in roff."""
    return HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (".SH NAME", r"virtuallog \- " + _text((main.help or "").splitlines()[0].rstrip(".")))
    yield from (".SH SYNOPSIS", ".B virtuallog", r".I COMMAND", "[OPTIONS] [ARGS]")
    yield ".SH DESCRIPTION"
    yield from _prose(main.help or "", after=1)
    yield ".SH COMMANDS"
    yield from _commands(main, context_of(main, "virtuallog", None))
    yield ".SH ENVIRONMENT"
    for name, meaning in ENVIRONMENT.items():
        yield from (".TP", f".B {_text(name)}", _text(meaning))
    yield from (".SH SEE ALSO", "The documentation that comes with the source: README.md and docs/.")


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = context_of(command, name, context)
        yield f".SS {_text(inner.command_path)}"
        yield _text(" ".join([inner.command_path, *command.collect_usage_pieces(inner)]))
        yield from _prose(command.help or "")
        for option in command.get_params(inner):
            if isinstance(option, click.Option) and (record := option.get_help_record(inner)) is not None:
                yield from (".TP", f".B {_text(record[0])}", _text(record[1]))
        if isinstance(command, click.Group):
            yield from _commands(command, inner)


def _prose(help_text: str, after: int = 0) -> Iterator[str]:
    """Paragraphs; those that click does not wrap, behind a `\\b`, as they are."""
    lines = inspect.cleandoc(help_text).splitlines()[after:]
    for paragraph in "\n".join(lines).strip("\n").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield from (".PP", ".nf", *map(_text, paragraph.removeprefix("\b\n").splitlines()), ".fi")
        else:
            yield from (".PP", _text(" ".join(paragraph.split())))


def _text(text: str) -> str:
    """Text without a meaning to roff."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return r"\&" + escaped if escaped.startswith((".", " ")) else escaped
