"""The work of `virtuallog serve`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
import click

from virtuallog.contract.errors import StorageError
from virtuallog.runtime import log
from virtuallog.runtime.toml import FieldError
from virtuallog_server.config.config_file import Amended, StartOptions, amend
from virtuallog_server.config.node_config import NodeConfig, parse_peers
from virtuallog_server.process import process


def serve_file(config_file: Path, options: StartOptions, end_with_parent: bool) -> None:
    """Run the node of a config file until a signal ends it. Options that the file lacks are written into it."""
    with _options_named():
        amended = amend(config_file, options)
        process.serve(amended.config, end_with_parent=end_with_parent, started=partial(_write, amended))


def serve_options(
    node: int | None, data: Path | None, peers: str | None, options: StartOptions, end_with_parent: bool
) -> None:
    """Run the node that the options describe until a signal ends it."""
    with _options_named():
        process.serve(options.over(_config_of_options(node, data, peers)), end_with_parent=end_with_parent)


@contextmanager
def _options_named() -> Iterator[None]:
    """Turn the error of a config field into wrong usage of the option with its name."""
    try:
        yield
    except FieldError as error:
        raise click.UsageError(f"--{error.path[0]}: {error}") from error


def _write(amended: Amended) -> None:
    """Write added options into the config file. If that fails, the node starts all the same."""
    if not amended.added:
        return
    file, added = str(amended.path), ", ".join(amended.added)
    try:
        amended.write()
    except StorageError as error:
        log.warning(
            "put these options into the config file: a start without them loses them",
            file=file,
            options=added,
            reason=str(error),
        )
    else:
        log.warning("options written into the config file", file=file, options=added)


def _config_of_options(node: int | None, data: Path | None, peers: str | None) -> NodeConfig:
    if node is None or data is None:
        raise click.UsageError("needs --config FILE, or --id and --data")
    try:
        listed = parse_peers(peers) if peers is not None else ()
        mine = [peer.address for peer in listed if peer.id == node]
        config = NodeConfig(id=node, data=data, peers=listed)
        return attrs.evolve(config, listen=mine[0]) if mine else config
    except FieldError as error:
        raise click.UsageError(f"{' '.join(str(part) for part in error.path)}: {error}") from error
