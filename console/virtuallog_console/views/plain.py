"""Conversion of views to values that JSON has."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog_console.views.values import readable

EXACT_MAX: Final = 1 << 53
"""Largest integer that browsers do not round. Positions are smaller, until a log has taken 30 million entries a second for nine years."""


def plain(view: object) -> Any:
    """A view as dictionaries, lists, texts, numbers and None.

    Fields keep their names. An enumeration becomes its value, bytes become hexadecimal, a range of positions a list of both ends, a number
    that is not finite None, and an integer above `EXACT_MAX` a text.
    """
    if isinstance(view, int) and abs(view) > EXACT_MAX:
        return str(view)
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
