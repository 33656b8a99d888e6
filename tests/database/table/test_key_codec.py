"""Keys compare as their values do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_database.table.core import keys
from virtuallog_database.table.core.key_codec import INT_BYTES_MAX, encode_value, escape, successor

VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: st.text("\0\1a\x7f\xe9\uffff\U00010000", max_size=4) | st.text(max_size=4),
    bytes: st.binary(max_size=4) | st.lists(st.sampled_from([b"\0", b"\xff", b"\1"]), max_size=4).map(b"".join),
    int: st.integers(-300, 300) | st.integers() | st.sampled_from([1 << 64, -(1 << 64), 255, 256, -255, -256]),
    bool: st.booleans(),
    float: st.floats(allow_nan=False) | st.integers(-3, 3),
}


@pytest.mark.parametrize("kind", VALUES)
def test_order_is_preserved(kind: type) -> None:
    """Also in front of another column, and equal values have one encoding."""

    @given(VALUES[kind], VALUES[kind], st.binary(max_size=2), st.binary(max_size=2))
    def check(one: Any, other: Any, behind: bytes, behind_other: bytes) -> None:
        mine, theirs = encode_value(kind, one), encode_value(kind, other)
        assert (mine < theirs, mine == theirs) == (one < other, one == other)
        if one != other:
            assert (mine + behind < theirs + behind_other) == (one < other)

    check()


@given(VALUES[bytes], VALUES[bytes], VALUES[bytes], VALUES[bytes])
def test_entries_are_in_the_order_of_their_columns(one: bytes, key: bytes, other: bytes, other_key: bytes) -> None:
    """Then of the keys of their rows; two rows never have one entry."""
    mine, theirs = keys.entry(one, key, is_unique=False), keys.entry(other, other_key, is_unique=False)
    assert (mine < theirs) == ((one, key) < (other, other_key))
    assert (mine >= escape(other)) == (one >= other), "a bound has no terminator"


@given(VALUES[bytes], VALUES[bytes])
def test_a_successor_is_above_all_that_begin_so(prefix: bytes, rest: bytes) -> None:
    """And not above anything else."""
    above = successor(prefix)
    assert not above or prefix + rest < above
    assert (prefix <= rest and (not above or rest < above)) == rest.startswith(prefix)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True), (int, 1.0), (int, "1"), (bool, 1), (str, b""), (bytes, ""), (float, float("nan")), (float, True),
        (float, 10**400), (int, 1 << 8 * INT_BYTES_MAX), (str, None),
    ],
)  # fmt: skip
def test_other_values_are_refused(kind: type, value: Any) -> None:
    """A value of another type would stand at a wrong place."""
    with pytest.raises(InvalidSettingError):
        encode_value(kind, value)
