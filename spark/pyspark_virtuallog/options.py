"""Options of reads and writes: lookup by name, parsing, and the options that both have.

Spark passes names in lower case. An unknown one is refused: a misspelled `failOnDataLoss` must not
be taken for its default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from virtuallog.contract.errors import InvalidSettingError

POSITIONS_MAX: Final = (1 << 63) - 1
"""Largest position: Spark's LONG."""
TEXT_MAX: Final = 4096
"""Characters of a value, as of a path. An error repeats what it refuses, and Python reads no
numbers of more digits than 4300."""
_CLUSTER: Final = re.compile(r"[0-9a-f]{32}")


def not_empty(option: str, text: str) -> str:
    if not text:
        raise InvalidSettingError(option, "is empty")
    return text


def natural(text: str) -> int | None:
    """A number that Spark's LONG can hold, in plain digits. None if it is no such number."""
    number = int(text) if text.isascii() and text.isdigit() else -1
    return number if 0 <= number <= POSITIONS_MAX else None


def _seconds(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise InvalidSettingError(option, f"{text!r} is not a number of seconds, at most a day of them")
    return seconds


def _cluster_id(option: str, text: str) -> str:
    if not is_cluster(text.lower()):
        raise InvalidSettingError(option, f"{text!r} is not 32 hexadecimal digits")
    return text.lower()


def is_cluster(text: str) -> bool:
    """True if the text looks like a cluster's id."""
    return _CLUSTER.fullmatch(text) is not None


Option = tuple[str, Callable[[str, str], Any]]
"""Field of an option, and the parser of its text."""
CLUSTER: Final[dict[str, Option]] = {
    "cluster": ("cluster", not_empty),
    "path": ("cluster", not_empty),  # the argument of `load(FILE)`
    "clusterId": ("cluster_id", _cluster_id),
    "patienceSeconds": ("patience_seconds", _seconds),
}
"""Options of reads and writes."""


def fields_of(
    given: Mapping[str, str], known: Mapping[str, Option], others: Mapping[str, Option], elsewhere: str
) -> dict[str, Any]:
    """Values of the options, by names of fields; `others` are the options of `elsewhere`.

    Raises:
        InvalidSettingError: an option is unknown, has an invalid value, or repeats another one; or
            there is no cluster.
    """
    names = {name.lower(): name for name in known}
    fields: dict[str, Any] = {}
    chosen: dict[str, str] = {}
    for key, text in given.items():
        name = names.get(key.lower())
        if name is None:
            raise _unknown(key, names, others, elsewhere)
        field, parse = known[name]
        if field in chosen:
            raise InvalidSettingError(name, f"{chosen[field]} says the same: give one of them")
        chosen[field] = name
        if len(text) > TEXT_MAX:
            raise InvalidSettingError(name, f"has {len(text)} characters, more than {TEXT_MAX}")
        fields[field] = parse(name, text.strip())
    if "cluster" not in fields:
        raise InvalidSettingError("cluster", 'is missing: .option("cluster", "path/of/cluster.toml")')
    return fields


def _unknown(key: str, names: Mapping[str, str], others: Mapping[str, Option], elsewhere: str) -> InvalidSettingError:
    for name in others:
        if name.lower() == key.lower():
            return InvalidSettingError(name, f"is an option of {elsewhere} only")
    near = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(sorted(names.values()))}"
    return InvalidSettingError(key, f"is no option of virtuallog: {hint}")
