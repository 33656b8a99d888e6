"""`virtuallog completion`."""

from __future__ import annotations

from typing import Final

import click

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_VIRTUALLOG_COMPLETE"
"""Variable that a script sets when it asks the program; click's convention."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options, files, and the names of loglets. A package that installs the files below `share/` itself, such as one of a
    distribution, needs none of this.

    \b
    Examples:
        virtuallog completion bash > ~/.local/share/bash-completion/completions/virtuallog
        virtuallog completion zsh > ~/.zfunc/_virtuallog          # with ~/.zfunc in fpath, before compinit
        virtuallog completion fish > ~/.config/fish/completions/virtuallog.fish
    """
    click.echo(script(shell))


def script(shell: str) -> str:
    """The script, as click writes it. It asks the program what to offer."""
    from click.shell_completion import get_completion_class

    from virtuallog_server.cli.program import main

    found = get_completion_class(shell)
    assert found is not None
    completer = found(main, {}, "virtuallog", VARIABLE)
    return completer.source_template % completer.source_vars()
