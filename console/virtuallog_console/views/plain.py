"""Conversion of views to values that JSON has."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

import attrs

from virtuallog_console.views.values import readable


def plain(view: object) -> Any:
    """A view as dictionaries, lists, texts, numbers and None.

    Fields keep their names. An enumeration becomes its value, bytes become hexadecimal, a range of positions a list of both ends, and a
    number that is not finite None.
    """
    if view is None or (isinstance(view, bool | int) and not isinstance(view, enum.Enum)):
        return view
    if isinstance(view, enum.Enum):
        return plain(view.value)
    if isinstance(view, str):
        return readable(view)
    if isinstance(view, float):
        return view if math.isfinite(view) else None
    if isinstance(view, bytes):
        return view.hex()
    if isinstance(view, range):
        return [view.start, view.stop]
    if isinstance(view, Mapping):
        return {str(plain(name)): plain(value) for name, value in view.items()}
    if isinstance(view, list | tuple | set | frozenset):
        return [plain(each) for each in (sorted(view) if isinstance(view, set | frozenset) else view)]
    kind: type[Any] = type(view)
    if attrs.has(kind):
        return {each.name: plain(getattr(view, each.name)) for each in attrs.fields(kind) if each.name[0] != "_"}
    return readable(str(view))
