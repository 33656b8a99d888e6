"""Canonical form of the objects of a core: equal forms behave alike.

A form is made of tuples, numbers, strings and bytes. Objects that are compared by identity and can change are walked
once; a second path to one is a number, so that sharing is a part of the form.
"""

from __future__ import annotations

import enum
import marshal
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from hashlib import blake2b
from types import FunctionType, MethodType
from typing import Any, Final

import attrs

_DIGEST_BYTES: Final = 16
_PLAIN: Final = frozenset({int, str, bytes, bool, type(None), float})
_FIELDS: dict[type, tuple[str, tuple[str, ...], bool]] = {}
"""By class: its name, its fields, and if its objects are compared by identity."""
_VALUES: dict[type, Callable[[Any], Any]] = {}


def register_value(kind: type, content: Callable[[Any], Any]) -> None:
    """Take objects of a class, which never change, for what `content` returns of them."""
    _VALUES[kind] = content


def form_of(value: Any) -> Any:
    """Form of a value."""
    return _walk(value, {})


def digest_of(form: Any) -> bytes:
    """Digest of a form, equal in all processes."""
    return blake2b(marshal.dumps(form, 2), digest_size=_DIGEST_BYTES).digest()  # 2: no sharing of equal parts


def _walk(value: Any, seen: dict[int, int]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list or kind is deque:
        return tuple([_walk(each, seen) for each in value])
    if kind is dict:
        return tuple(sorted([(_walk(key, seen), _walk(each, seen)) for key, each in value.items()], key=repr))
    if kind is OrderedDict:
        return tuple([(_walk(key, seen), _walk(each, seen)) for key, each in value.items()])
    if kind is set or kind is frozenset:
        return tuple(sorted([_walk(each, seen) for each in value], key=repr))
    if kind is array:
        return tuple(value)
    if isinstance(value, enum.Enum):
        return value.name
    if kind is MethodType:
        return value.__func__.__qualname__
    if kind is FunctionType:
        return value.__qualname__
    content = _VALUES.get(kind)
    if content is not None:
        return content(value)
    return _walk_object(value, kind, seen)


def _walk_object(value: Any, kind: type, seen: dict[int, int]) -> Any:
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = _describe(kind)
    name, fields, by_identity = found
    if by_identity:
        number = seen.get(id(value))
        if number is not None:
            return number
        seen[id(value)] = len(seen)
    return (name, *[_walk(getattr(value, field), seen) for field in fields])


def _describe(kind: type) -> tuple[str, tuple[str, ...], bool]:
    if issubclass(kind, BaseException):
        return kind.__name__, ("args",), False
    if not attrs.has(kind):
        raise TypeError(f"no canonical form of {kind.__module__}.{kind.__qualname__}")
    names = tuple(field.name for field in attrs.fields(kind))
    hidden: frozenset[str] = getattr(kind, "NO_STATE", frozenset())
    return kind.__name__, tuple(name for name in names if name not in hidden), kind.__eq__ is object.__eq__
