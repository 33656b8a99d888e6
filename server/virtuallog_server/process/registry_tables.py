"""Records of a registry as JSON values, for commands and pages. They know no tables of a program."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from typing import Any, Final

import trio

DEPTH_MAX: Final = 100
"""Deepest nesting of a record that is shown as JSON. Encoders and browsers give up at some hundred levels."""
PIECE: Final = 256
"""Records decoded between two checkpoints."""


async def tables_of(records: Iterable[tuple[str, str, bytes]], names: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """Plain values by table and key, in the order of the records.

    Args:
        records: table, key and stored record of each.
        names: tables that are shown also without a record.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for count, (table, key, record) in enumerate(records, 1):
        found.setdefault(table, {})[key] = plain_untrusted(record)
        if count % PIECE == 0:
            await trio.lowlevel.checkpoint()
    return found


def plain_untrusted(record: bytes) -> Any:
    """A stored record as a JSON value: itself, or its bytes in base 64 if it is none of JSON, with NaN in it, or nested too deeply."""
    try:
        value = json.loads(record, parse_constant=_refuse, parse_float=_finite)
        if _depth(value) <= DEPTH_MAX:
            return value
    except (ValueError, RecursionError):
        pass
    return {"base64": base64.b64encode(record).decode()}


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= DEPTH_MAX:
        level = [part for each in level if isinstance(each, dict | list) for part in _parts(each)]
        depth += 1
    return depth


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
