"""Records of attrs classes as JSON."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import MalformedError
from virtuallog_database.registrar.json_codec import json_table


class Colour(enum.Enum):
    """An enumeration in a record."""

    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Wheel:
    """A record in a record, that keeps what it does not know."""

    size: int
    unknown: Mapping[str, Any] = attrs.field(factory=dict, eq=False)


@attrs.frozen
class Engine:
    """A record in a record, that does not."""

    power: float = 1.5


@attrs.frozen
class Car:
    """A record."""

    id: str
    colour: Colour = Colour.RED
    engine: Engine | None = None
    wheels: tuple[Wheel, ...] = ()
    owners: Mapping[str, int] = attrs.field(factory=dict)
    is_old: bool = False
    unknown: Mapping[str, Any] = attrs.field(factory=dict, eq=False)


@attrs.frozen
class Plain:
    """A record that forgets what it does not know."""

    id: str = "none"
    count: int = 0


CARS = json_table("cars", Car)
PLAINS = json_table("plains", Plain)

TEXTS = st.text(st.characters(codec=None), max_size=5)
FLOATS = st.floats(allow_nan=False)
CAR_RECORDS = st.builds(
    Car,
    TEXTS,
    st.sampled_from(Colour),
    st.none() | st.builds(Engine, FLOATS),
    st.lists(st.builds(Wheel, st.integers())).map(tuple),
    st.dictionaries(TEXTS, st.integers(), max_size=3),
    st.booleans(),
)


@given(CAR_RECORDS)
def test_a_record_comes_back(car: Car) -> None:
    """With all that its fields may hold: large numbers, infinities, lone surrogates."""
    assert CARS.decode(CARS.encode(car)) == car


def test_defaults_are_not_stored() -> None:
    """So a record is small, and a later program may choose another default for those that never set one."""
    assert CARS.encode(Car("c")) == b'{"id":"c"}'
    assert CARS.encode(Car("c", engine=Engine(), wheels=(Wheel(0),))) == b'{"id":"c","engine":{},"wheels":[{"size":0}]}'
    assert PLAINS.encode(Plain()) == b"{}"


def test_text_is_not_escaped() -> None:
    """Operators read it, and it is shorter."""
    assert CARS.encode(Car("é\ud800")) == b'{"id":"\xc3\xa9\xed\xa0\x80"}'


def test_unknown_fields_are_kept_at_each_depth() -> None:
    """What a later program has added survives a change by this one, unless it adds a field of that name itself."""
    later = {"id": "c", "wheels": [{"size": 1, "brand": ["x"]}, {"size": 2}], "seats": {"front": 2}, "unknown": None}
    car = CARS.decode(json.dumps(later).encode())

    assert car.unknown == {"seats": {"front": 2}, "unknown": None}
    assert [wheel.unknown for wheel in car.wheels] == [{"brand": ["x"]}, {}]
    assert json.loads(CARS.encode(car)) == later
    assert json.loads(CARS.encode(attrs.evolve(car, is_old=True))) == {**later, "is_old": True}
    assert json.loads(CARS.encode(attrs.evolve(car, unknown={"id": "z", "new": 1}))) == {
        "id": "c",
        "wheels": later["wheels"],
        "new": 1,
    }


def test_a_record_without_the_field_forgets() -> None:
    """It reads the record all the same."""
    assert PLAINS.decode(b'{"id":"p","more":1}') == Plain("p")
    assert json.loads(CARS.encode(CARS.decode(b'{"id":"c","engine":{"power":3,"fuel":"air"}}')))["engine"] == {
        "power": 3.0
    }


@pytest.mark.parametrize(
    "blob",
    [
        b"", b"{", b"null", b"1", b'"id"', b"[]", b'["id"]', b"true", b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 100_000,
        b"{}", b'{"colour":"red"}', b'{"id":"c","colour":"green"}', b'{"id":"c","colour":[]}', b'{"id":"c","engine":[]}',
        b'{"id":"c","engine":{"power":"strong"}}', b'{"id":"c","engine":{"power":null}}', b'{"id":"c","wheels":3}',
        b'{"id":"c","wheels":[3]}', b'{"id":"c","wheels":[[]]}', b'{"id":"c","wheels":[{}]}',
        b'{"id":"c","wheels":[{"size":1e999}]}', b'{"id":"c","owners":[1]}', b'{"id":"c","owners":{"o":"x"}}',
        b'{"id":"c","owners":{"o":' + b"9" * 5000 + b"}}",
    ],
    ids=lambda blob: repr(blob[:40]),
)  # fmt: skip
def test_other_bytes_are_malformed(blob: bytes) -> None:
    """No JSON, no object, a missing field, a value of another kind, and what would exhaust the stack."""
    with pytest.raises(MalformedError):
        CARS.decode(blob)


@pytest.mark.parametrize("blob", [b"[]", b'"id"', b"3", b"null", b'["id","count"]', b'{"count":"x"}'])
def test_a_record_of_defaults_is_an_object_too(blob: bytes) -> None:
    """Another JSON value is no record, even where no field is needed."""
    with pytest.raises(MalformedError):
        PLAINS.decode(blob)


JSON_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 3, -1.5, 1e999, float("nan"), "", "red", "3", [], [3], [[]], {}, {"size": 1, "x": []}, {"power": "2"}]
)
FIELDS = st.dictionaries(
    st.sampled_from([field.name for field in attrs.fields(Car)]), JSON_VALUES | st.lists(JSON_VALUES, max_size=2)
)


@given(FIELDS | JSON_VALUES)
def test_any_json_is_read_or_malformed(value: Any) -> None:
    """And what was read is written and read again as the same."""
    try:
        car = CARS.decode(json.dumps(value).encode())
    except MalformedError:
        return
    again = CARS.decode(CARS.encode(car))
    assert again == car or "nan" in repr(car)


@given(CAR_RECORDS, st.integers(0, 80), st.binary(max_size=3), st.integers(0, 3))
def test_mutated_bytes_are_read_or_malformed(car: Car, at: int, patch: bytes, cut: int) -> None:
    """There is one error for all damage."""
    blob = CARS.encode(car)
    with suppress(MalformedError):
        CARS.decode(blob[:at] + patch + blob[at + cut :])
