"""Tables and records as they are stored."""

from __future__ import annotations

import struct
from contextlib import suppress

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import CorruptionError, InvalidSettingError
from virtuallog_database.registrar.core.ownership import OWNERSHIP, Ownership
from virtuallog_database.registrar.core.tables import (
    KEY_BYTES_MAX,
    RecordTable,
    Registry,
    Slot,
    decode_untrusted,
    encode_key,
    encode_slot,
    split_key,
    split_slot,
)
from virtuallog_database.registrar.json_codec import json_table


@attrs.frozen
class Point:
    """A record with fields of several kinds."""

    x: int
    y: float = 0.0
    names: tuple[str, ...] = ()
    parent: str | None = None


TEXTS = RecordTable("texts", str.encode, bytes.decode)
POINTS = json_table("points", Point)
TABLES = (TEXTS, POINTS, OWNERSHIP)


@pytest.mark.parametrize("name", ["", "A", "aB", "a-b", "a.b", "a b", "a\0b", "ä", "1", "_"])
def test_names_of_tables(name: str) -> None:
    """A name is of lower-case letters, digits and underscores, with a letter: so it never ends a key early."""
    with pytest.raises(InvalidSettingError):
        RecordTable(name, str.encode, bytes.decode)


@pytest.mark.parametrize(
    "key", ["a", "a/b", "\0", "a\0b", "é€\U0001f600", "\ud800", "x" * KEY_BYTES_MAX, "é" * (KEY_BYTES_MAX // 2)]
)
def test_any_short_text_is_a_key(key: str) -> None:
    """It comes back as it was, zeros and lone surrogates included."""
    encoded = encode_key("texts", key)

    assert split_key(encoded) == ("texts", key)
    assert decode_untrusted(encoded, encode_slot(TEXTS, Slot(7, "record")), {"texts": TEXTS}) == (
        "texts",
        key,
        Slot(7, "record"),
    )


@pytest.mark.parametrize("key", ["", "x" * (KEY_BYTES_MAX + 1), "é" * (KEY_BYTES_MAX // 2 + 1)])
def test_keys_are_bounded(key: str) -> None:
    """In bytes, not in characters."""
    with pytest.raises(InvalidSettingError):
        encode_key("texts", key)


def test_durable_format() -> None:
    """These bytes are on disks: the name, a zero and the key; the number and the record."""
    assert encode_key("texts", "k1") == b"texts\0k1"
    assert encode_slot(TEXTS, Slot(258, "hello")) == bytes.fromhex("0000000000000102") + b"hello"
    assert split_slot(bytes.fromhex("0000000000000102") + b"hello") == (258, b"hello")
    assert encode_slot(POINTS, Slot(1, Point(1, names=("a",))))[8:] == b'{"x":1,"names":["a"]}'


def test_records_are_in_order_of_their_numbers() -> None:
    """The storage may find them in any order; the next number is above all of them."""
    stored = {
        encode_key("texts", key): encode_slot(TEXTS, Slot(number, key))
        for number, key in ((300, "c"), (2, "b"), (41, "a"))
    }
    registry = Registry.decode_untrusted(stored, TABLES)

    assert [key for key, _ in registry.items(TEXTS)] == ["b", "a", "c"]
    assert registry.next_number == 301
    assert (registry.get(TEXTS, "a"), registry.get(TEXTS, "z"), registry.count(TEXTS), registry.count(POINTS)) == (
        "a",
        None,
        3,
        0,
    )
    assert Registry.decode_untrusted({}, TABLES).next_number == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", bytes(8)),
        (b"texts", b""),
        (b"texts\0a", bytes(7)),
        (b"texts\0a", bytes(8) + b"\xff"),
        (b"texts\0\xff", bytes(8)),
        (b"other\0a", bytes(8)),
        (b"\xff\0a", bytes(8)),
        (b"points\0a", bytes(8)),
        (b"points\0a", bytes(8) + b"[]"),
        (b"points\0a", bytes(8) + b"[" * 100_000),
        (b"registrar\0ownership", bytes(8) + b"[" * 100_000),
    ],
    ids=lambda each: each[:20].hex(),
)
def test_a_record_that_is_none_is_corruption(key: bytes, value: bytes) -> None:
    """A missing table, a short value, bytes that the table cannot read."""
    with pytest.raises(CorruptionError):
        Registry.decode_untrusted({key: value}, TABLES)


GOOD = {
    encode_key("texts", "a"): encode_slot(TEXTS, Slot(1, "some text")),
    encode_key("points", "p"): encode_slot(POINTS, Slot(2, Point(5, 0.5, ("n", "m"), "q"))),
    encode_key("registrar", "ownership"): encode_slot(OWNERSHIP, Slot(3, Ownership("me", 4, ("c",)))),
}


@given(st.sampled_from([*GOOD]), st.booleans(), st.integers(0, 60), st.binary(max_size=4), st.integers(0, 4))
def test_mutated_bytes_are_read_or_corruption(which: bytes, of_key: bool, at: int, patch: bytes, cut: int) -> None:
    """Any bytes in any place of a key or a value give a registry, or this one error."""
    old = which if of_key else GOOD[which]
    new = old[:at] + patch + old[at + cut :]
    records = {key: value for key, value in GOOD.items() if key != which}
    records |= {new: GOOD[which]} if of_key else {which: new}

    with suppress(CorruptionError):
        registry = Registry.decode_untrusted(records, TABLES)
        assert sum(registry.count(table) for table in TABLES) in (2, 3)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_random_bytes_are_read_or_corruption(key: bytes, value: bytes) -> None:
    """Also those that resemble nothing."""
    for prefix in (b"", b"texts\0", b"points\0", b"registrar\0"):
        with suppress(CorruptionError):
            Registry.decode_untrusted({prefix + key: struct.pack(">Q", 1) + value}, TABLES)
