"""Short words for what messages and histories are made of: a line of a timeline has room for what matters, not for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.paxos.core import values

_ITEMS_MAX: Final = 4
"""Items shown of a sequence; the others are counted."""
_BYTES_MAX: Final = 12
"""Shorter ones are shown: payloads of the workload are their number."""
_DEPTH_MAX: Final = 3
_NUMBER_LARGE, _NUMBER_DIGITS = 1 << 40, 6
"""Drawn numbers that name something are cut to their beginning, which tells them apart."""


def brief(value: Any, depth: int = 0) -> str:
    """The value in a few words; equal values give equal words in every process."""
    match value:
        case SegmentId():
            return f"{value.version}.{value.attempt:x}"[:_NUMBER_DIGITS]
        case int() if value >= _NUMBER_LARGE:
            return f"{value:x}"[:_NUMBER_DIGITS] + "~"
        case bytes() | bytearray() | memoryview():
            return _bytes(bytes(value))
        case BaseException():
            return f"{type(value).__name__}: {value}".rstrip(": ")
        case range() if value.step == 1:
            return f"[{value.start}, {value.stop})"
        case Mapping():
            return _list("{}", [f"{brief(key)}: {brief(item, depth + 1)}" for key, item in value.items()])
        case list() | tuple():
            return _list("[]", [brief(item, depth + 1) for item in value[:_ITEMS_MAX]], len(value))
        case frozenset() | set():
            return _list("{}", sorted(brief(item, depth + 1) for item in value))
    if attrs.has(type(value)):
        return _object(value, depth)
    return repr(value)


def _object(value: Any, depth: int) -> str:
    name = type(value).__name__
    if depth >= _DEPTH_MAX:
        return f"{name}(...)"
    shown = [(field, getattr(value, field.name)) for field in attrs.fields(type(value)) if field.repr is not False]
    told = [
        f"{field.name.lstrip('_')}={_field(field, item, depth)}"
        for field, item in shown
        if item is not None and item != field.default
    ]
    return f"{name}({', '.join(told)})"


def _field(field: attrs.Attribute[Any], item: Any, depth: int) -> str:
    return field.repr(item) if callable(field.repr) else brief(item, depth + 1)


def _bytes(value: bytes) -> str:
    if len(value) <= _BYTES_MAX:
        return repr(value)[1:]
    for parse, told in _PARSERS:
        with suppress(VirtualLogError):
            return told(parse(value))
    return f"<{len(value)} bytes>"


def _wave(wave: Any) -> str:
    batches = ", ".join(_batch(placed.batch) for placed in wave.placed())
    return f"[{wave.first}, {wave.stop}) of {batches}"


def _batch(batch: Any) -> str:
    return f"{batch.session.hex()[:4]}#{batch.first_sequence}+{batch.count}"


def _checked(value: bytes) -> bytes:
    values.check_untrusted(value)
    return value


def _position(value: bytes) -> str:
    """Text for a record at a position of a paxos loglet."""
    kind = values.kind_of(value)
    match kind:
        case values.ValueKind.APPEND:
            return f"APPEND {_bytes(values.payload_of(value))}"
        case values.ValueKind.TRUNCATE:
            return f"TRUNCATE to {values.truncation_of(value).to}"
        case _:
            return "tombstone" if values.is_tombstone(value) else kind.name


_PARSERS: Final[tuple[tuple[Callable[[bytes], Any], Callable[[Any], str]], ...]] = (
    (waves.parse_untrusted, _wave),
    (Batch.parse_untrusted, _batch),
    (_checked, _position),
)


def _list(brackets: str, items: list[str], length: int | None = None) -> str:
    rest = (len(items) if length is None else length) - _ITEMS_MAX
    told = items[:_ITEMS_MAX] + ([f"... {rest} more"] if rest > 0 else [])
    return f"{brackets[0]}{', '.join(told)}{brackets[1]}"
