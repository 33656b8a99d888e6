"""`virtuallog spark ...`: jobs over the log that run on Spark. Each command is a module of
`pyspark_virtuallog.commands`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Final

import click

from pyspark_virtuallog import commands
from virtuallog_server.cli.program import load, refusing

_NAMES: Final = tuple(sorted(module.name for module in iter_modules(commands.__path__)))
_PACKAGES: Final = ("pyspark", "pandas", "pyarrow", "fsspec", "numpy")
"""Packages of the extra `[spark]`."""


class Jobs(click.Group):
    """Loads a command when it is called: PySpark is slow to import, and may be missing. A failure
    of Spark is reported in one line."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_NAMES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _NAMES:
            return None
        if missing := [package for package in _PACKAGES if find_spec(package) is None]:
            return refusing(name, f"needs {', '.join(missing)}: pip install 'virtuallog[spark]'")
        return load(name, f"{commands.__name__}.{name}:{name}")

    def invoke(self, context: click.Context) -> Any:
        try:
            with _ended_by_sigterm():
                return super().invoke(context)
        except click.exceptions.Exit:
            raise
        except Exception:
            from pyspark_virtuallog.spark_errors import explained  # not for --help

            with explained():
                raise


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: Spark is stopped, and work files are removed. By default the
    process would be gone at once."""
    before = signal.getsignal(signal.SIGTERM)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise Ctrl-C is ignored
        _on_sigterm(lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        _on_sigterm(before)


def _on_sigterm(handler: Any) -> None:
    with suppress(ValueError):  # not in the main thread, which never happens for a command of a user
        signal.signal(signal.SIGTERM, handler)


@click.group(cls=Jobs)
def spark() -> None:
    """Jobs over the log that run on Spark; they need the extra `virtuallog[spark]` and Java 17 or newer."""
