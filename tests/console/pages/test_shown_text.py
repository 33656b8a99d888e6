"""Values as text for readers."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog_console.pages.shown_text import count, number, parse_time, shown, shown_lines, size, when


@given(st.text())
def test_no_character_hides_or_reorders(text: str) -> None:
    """Categories of control, format, separator and surrogate characters are spelled; all others stay."""
    for found in shown(text):
        assert unicodedata.category(found) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(found) not in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    if text.isascii() and text.isprintable():
        assert shown(text) == text


def test_what_is_spelled_can_be_told() -> None:
    """An override of the direction, a zero byte, half of a pair, an end of a line; lines keep theirs."""
    assert shown("a\u202egnp.exe") == "a\\u202egnp.exe"
    assert shown("a\0b\ud800\n") == "a\\x00b\\ud800\\n"
    assert shown_lines("a\n\tb\x1b[31m") == "a\n\tb\\x1b[31m"
    assert shown("שלום") == "שלום"


def test_times_are_elements_in_utc() -> None:
    """With milliseconds; a time that no calendar has is a number."""
    assert when(1_700_000_000_123) == (
        '<time datetime="2023-11-14T22:13:20.123Z">2023-11-14 22:13:20.123 UTC</time>'
    )  # fmt: skip
    assert when((1 << 64) - 1) == "18446744073709551616 ms since 1970"
    assert when(-(1 << 63)).endswith("ms since 1970")


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("2023-11-14T22:13:20.123", 1_700_000_000_123),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_times_are_read(text: str, time_ms: int) -> None:
    """UTC, unless a zone is named."""
    assert parse_time(text) == time_ms


@pytest.mark.parametrize("text", ["", "yesterday", "1969-12-31", "12:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """No guess is made."""
    with pytest.raises(ValueError):
        parse_time(text)


def test_numbers_have_units_and_separators() -> None:
    """And one of a thing is singular."""
    assert [size(each) for each in (0, 1, 4000, 3 << 19)] == ["0 bytes", "1 byte", "4,000 bytes", "1.5 MiB"]
    assert [count(1, "entry", "entries"), count(2000, "entry", "entries")] == ["1 entry", "2,000 entries"]
    assert [number(None), number(1234), number("a\0")] == ["not known", "1,234", "a\\x00"]
