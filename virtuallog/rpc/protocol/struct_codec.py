"""Generator of the two functions behind a codec: one fills a struct from a message, one reads it back.

A `StructCodec` is such a pair for one struct. `_value` gives, for one type, the conversion of a
value to what pycapnp takes and back; `_field` builds the two lines of one field from that;
`struct_codec_of` joins the lines into functions. For

    class Store: segment: SegmentId; blob: bytes

it writes

    def fill(builder, message):
        fill_0(builder._get_by_field(field_0), message.segment)
        builder._set_by_field(field_1, message.blob)

    def read(reader):
        return message_class(segment=read_0(reader._get_by_field(field_0)),
        blob=reader._get_by_field(field_1))

Only names that stand in our own sources end up in the generated code.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

_FITTING: Final[Mapping[object, frozenset[str]]] = {
    int: frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}),
    bool: frozenset({"bool"}),
    float: frozenset({"float32", "float64"}),
    bytes: frozenset({"data"}),
    str: frozenset({"text"}),
}


@attrs.frozen(eq=False)
class StructCodec:
    """Layout of one class, or of a union of classes, in one struct."""

    fill: Callable[[Any, Any], None]
    read: Callable[[Any], Any]


@attrs.frozen
class _Line:
    """One field in the generated code: the statement that sets it, the expression that gets it."""

    put: str
    get: str


def struct_codec_of(form: Any, schema: Any) -> StructCodec:
    """Return the layout of `form` (an attrs class or a union of them) in the struct `schema`.

    Raises:
        TypeError: they do not pair.
    """
    members = _union_members(form)
    return _union_shape(members, schema) if members else _class_shape(form, schema)


def _class_shape(message_class: Any, schema: Any) -> StructCodec:
    attributes = {_camel(field.alias): field for field in attrs.fields(message_class) if field.init}
    fields = _fields(schema)
    if odd := attributes.keys() ^ {name for name in fields if name in attributes or not name.startswith("obsolete")}:
        raise TypeError(f"{message_class.__qualname__} and {schema!r} differ in {sorted(odd)}")
    hints = typing.get_type_hints(message_class)
    bound: dict[str, Any] = {"message_class": message_class}
    puts: list[str] = []
    gets: list[str] = []
    for name, attribute in attributes.items():
        index = len(puts)
        bound[f"field_{index}"] = fields[name]
        try:
            line = _field(hints[attribute.name], fields[name], f"message.{attribute.name}", index, bound)
        except TypeError as error:
            raise TypeError(f"{message_class.__qualname__}.{attribute.name}: {error}") from error
        puts.append(f"    {line.put}\n")
        gets.append(f"{attribute.alias}={line.get}")
    return _generate(message_class.__qualname__, "".join(puts), ", ".join(gets), bound)


def _generate(name: str, puts: str, gets: str, bound: dict[str, Any]) -> StructCodec:
    source = (
        f"def fill(builder, message):\n{puts}    return\n"  # the return is the body if there are no fields
        f"def read(reader):\n    return message_class({gets})\n"
    )
    exec(compile(source, f"<codec of {name}>", "exec"), bound)
    return StructCodec(bound["fill"], bound["read"])


def _field(form: Any, field: Any, value: str, index: int, bound: dict[str, Any]) -> _Line:
    """Make the line of one field. Objects that the generated code needs go into `bound`, with names
    ending in `index`."""
    options = [option for option in typing.get_args(form) if option is not types.NoneType]
    if types.NoneType in typing.get_args(form):
        if not _is_pointer(field):
            raise TypeError("only a pointer can be null")
        line = _field(typing.Union[tuple(options)], field, value, index, bound)  # noqa: UP007  # built at run time
        return _Line(
            f"if {value} is not None: {line.put}", f"{line.get} if reader._has_by_field(field_{index}) else None"
        )
    place, get = f"field_{index}", f"reader._get_by_field(field_{index})"
    if _is_message(form):
        _bind(index, struct_codec_of(form, _struct_of(field)), bound)
        return _Line(f"fill_{index}(builder._get_by_field({place}), {value})", f"read_{index}({get})")
    if typing.get_origin(form) is tuple and options[1:] == [Ellipsis]:
        return _list(options[0], field, value, index, bound)
    if form == frozenset[str]:
        _check_fits(str, _element_type(field))
        return _Line(f"builder._set_by_field({place}, sorted({value}))", f"frozenset({get})")
    wire, python = _value(form, _type_of(field), field, index, bound)
    return _Line(f"builder._set_by_field({place}, {wire.format(value)})", python.format(get))


def _list(item: Any, field: Any, value: str, index: int, bound: dict[str, Any]) -> _Line:
    place, get = f"field_{index}", f"reader._get_by_field(field_{index})"
    if _element_type(field) is None:
        raise TypeError("not a list in the schema")
    if _is_message(item):
        _bind(index, struct_codec_of(item, field.schema.elementType), bound)
        bound["fill_list"] = _fill_list
        put = f"fill_list(fill_{index}, builder._init_by_field({place}, len({value})), {value})"
        return _Line(put, f"tuple(map(read_{index}, {get}))")
    if _element_type(field) == "enum":
        raise TypeError("pycapnp cannot write lists of enums; wrap each in a struct")
    wire, python = _value(item, _element_type(field), field, index, bound)
    return _Line(
        f"builder._set_by_field({place}, [{wire.format('item')} for item in {value}])",
        f"tuple([{python.format('item')} for item in {get}])",
    )


def _fill_list(fill: Callable[[Any, Any], None], builders: Any, values: tuple[Any, ...]) -> None:
    for builder, value in zip(builders, values, strict=True):
        fill(builder, value)


def _value(form: Any, kind: str | None, field: Any, index: int, bound: dict[str, Any]) -> tuple[str, str]:
    """Make two templates for a value that is not a message: Python to pycapnp, and back.

    `kind` is its type in the schema.
    """
    while hasattr(form, "__supertype__"):
        form = form.__supertype__
    if isinstance(form, type) and issubclass(form, enum.Enum):
        ordinals: dict[str, int] = field.schema.enumerants if kind == "enum" else {}
        if {_camel(member.name.lower()) for member in form} != ordinals.keys():
            raise TypeError(f"{form.__qualname__} has other members than the schema: {sorted(ordinals)}")
        bound[f"ordinals_{index}"] = {member: ordinals[_camel(member.name.lower())] for member in form}
        bound[f"members_{index}"] = {ordinal: member for member, ordinal in bound[f"ordinals_{index}"].items()}
        return f"ordinals_{index}[{{}}]", f"members_{index}[{{}}.raw]"
    _check_fits(form, kind)
    return "{}", "{}"


def _union_shape(members: tuple[Any, ...], schema: Any) -> StructCodec:
    fields = _fields(schema)
    names = {member: _lower_first(member.__name__) for member in members}
    if schema.non_union_fields or set(names.values()) != set(schema.union_fields):
        raise TypeError(f"{schema!r} is not a union of {sorted(names.values())}")
    fillers: dict[Any, tuple[Any, Callable[[Any, Any], None] | None]] = {}
    readers: dict[str, Callable[[Any], Any]] = {}
    for member, name in names.items():
        field = fields[name]
        if _type_of(field) == "void":
            if attrs.fields(member):
                raise TypeError(f"{member.__qualname__} has fields, {name} in {schema!r} has none")
            fillers[member], readers[name] = (field, None), _void_reader(member)
        else:
            shape = _class_shape(member, _struct_of(field))
            fillers[member], readers[name] = (field, shape.fill), _member_reader(field, shape)
    return StructCodec(_union_filler(fillers), lambda reader: readers[reader._which_str()](reader))  # noqa: SLF001


def _union_filler(fillers: Mapping[Any, tuple[Any, Callable[[Any, Any], None] | None]]) -> Callable[[Any, Any], None]:
    def fill(builder: Any, message: Any) -> None:
        field, fill_member = fillers[type(message)]
        if fill_member is None:
            builder._set_by_field(field, None)  # noqa: SLF001
        else:
            fill_member(builder._init_by_field(field), message)  # noqa: SLF001

    return fill


def _void_reader(member: Any) -> Callable[[Any], Any]:
    return lambda _reader: member()


def _member_reader(field: Any, shape: StructCodec) -> Callable[[Any], Any]:
    return lambda reader: shape.read(reader._get_by_field(field))  # noqa: SLF001


def _bind(index: int, shape: StructCodec, bound: dict[str, Any]) -> None:
    bound[f"fill_{index}"], bound[f"read_{index}"] = shape.fill, shape.read


def _fields(schema: Any) -> dict[str, Any]:
    return {field.proto.name: field for field in schema.fields_list}


def _type_of(field: Any) -> str:
    return "group" if str(field.proto.which()) == "group" else str(field.proto.slot.type.which())


def _element_type(field: Any) -> str | None:
    return str(field.proto.slot.type.list.elementType.which()) if _type_of(field) == "list" else None


def _is_pointer(field: Any) -> bool:
    return _type_of(field) in {"text", "data", "list", "struct"}


def _struct_of(field: Any) -> Any:
    if _type_of(field) not in {"struct", "group"}:
        raise TypeError("not a struct in the schema")
    return field.schema


def _check_fits(form: Any, wire: str | None) -> None:
    if wire not in _FITTING.get(form, ()):
        raise TypeError(f"{form} does not fit {wire}")


def _is_message(form: Any) -> bool:
    return bool(_union_members(form)) or (isinstance(form, type) and attrs.has(form))


def _union_members(form: Any) -> tuple[Any, ...]:
    return typing.get_args(form) if typing.get_origin(form) in {types.UnionType, typing.Union} else ()


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _lower_first(name: str) -> str:
    return name[0].lower() + name[1:]
