"""`virtuallog spark ...`: jobs over the log that run on Spark. Each command is a module of `pyspark_virtuallog.commands`."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pkgutil import iter_modules
from typing import Any, Final

import click

from pyspark_virtuallog import commands
from pyspark_virtuallog.spark_errors import explained
from server.cli.program import ENTRY_POINTS, load

_NAMES: Final = tuple(sorted(module.name for module in iter_modules(commands.__path__)))


class Jobs(click.Group):
    """Loads a command when it is asked for: PySpark takes its time, and may be missing. What Spark says of a failure becomes one
    line."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_NAMES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _NAMES:
            return None
        return load(EntryPoint(name, f"{commands.__name__}.{name}:{name}", ENTRY_POINTS))

    def invoke(self, context: click.Context) -> Any:
        with explained():
            return super().invoke(context)


@click.group(cls=Jobs)
def spark() -> None:
    """Jobs over the log that run on Spark; they need the extra `virtuallog[spark]` and Java 17 or newer."""
