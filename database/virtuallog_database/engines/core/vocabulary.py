"""Text format for small values of engines: commands in the log, records in the store.

For rare values; what travels with every entry has a layout of its own. Durable format: UTF-8 JSON,
an array of the version (1), the name of the class, and its fields in order. Fields are integers,
strings, lists of strings, or maps of strings to strings. A class never changes: another one with
another name takes its place, so that old entries can still be read.
"""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_database.errors import BinaryTooOldError

_VERSION: Final = 1
_BYTES_MAX: Final = 1 << 20
"""Largest value: maps of a digest for each part of the state are the largest, some KB."""
_BRACKETS_MAX: Final = 256
"""Most brackets in one value, those in its strings included; usual values have two or three. The
parser's depth limit depends on the interpreter and the caller, so replicas would disagree about
deeper values."""


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


_CHECKS: Final = {
    "int": lambda value: type(value) is int and abs(value) < 1 << 63,
    "LogPosition": lambda value: type(value) is int and 0 <= value < 1 << 63,
    "str": lambda value: isinstance(value, str),
    "tuple[str, ...]": _is_text_list,
    "Mapping[str, str]": _is_text_map,
}


@attrs.frozen
class Vocabulary:
    """Classes that may stand in one place."""

    classes: tuple[type[Any], ...]
    """Frozen attrs classes, whose fields have the types above."""

    def __attrs_post_init__(self) -> None:
        assert all(field.type in _CHECKS for kind in self.classes for field in attrs.fields(kind)), (
            "fields have these types"
        )
        assert len({kind.__name__ for kind in self.classes}) == len(self.classes), "names tell classes apart"

    def encode(self, value: Any) -> bytes:
        """Encode one value."""
        assert type(value) in self.classes
        fields = [getattr(value, field.name) for field in attrs.fields(type(value))]
        return json.dumps([_VERSION, type(value).__name__, *fields], sort_keys=True, separators=(",", ":")).encode()

    def parse_untrusted(self, blob: bytes) -> Any:
        """Parse a value made by `encode`.

        Raises:
            MalformedError: not such a value. All replicas agree on that.
            BinaryTooOldError: a value of a later version. Other replicas may know it, so this one
                must stop.
        """
        if len(blob) > _BYTES_MAX or blob.count(b"[") + blob.count(b"{") > _BRACKETS_MAX:
            raise MalformedError(f"{len(blob)} bytes, or brackets without end, for a command of an engine")
        try:
            version, name, *values = json.loads(blob)
        except (ValueError, TypeError) as error:
            raise MalformedError(f"no value of an engine: {bytes(blob[:40])!r}") from error
        kind = next((each for each in self.classes if each.__name__ == name), None)
        if version != _VERSION or kind is None:
            raise BinaryTooOldError(f"no engine here knows {str(name)[:40]!r}, version {str(version)[:40]}")
        fields = attrs.fields(kind)
        if len(fields) != len(values) or not all(map(_fits, fields, values)):
            raise MalformedError(f"the fields of {name} are not what they should be")
        return kind(*(tuple(value) if isinstance(value, list) else value for value in values))

    def parse_stored(self, blob: bytes) -> Any:
        """Parse a record of the store, which an engine has put there itself.

        Raises:
            CorruptionError: not such a value.
            BinaryTooOldError: a value of a later version.
        """
        try:
            return self.parse_untrusted(blob)
        except MalformedError as error:
            raise CorruptionError(f"a record of an engine: {error}") from error


def _fits(field: Any, value: object) -> bool:
    return _CHECKS[field.type](value)
