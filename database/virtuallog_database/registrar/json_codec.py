"""Records of attrs classes as JSON.

@attrs.frozen
class Agent:
    id: str
    hostname: str
    unknown: Mapping[str, Any] = attrs.field(factory=dict, eq=False)     optional: fields of later programs, kept as they are

AGENTS = json_table("agents", Agent)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import cattrs
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from virtuallog.contract.errors import MalformedError
from virtuallog_database.registrar.core.tables import RecordTable

RecordT = TypeVar("RecordT")

UNKNOWN: Final = "unknown"
"""Name of the field that keeps what a program does not know."""
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def json_table(name: str, kind: type[RecordT]) -> RecordTable[RecordT]:
    """A table of records of an attrs class, whose fields have types that cattrs can structure.

    Each attrs class in a record may have the field `unknown`. Fields with their default values are not stored.
    Decoding raises MalformedError for bytes that are no such record.
    """
    converter = cattrs.Converter(omit_if_default=True)
    converter.register_structure_hook_factory(_is_record, lambda each: _structure_hook(each, converter))
    converter.register_unstructure_hook_factory(_keeps_unknown, lambda each: _unstructure_hook(each, converter))

    def encode(record: RecordT) -> bytes:
        fields = converter.unstructure(record, kind)
        return _ENCODER.encode(fields).encode("utf-8", "surrogatepass")

    def decode(blob: bytes) -> RecordT:
        try:
            return converter.structure(json.loads(blob), kind)
        except (BaseValidationError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise MalformedError(f"not a record of the table '{name}': {bytes(blob[:60])!r}") from error

    return RecordTable(name, encode, decode)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and attrs.has(kind)


def _keeps_unknown(kind: Any) -> bool:
    return _is_record(kind) and hasattr(attrs.fields(kind), UNKNOWN)


def _structure_hook(kind: type[Any], converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
    omitted = {UNKNOWN: override(omit=True)} if _keeps_unknown(kind) else {}
    structure_known = make_dict_structure_fn(kind, converter, **omitted)  # type: ignore[arg-type]
    names = {field.name for field in attrs.fields(kind)} - {UNKNOWN}

    def structure(fields: Any, _: Any) -> Any:
        if not isinstance(fields, dict):
            raise TypeError(f"{type(fields).__name__} is not an object")
        record = structure_known(fields, kind)
        if not omitted or fields.keys() <= names:
            return record
        return attrs.evolve(record, **{UNKNOWN: {key: value for key, value in fields.items() if key not in names}})

    return structure


def _unstructure_hook(kind: type[Any], converter: cattrs.Converter) -> Callable[[Any], dict[str, Any]]:
    unstructure_known = make_dict_unstructure_fn(
        kind,
        converter,
        _cattrs_omit_if_default=True,
        **{UNKNOWN: override(omit=True)},  # type: ignore[arg-type]
    )

    def unstructure(record: Any) -> dict[str, Any]:
        known: dict[str, Any] = unstructure_known(record)
        others = getattr(record, UNKNOWN)
        return {**others, **known} if others else known

    return unstructure
