"""The work of `virtuallog serve`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
import click

from virtuallog.contract.errors import InvalidSettingError, StorageError
from virtuallog.runtime import log
from virtuallog.runtime.toml import FieldError, Override
from virtuallog_server.config.config_file import Amended, StartOptions, amend
from virtuallog_server.config.environment import overrides
from virtuallog_server.config.node_config import NodeConfig, node_config_of, parse_peers
from virtuallog_server.process import process


def serve_file(config_file: Path, options: StartOptions, end_with_parent: bool) -> None:
    """Run the node of a config file until a signal ends it. Options that the file lacks are written into it."""
    with _options_named():
        amended = amend(config_file, options, overrides(os.environ))
        process.serve(amended.config, end_with_parent=end_with_parent, started=partial(_write, amended))


def serve_options(
    node: int | None, data: str | None, peers: str | None, options: StartOptions, end_with_parent: bool
) -> None:
    """Run the node that the options and the environment describe until a signal ends it."""
    with _options_named():
        config = options.over(_config_of_options(node, data, peers))
        process.serve(config, end_with_parent=end_with_parent)


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


def _config_of_options(node: int | None, data: str | None, peers: str | None) -> NodeConfig:
    found = dict(overrides(os.environ))
    if node is not None:
        found["id",] = Override(source="--id", value=node)
    if data is not None:
        found["data",] = Override(source="--data", value=data)
    if peers is not None:
        try:
            found["peer",] = Override(source="--peers", value=[attrs.asdict(peer) for peer in parse_peers(peers)])
        except FieldError as error:
            raise click.UsageError(f"--peers: {error}") from error
    if ("id",) not in found or ("data",) not in found:
        raise click.UsageError("needs --config FILE, or --id and --data, or their variables VIRTUALLOG_SERVE_...")
    try:
        return node_config_of(found)
    except InvalidSettingError as error:
        if error.where.startswith("--"):
            raise click.UsageError(f"{error.where}: {error.reason}") from error
        raise
