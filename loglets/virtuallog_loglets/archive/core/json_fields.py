"""Typed fields of JSON objects from untrusted sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_of(value: object) -> Mapping[str, Any]:
    """The value as a JSON object. Raises TypeError if it is none."""
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:100]} is not an object")
    return value


def integer(fields: Mapping[str, Any], name: str) -> int:
    """The field as an integer. Raises KeyError or TypeError unless it is a number from 0 to 2**63 - 1."""
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise TypeError(f"{name} is not a number: {str(value)[:100]}")
    return value


def text(fields: Mapping[str, Any], name: str) -> str:
    """The field as a text. Raises KeyError or TypeError unless it is one."""
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text: {str(value)[:100]}")
    return value
