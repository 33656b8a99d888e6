"""The config file of a node, `node.toml`: its text, and what options of `up` and `serve` add to it.

A node that is started with `--zookeeper`, `--console`, `--probes` or `--restored` has that in its file from then on, so `virtuallog serve
--config FILE` starts it again as it was. The file holds: an option that it does not have is inserted, and an option that
contradicts it is refused. Nothing that stands in the file is changed or removed; it may have been edited by hand.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.runtime.disk import sync_names
from virtuallog.runtime.file_errors import file_errors
from virtuallog.runtime.toml import FieldError, KeyPath, Override, locate, spell, spell_value
from virtuallog_server.config.node_config import NodeConfig, read_node_config
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings

_SHOWN: Final = ("listen", "metastore", "roles", "loglet")
"""Options that an operator looks for first. They are written even at their default."""
_PLAIN: Final = ("console", "probes", "origin")
"""Options of `up` and `serve` that are fields of the config under the same name."""
_OPTION_KEYS: Final = frozenset({*((name,) for name in _PLAIN), ("zookeeper", "listen")})
"""Keys in the file of all fields of `StartOptions`."""


@attrs.frozen(kw_only=True)
class StartOptions:
    """Options of `up` and `serve` that are part of a node's config. Empty if not given."""

    console: str = ""
    probes: str = ""
    zookeeper: str = ""
    """host:port: the value of `listen` in the section `[zookeeper]`."""
    origin: str = ""

    def over(self, config: NodeConfig) -> NodeConfig:
        """Return the config with these options in place of its own.

        Raises:
            FieldError: an option has no valid value; its path names the option.
        """
        for name in _PLAIN:
            if getattr(self, name):
                config = attrs.evolve(config, **{name: getattr(self, name)})
        if self.zookeeper:
            try:
                section = attrs.evolve(config.zookeeper or ZooKeeperSettings(), listen=self.zookeeper)
            except FieldError as error:
                raise FieldError(str(error), "zookeeper") from error
            config = attrs.evolve(config, zookeeper=section)
        return config


@attrs.frozen(kw_only=True)
class Amended:
    """A config file, and the options that `write` adds to it."""

    path: Path
    config: NodeConfig
    """The config that the written file will give."""
    added: tuple[str, ...] = ()
    """TOML keys that `write` inserts. Empty if the file has them all."""
    _text: str = ""

    def write(self) -> None:
        """Insert the options in one step. The file is durable on return.

        Raises:
            StorageError: the file cannot be written.
        """
        if self.added:
            with file_errors(self.path):
                _replace(self.path.resolve(), self._text)

    def __str__(self) -> str:
        """A sentence for the operator, after `write`."""
        return f"{self.path} has {', '.join(self.added)} now"


def spell_config(config: NodeConfig) -> str:
    """The text of a config file in the data directory that reads back as this config."""
    return spell(attrs.evolve(config, data=Path()), _SHOWN)


def amend(path: Path, options: StartOptions, overrides: Mapping[KeyPath, Override] | None = None) -> Amended:
    """Read the config file `path`, and add the options. Nothing is written yet.

    Args:
        path: the file.
        options: they go before everything else, and are compared with the file alone.
        overrides: values of the environment. They go before the file, and are never written.

    Raises:
        InvalidSettingError: the file or an override cannot be used, or the file contradicts an option.
        FieldError: an option has no valid value.
    """
    overrides = overrides or {}
    held = read_node_config(path, {keys: each for keys, each in overrides.items() if keys not in _OPTION_KEYS})
    config = options.over(read_node_config(path, overrides))
    text = path.read_text(encoding="utf-8")
    top, end, added = "", "", []
    for name in _PLAIN:
        wanted = getattr(options, name)
        if wanted and wanted != getattr(held, name):
            _check_free(path, text, (name,), getattr(held, name), wanted)
            top += f"{name} = {spell_value(wanted)}\n"
            added.append(name)
    if options.zookeeper:
        if held.zookeeper is None or "zookeeper" not in tomllib.loads(text):
            end = f"\n[zookeeper]\nlisten = {spell_value(options.zookeeper)}\n"
            added.append("[zookeeper]")
        elif held.zookeeper.listen != options.zookeeper:
            _check_free(path, text, ("zookeeper", "listen"), held.zookeeper.listen or "off", options.zookeeper)
    gap = "" if not end or text.endswith("\n") else "\n"
    return Amended(path=path, config=config, added=tuple(added), text=f"{top}{text}{gap}{end}")


def _check_free(path: Path, text: str, keys: tuple[str, ...], held: str, wanted: str) -> None:
    if held:
        reason = f"is {held} there, not {wanted}. The file holds: change it there, or leave the option out"
        raise InvalidSettingError(f"{path}:{locate(text, keys)}: {'.'.join(keys)}", reason)


def _replace(path: Path, text: str) -> None:
    """Replace the file in one step, and keep its permissions: there may be passwords in it."""
    new = path.with_name(f"{path.name}.new")
    mode = path.stat().st_mode & 0o777
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_names(path.parent)
