"""Settings of a node in environment variables: each option of `node.toml` has one.

    listen               VIRTUALLOG_SERVE_LISTEN
    [[peer]]             VIRTUALLOG_SERVE_PEERS          like `--peers`: 1@host:port,2@host:port
    [zookeeper] listen   VIRTUALLOG_SERVE_ZOOKEEPER_LISTEN

The name is the prefix, then the fields from `NodeConfig` on, in capitals. Texts and paths stand as they are; any other value is written as
in TOML: `7`, `true`, `["log-server"]`. A variable goes before the file, and an option of `serve` before both. Pure.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.runtime.toml import FieldError, KeyPath, Override, key_of
from virtuallog_server.config.node_config import NodeConfig, parse_peers

PREFIX: Final = "VIRTUALLOG_SERVE_"
"""Prefix of all variables."""
FILE_VARIABLE: Final = f"{PREFIX}CONFIG"
"""The variable of the option `--config`, which is no setting of the file."""
PEERS: Final = ("peer",)
"""Key of the list of nodes."""


@attrs.frozen(kw_only=True)
class Variable:
    """The variable of one option."""

    name: str
    keys: KeyPath
    """Keys of the option in the file."""
    is_text: bool
    """True for a text or a path, which stands as it is. False for a value of TOML."""

    def parse(self, text: str) -> Any:
        """The value, as the file would give it.

        Raises:
            InvalidSettingError: the text cannot be read as one value.
        """
        if self.is_text:
            return text
        try:
            if self.keys == PEERS:
                return [attrs.asdict(peer) for peer in parse_peers(text)]
            values = tomllib.loads(f"value = {text}")
        except FieldError as error:
            raise InvalidSettingError(self.name, str(error)) from error
        except (ValueError, RecursionError) as error:
            raise InvalidSettingError(self.name, "is no value of TOML, such as 7, true or [1, 2]") from error
        if values.keys() != {"value"}:
            raise InvalidSettingError(self.name, "is more than one value")
        return values["value"]


def variables() -> Mapping[str, Variable]:
    """All variables by name, in the order of the options."""
    return {variable.name: variable for variable in _variables(NodeConfig, PREFIX, ())}


def overrides(environment: Mapping[str, str]) -> Mapping[KeyPath, Override]:
    """The options that the environment sets.

    Raises:
        InvalidSettingError: names a variable that is unknown, or whose value cannot be read.
    """
    known = variables()
    found = {}
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name != FILE_VARIABLE):
        if name not in known:
            raise InvalidSettingError(
                name, "no option of a node has this variable; docs/reference/configuration.md lists all"
            )
        found[known[name].keys] = Override(source=name, value=known[name].parse(environment[name]))
    return found


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a node that is configured by its file alone."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}


def _variables(settings: type[Any], prefix: str, above: KeyPath) -> Iterator[Variable]:
    types = get_type_hints(settings)
    for field in attrs.fields(settings):
        name, keys = f"{prefix}{field.name.upper()}", (*above, key_of(settings, field.name))
        options = set(get_args(types[field.name])) - {NoneType}
        section = (
            next((each for each in options if attrs.has(each)), None)
            if NoneType in get_args(types[field.name])
            else None
        )
        if section is not None:
            yield from _variables(section, f"{name}_", keys)
        else:
            yield Variable(name=name, keys=keys, is_text=types[field.name] in {str, Path})
