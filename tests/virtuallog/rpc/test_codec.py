"""The codec: attrs messages in Cap'n Proto structs and back."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.virtuallog.rpc.shop import Bag, Box, Everything, Kind, Store, schema
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog.rpc.protocol.codec import derive

U8, U32, U64 = st.integers(0, 2**8 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BYTES = st.binary(max_size=40)
BOXES = st.builds(Box, U32, TEXT)
ITEMS = BOXES | st.just(Bag())


def tuples(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=4).map(tuple)


EVERYTHING = st.builds(
    Everything,
    count=st.integers(-(2**63), 2**63 - 1),
    small=U8,
    ratio=st.floats(allow_nan=False),
    is_open=st.booleans(),
    raw_bytes=BYTES,
    name=TEXT,
    kind=st.sampled_from(Kind),
    segment=st.builds(SegmentId, U64, U64),
    numbers=tuples(U32),
    names=tuples(TEXT),
    blobs=tuples(BYTES),
    boxes=tuples(BOXES),
    roles=st.frozensets(TEXT, max_size=4),
    maybe_name=st.none() | TEXT,
    maybe_bytes=st.none() | BYTES,
    maybe_box=st.none() | BOXES,
    maybe_numbers=st.none() | tuples(U32),
    item=ITEMS,
    items=tuples(ITEMS),
    maybe_item=st.none() | ITEMS,
)


@given(EVERYTHING)
def test_every_type_of_field_comes_back_as_it_went(message: Everything) -> None:
    """Every type of field survives: empty is not None, unions keep their class, sets their members."""
    codec = derive(Everything, schema().Everything)

    assert codec.decode_untrusted(codec.encode(message)) == message


def test_same_message_is_same_bytes() -> None:
    """Sets are written sorted: bytes must not depend on the hash seed."""
    codec = derive(Everything, schema().Everything)
    roles = [f"role {n}" for n in range(50)]

    assert codec.encode(Everything(roles=frozenset(roles))) == codec.encode(Everything(roles=frozenset(roles[::-1])))


def test_fields_lie_where_the_schema_says() -> None:
    """Any Cap'n Proto program reads our messages by the names in the schema."""
    encoded = derive(Everything, schema().Everything).encode(Everything(is_open=True, item=Box(3, "x")))

    with schema().Everything.from_bytes(encoded) as reader:
        assert reader.isOpen
        assert str(reader.item.which()) == "box"
        assert reader.item.box.length == 3


def test_derived_once() -> None:
    """The same class and struct give the same codec."""
    assert derive(Everything, schema().Everything) is derive(Everything, schema().Everything.schema)


@attrs.frozen
class LacksLabel:
    length: int


@attrs.frozen
class LengthIsText:
    length: str
    label: str


@attrs.frozen
class LengthMayBeNull:
    length: int | None
    label: str


@attrs.frozen
class LabelIsList:
    length: int
    label: tuple[str, ...]


@attrs.frozen
class Kinds:
    obsolete_kinds: tuple[Kind, ...]


@attrs.frozen
class LabelIsBox:
    length: int
    label: Box


@pytest.mark.parametrize("wrong", [LacksLabel, LengthIsText, LengthMayBeNull, LabelIsList, LabelIsBox, Box | Bag])
def test_class_that_does_not_fit_is_refused_at_start(wrong: Any) -> None:
    """A mistake in a class or a schema shows when the codec is derived, not on the wire."""
    with pytest.raises(TypeError):
        derive(wrong, schema().Box)


def test_list_of_enums_is_refused_at_start() -> None:
    """A list of enums, which pycapnp could read but not write, is refused at start."""
    with pytest.raises(TypeError, match="lists of enums"):
        derive(Kinds, schema().KindList)


@pytest.mark.parametrize("value", [-1, 2**64, "text", None])
def test_value_that_does_not_fit_is_not_written(value: Any) -> None:
    """A value that does not fit is refused; a message is never silently changed."""
    codec = derive(SegmentId, schema().SegmentId)

    with pytest.raises(Exception, match=r"failed|large|int"):
        codec.encode(SegmentId(value, 0))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(garbage: bytes) -> None:
    """Bytes that are no message raise MalformedError and no other error."""
    try:
        message = derive(Everything, schema().Everything).decode_untrusted(garbage)
    except MalformedError:
        return
    assert isinstance(message, Everything)


@given(EVERYTHING, st.data())
def test_damaged_message_is_read_or_refused(message: Everything, data: st.DataObject) -> None:
    """A changed byte gives another message, or MalformedError; never another error."""
    codec = derive(Everything, schema().Everything)
    damaged = bytearray(codec.encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(U8)

    with suppress(MalformedError):
        assert isinstance(codec.decode_untrusted(bytes(damaged)), Everything)


def test_enumerant_of_a_later_version_is_malformed() -> None:
    """An enumerant without a name is an error, not a wrong value."""
    codec = derive(Everything, schema().Everything)
    encoded = bytearray(codec.encode(Everything(kind=Kind.NOT_FOR_SALE)))
    encoded = encoded.replace(struct.pack("<H", 1), struct.pack("<H", 9))

    with pytest.raises(MalformedError):
        codec.decode_untrusted(bytes(encoded))


def test_pointers_that_share_a_target_do_not_grow_in_memory() -> None:
    """A small frame that repeats the same large blob a thousand times is refused, not copied a
    thousand times."""
    blobs = 1000
    target = [struct.pack("<iI", (blobs - 1 - n) << 2 | 1, 8000 << 3 | 2) for n in range(blobs)]
    everything = schema().Everything.schema.node.struct
    pointers = [b"\0" * 8] * everything.pointerCount
    root = struct.pack("<IHH", 0, everything.dataWordCount, everything.pointerCount)
    body = root + b"\0" * 8 * everything.dataWordCount
    pointers[5] = struct.pack("<iI", (len(pointers) - 6) << 2 | 1, blobs << 3 | 6)
    body += b"".join(pointers) + b"".join(target) + b"z" * 8000
    encoded = struct.pack("<II", 0, len(body) // 8) + body
    with schema().Everything.from_bytes(encoded) as reader:
        assert len(reader.blobs) * len(reader.blobs[999]) == 8_000_000

    with pytest.raises(MalformedError, match="traversal"):
        derive(Everything, schema().Everything).decode_untrusted(encoded)


def test_store_is_one_statement_per_field() -> None:
    """The hot path uses no dictionaries: the generated code has a line per field and one for the end."""
    fill: Any = derive(Store, schema().Shop.schema.methods["store"].param_type).fill

    assert fill.__code__.co_names.count("_set_by_field") == 1
    assert len({line for _, _, line in fill.__code__.co_lines()}) <= 5
