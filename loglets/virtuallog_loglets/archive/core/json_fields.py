"""Fields of JSON objects that somebody else may have written.                                                       Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_of(value: object) -> Mapping[str, Any]:
    """Raises TypeError unless it is a JSON object."""
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:100]} is not an object")
    return value


def integer(fields: Mapping[str, Any], name: str) -> int:
    """Raises KeyError, TypeError unless there is a number from 0 to 2**63 - 1."""
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise TypeError(f"{name} is not a number: {str(value)[:100]}")
    return value


def text(fields: Mapping[str, Any], name: str) -> str:
    """Raises KeyError, TypeError unless there is a text."""
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text: {str(value)[:100]}")
    return value
