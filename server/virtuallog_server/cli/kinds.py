"""Help that tells which kinds of loglets are installed, and what can be set. Kinds are loaded only when somebody reads it."""

from __future__ import annotations

import click

from virtuallog.planning import TellsSettings
from virtuallog.plugins import loglet_providers


class WithKinds(click.Command):
    """A command whose help ends with the kinds of loglets, each with what `--set` takes."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for kind, provider in sorted(loglet_providers().items()):
            if isinstance(provider, TellsSettings):
                with formatter.section(f"--to {kind}, with --set"):
                    formatter.write_dl([(f"{name}=", meaning) for name, meaning in provider.settings.items()])
