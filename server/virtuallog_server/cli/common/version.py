"""`virtuallog --version`: the program, what it speaks, and what it writes."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version

import click


def print_version(context: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    """Print it and exit, if the option was given."""
    if not asked or context.resilient_parsing:
        return
    for line in lines():
        click.echo(line)
    context.exit()


def lines() -> Iterator[str]:
    """The first line is for scripts, and has the version alone. docs/reference/formats.md tells of each format."""
    from virtuallog.contract import batch, register
    from virtuallog.contract.versions import Versions
    from virtuallog_database.engines.core import entry
    from virtuallog_loglets.archive.core import manifest
    from virtuallog_loglets.wal.core import segment_format
    from virtuallog_server.storage import identity

    yield f"virtuallog {version('virtuallog')}"
    spoken = Versions()
    yield f"protocol: {spoken.first} to {spoken.last}"
    yield (
        f"formats: data directory {identity.VERSION}, register {register.FORMAT_GUARDED}, write-ahead log {segment_format.VERSION}, "
        f"batch {batch.VERSION}, database {entry.VERSION}, archive {manifest.VERSION}"
    )
    libraries = ", ".join(f"{name} {version(name)}" for name in ("trio", "pycapnp", "rocksdict"))
    yield f"runs on: Python {platform.python_version()}, {libraries}"
