"""Records of attrs classes as JSON, with the fields of later programs kept.

    @attrs.frozen
    class Agent:
        id: str
        hostname: str
        unknown: Mapping[str, Any] = attrs.field(factory=dict, eq=False)     optional: what this program does not know

Each attrs class in a record may have the field `unknown`. Bytes are stored as base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import attrs
import cattrs
from cattrs import transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from virtuallog.contract.errors import MalformedError

RecordT = TypeVar("RecordT")

UNKNOWN: Final = "unknown"
"""Name of the field that keeps what a program does not know."""
_PRIMITIVES: Final[tuple[type, ...]] = (str, int, float, bool)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@attrs.frozen(eq=False)
class JsonCodec(Generic[RecordT]):
    """Encoder and decoder of the records of an attrs class, whose fields have types that cattrs can structure."""

    kind: type[RecordT]
    where: str
    """Place of the records, for errors: "the table 'agents'"."""
    omits_defaults: bool = True
    """True: fields with their default values are not stored."""
    is_strict: bool = False
    """True: text, numbers and booleans are not converted into each other, so "7" is no int. An int is a float that equals it."""
    _converter: cattrs.Converter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        converter, omits = cattrs.Converter(omit_if_default=self.omits_defaults), self.omits_defaults
        for each in _PRIMITIVES if self.is_strict else ():
            converter.register_structure_hook(each, _structure_primitive)
        converter.register_structure_hook(bytes, lambda text, _: base64.b64decode(text, validate=True))
        converter.register_unstructure_hook(bytes, lambda blob: base64.b64encode(blob).decode())
        converter.register_structure_hook_factory(_is_record, lambda each: _structure_hook(each, converter))
        converter.register_unstructure_hook_factory(
            _keeps_unknown, lambda each: _unstructure_hook(each, converter, omits)
        )
        object.__setattr__(self, "_converter", converter)

    def encode(self, record: RecordT) -> bytes:
        """Encode a record."""
        fields = self._converter.unstructure(record, self.kind)
        return _ENCODER.encode(fields).encode("utf-8", "surrogatepass")

    def decode(self, blob: bytes, upgrade: Callable[[Any], Any] = lambda fields: fields) -> RecordT:
        """Decode a record, after `upgrade` of its JSON value. Raises MalformedError: the bytes are no such record."""
        try:
            return self._converter.structure(upgrade(json.loads(blob)), self.kind)
        except (BaseValidationError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise MalformedError(f"not a record of {self.where}: {_reason(error)}{bytes(blob[:60])!r}") from error


def _structure_primitive(value: Any, kind: Any) -> Any:
    is_exact = type(value) is kind or (kind is float and type(value) is int and float(value) == value)
    if kind in _PRIMITIVES and not is_exact:
        raise TypeError(f"{type(value).__name__} where {kind.__name__} is declared")
    return kind(value)  # an enum may be derived from int or str


def _reason(error: Exception) -> str:
    """The first field that is not as declared, for people."""
    found = transform_error(error)[:1] if isinstance(error, BaseValidationError) else []
    return "".join(f"{each[:100]} in " for each in found)


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


def _unstructure_hook(kind: type[Any], converter: cattrs.Converter, omits: bool) -> Callable[[Any], Mapping[str, Any]]:
    unstructure_known = make_dict_unstructure_fn(
        kind,
        converter,
        _cattrs_omit_if_default=omits,
        **{UNKNOWN: override(omit=True)},  # type: ignore[arg-type]
    )

    def unstructure(record: Any) -> Mapping[str, Any]:
        known: dict[str, Any] = unstructure_known(record)
        others = getattr(record, UNKNOWN)
        return {**others, **known} if others else known

    return unstructure
