"""Comparison of a row with what is read back of it: JSON has fewer types than Python, and `==` tells fewer apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs


def changed_column(row: Any, read: Any) -> str | None:
    """The first column that is not read back as it is; None if all are.

    A value is read back if it is equal and of the same type, in all its parts: True is not 1, a tuple is not a list. An int
    in a float column is the float that equals it. NaN is read back as NaN, and -0.0 as -0.0.
    """
    return next((name for name in _names(row) if not _is_same(getattr(row, name), getattr(read, name))), None)


def _names(record: Any) -> list[str]:
    """Fields that are stored. cattrs leaves out those that the constructor does not take."""
    return [field.name for field in attrs.fields(type(record)) if field.init]


def _is_same(value: Any, read: Any) -> bool:
    if type(value) is int and type(read) is float:
        return bool(value == read)
    if type(value) is not type(read):
        return False
    if attrs.has(type(value)):
        return changed_column(value, read) is None
    if isinstance(value, Mapping):
        return value.keys() == read.keys() and all(
            type(one) is type(other) and _is_same(value[one], read[other])
            for one, other in zip(value, read, strict=True)
        )
    if isinstance(value, list | tuple):
        return len(value) == len(read) and all(map(_is_same, value, read))
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(read)
    return bool(value == read)
