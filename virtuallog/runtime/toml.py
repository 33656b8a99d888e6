"""Strict TOML: text into a frozen class, with errors that name file, line and key, and back into text.

`tomllib` does not give the line of a key, so `locate` finds it again. It reads headers and `key =`
lines and nothing else. For a key inside an inline table it gives the line of the table, which is
near enough for a reader.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.gen import make_dict_structure_fn, override

from virtuallog.contract.address import split_address
from virtuallog.contract.errors import InvalidSettingError

SettingsT = TypeVar("SettingsT")
KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the file."""

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY: Final = re.compile(r"""\s*([A-Za-z0-9_.\-"' ]+?)\s*=""")


class FieldError(ValueError):
    """A bad value, found when a config class is constructed; names the field and, in a list, the item."""

    def __init__(self, reason: str, *path: str | int) -> None:
        super().__init__(reason)
        self.path = path


@attrs.frozen(kw_only=True)
class Override:
    """A value that goes before that of the file."""

    source: str
    """Name of the option or variable that gave it, for errors."""
    value: Any
    """As TOML would give it."""


def parse(
    settings: type[SettingsT], text: str, path: Path, overrides: Mapping[KeyPath, Override] | None = None
) -> SettingsT:
    """Parse `text`, the content of the file `path`, into an instance of `settings`.

    Args:
        settings: a frozen class.
        text: the content.
        path: names the file in errors.
        overrides: values by key, which go before those of the file.

    Raises:
        InvalidSettingError: not TOML, an unknown or missing key, or a value of the wrong type or
            out of range. Names file, line and key, or the source of the override.
    """
    overrides = overrides or {}
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for an overlong number, and for endless brackets
        raise InvalidSettingError(str(path), f"not TOML: {error}") from error
    for keys, given in overrides.items():
        _put(values, keys, given.value)
    try:
        return _converter().structure(values, settings)
    except (ClassValidationError, FieldError) as error:
        keys, reason = next(_problems(error, ()))
        for end in range(len(keys), 0, -1):
            if keys[:end] in overrides:
                raise InvalidSettingError(overrides[keys[:end]].source, reason) from error
        raise InvalidSettingError(f"{path}:{locate(text, keys)}: {_dotted(keys)}", reason) from error


def _put(values: dict[str, Any], keys: KeyPath, value: Any) -> None:
    """Set the value at `keys`, in tables that are made if they are missing. A section that is no table stays, and is refused later."""
    *sections, last = keys
    table: Any = values
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            return
    table[last] = value


def toml_key(name: str) -> Any:
    """Make a field with the name `name` in the file: `[[peer]]` fills the list `peers`."""
    return {"toml": name}


def spell(settings: Any, shown: Collection[str] = (), table: str = "") -> str:
    """Write the text that parses back to `settings`: every field that differs from its default.

    Args:
        settings: instance of a frozen class.
        shown: names of fields that are written even at their default.
        table: the table of the keys; empty for the top of the file.
    """
    keys, tables = "", ""
    for field in attrs.fields(type(settings)):
        name, value = str(field.metadata.get("toml", field.name)), getattr(settings, field.name)
        if value == field.default and field.name not in shown:
            continue
        path = f"{table}.{name}" if table else name
        if attrs.has(type(value)):
            tables += f"\n[{path}]\n{spell(value, table=path)}"
        elif isinstance(value, tuple) and value and attrs.has(type(value[0])):
            tables += "".join(f"\n[[{path}]]\n{spell(item, table=path)}" for item in value)
        elif value is not None:
            keys += f"{name} = {spell_value(value)}\n"
    return keys + tables


def spell_value(value: bool | int | float | str | Path | tuple[Any, ...]) -> str:
    """Write one value, as it stands behind `key =`."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple():
            return f"[{', '.join(spell_value(item) for item in value)}]"
        case _:
            return repr(value)


def locate(text: str, keys: KeyPath) -> int:
    """Return the line of `keys`, or of the nearest thing around it. Lines count from 1."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    seen: Counter[KeyPath] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _split(header[2])
            lines.setdefault(table, number)
            if header[1] == "[[":
                seen[table] += 1
                table = (*table, seen[table] - 1)
                lines[table] = number
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_split(key[1])), number)
    return next((lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in lines), 1)


def _split(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _dotted(keys: KeyPath) -> str:
    return ".".join(str(key) for key in keys if isinstance(key, str))


def _problems(error: BaseException, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield every single problem in a tree of cattrs errors, with the path of its key."""
    match error:
        case ClassValidationError():
            with_names, others = error.group_exceptions()
            for inner, note in with_names:
                yield from _problems(inner, (*at, key_of(error.cl, note.name)))
            for other in others:
                yield from _problems(other, at)
        case IterableValidationError():
            with_indexes, others = error.group_exceptions()
            for inner, position in with_indexes:
                yield from _problems(inner, (*at, position.index))
            for other in others:
                yield from _problems(other, at)
        case ForbiddenExtraKeysError():
            for key in sorted(error.extra_fields):
                yield (*at, key), f"unknown key (known here: {', '.join(_keys(error.cl))})"
        case FieldError():
            yield (*at, *error.path), str(error)
        case KeyError():
            yield at, "is missing"
        case _:
            yield at, str(error) or type(error).__name__


def _keys(settings: type[Any]) -> list[str]:
    return [key_of(settings, field.name) for field in attrs.fields(settings)]


def key_of(settings: type[Any], name: str) -> str:
    """The key of a field in the file. A name that is no field stays as it is."""
    for field in attrs.fields(settings):
        if field.name == name:
            return str(field.metadata.get("toml", name))
    return name


def _converter() -> cattrs.Converter:
    """Make a converter that never guesses: "7" is no number, 1 is no boolean, an unknown key is an
    error."""
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    for plain, words in ((int, "a whole number"), (str, "text in quotes"), (bool, "true or false")):
        converter.register_structure_hook(plain, _exactly(plain, words))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(Path, _path)
    converter.register_structure_hook_factory(attrs.has, lambda settings: _structure_function(settings, converter))
    return converter


def _structure_function(settings: type[Any], converter: cattrs.Converter) -> Any:
    renamed: dict[str, Any] = {
        field.name: override(rename=field.metadata["toml"])
        for field in attrs.fields(settings)
        if "toml" in field.metadata
    }
    structure = make_dict_structure_fn(settings, converter, _cattrs_forbid_extra_keys=True, **renamed)

    def check_table(value: Any, target: Any) -> Any:
        if not isinstance(value, dict):
            raise FieldError(f"must be a table, not {value!r}")
        return structure(value, target)

    return check_table


def _exactly(plain: type[Any], words: str) -> Any:
    def check(value: Any, _: Any) -> Any:
        if type(value) is not plain:
            raise FieldError(f"must be {words}, not {value!r}")
        return value

    return check


def _path(value: Any, _: Any) -> Path:
    """The path. An empty one would be the folder of the file, or the working directory: mostly a variable that was never set."""
    text = _exactly(str, "text in quotes")(value, str)
    if not text:
        raise FieldError("is empty; `.` is the folder of the file, or the working directory")
    return Path(text)


def _number(value: Any, _: Any) -> float:
    if type(value) not in {int, float}:
        raise FieldError(f"must be a number, not {value!r}")
    return float(value)


def read_toml(settings: type[SettingsT], path: Path, overrides: Mapping[KeyPath, Override] | None = None) -> SettingsT:
    """Read a TOML file into a frozen class, strictly; `overrides` go before its values.

    Raises:
        InvalidSettingError: names file, line and key, or the source of the override.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidSettingError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSettingError(str(path), f"cannot be read: {error}") from error
    return parse(settings, text, path, overrides)


def check_address(address: str, field: str) -> None:
    """Check an address in a constructor. Raises FieldError."""
    try:
        split_address(address)
    except InvalidSettingError as error:
        raise FieldError(error.reason, field) from None


def check_unique(ids: Sequence[int], field: str) -> None:
    """Check in a constructor that ids are unique. Raises FieldError."""
    for index, node in enumerate(ids):
        if node in ids[:index]:
            raise FieldError(f"node {node} is listed twice", field, index, "id")
