"""Values as text, and views as JSON."""

from __future__ import annotations

import enum
import json

import attrs
import pytest

from virtuallog_console.views.plain import plain
from virtuallog_console.views.values import JSON_BYTES_MAX, Decoder, Value, decode, readable, withhold


@pytest.mark.parametrize(
    ("payload", "decoder", "text"),
    [
        (b"", Decoder.TEXT, ""),
        (b"plain", Decoder.TEXT, "plain"),
        ("Grüße\n".encode(), Decoder.TEXT, "Grüße\n"),
        (b'{"a": 1}', Decoder.JSON, '{"a": 1}'),
        (b"12", Decoder.TEXT, "12"),
        (b"{no json", Decoder.TEXT, "{no json"),
        (b"a\0b", Decoder.HEX, "610062"),
        (b"\xff\xfe", Decoder.HEX, "fffe"),
    ],
)
def test_the_reading_is_chosen_by_the_bytes(payload: bytes, decoder: Decoder, text: str) -> None:
    """JSON, text or hexadecimal: each shows all of a short value."""
    assert decode(payload) == Value(size=len(payload), decoder=decoder, text=text)


def test_a_viewer_may_choose_another_reading() -> None:
    """Bytes that do not fit it are escaped; a value that is no JSON is not called so."""
    assert decode(b"ab", Decoder.HEX).text == "6162"
    assert decode(b"a\xff", Decoder.TEXT).text == "a\\xff"
    assert decode(b"12", Decoder.JSON).decoder is Decoder.JSON
    assert decode(b"x", Decoder.JSON).decoder is Decoder.TEXT


def test_a_long_value_is_cut_between_characters() -> None:
    """The size is that of the whole value, and half a character is not shown."""
    assert decode("äöü".encode(), max_bytes=3) == Value(size=6, decoder=Decoder.TEXT, text="ä", is_cut=True)
    assert decode(b"\xff" * 10, max_bytes=2).text == "ffff"
    assert decode(b"abc", max_bytes=-1).text == ""


def test_json_is_parsed_up_to_a_bound() -> None:
    """A longer one is shown as text, and one without an end of brackets is no JSON."""
    long = json.dumps("x" * JSON_BYTES_MAX).encode()
    assert decode(long).decoder is Decoder.TEXT
    assert decode(b"[" * 60_000).decoder is Decoder.TEXT


def test_a_withheld_value_has_a_size_and_a_reason() -> None:
    """Nothing else of it is there to be shown by mistake."""
    assert withhold(7, "because") == Value(size=7, is_cut=True, withheld="because")


class _Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class _Piece:
    name: str
    colour: _Colour = _Colour.RED
    extent: range = range(2, 5)
    sizes: tuple[float, ...] = (1.5, float("inf"))
    blob: bytes = b"\1"
    is_old: bool = False
    _inner: int = 3


def test_a_view_becomes_plain_values() -> None:
    """All that a view holds can be written as JSON in UTF-8, halves of surrogate pairs too."""
    found = plain({"piece": _Piece("a\ud800"), "none": None, "set": frozenset({2, 1})})
    assert found == {
        "piece": {
            "name": "a\\ud800", "colour": "red", "extent": [2, 5], "sizes": [1.5, None], "blob": "01", "is_old": False
        },
        "none": None,
        "set": [1, 2],
    }  # fmt: skip
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    assert plain([1 << 53, 1 + (1 << 53), -1 - (1 << 53)]) == [1 << 53, "9007199254740993", "-9007199254740993"]
    assert readable("é\udfff") == "é\\udfff"
