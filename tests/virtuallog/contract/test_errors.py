"""Errors cross the wire whole; text that is no error becomes an unknown outcome."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from virtuallog.contract import errors
from virtuallog.contract.errors import (
    RetryableError,
    SealedError,
    TerminalError,
    UnavailableError,
    VirtualLogError,
    decode_untrusted,
    encode,
)

FAMILY = sorted(
    (
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, VirtualLogError) and attrs.has(value)
    ),
    key=lambda error_class: error_class.__name__,
)

VALUES = {"str": st.text(), "int": st.integers(), "bool": st.booleans()}


def test_the_family_is_complete() -> None:
    """All errors with fields are found; the three that only group others are not."""
    assert SealedError in FAMILY
    assert len(FAMILY) >= 18
    assert not {VirtualLogError, RetryableError, TerminalError} & set(FAMILY)


@pytest.mark.parametrize("error_class", FAMILY)
@given(st.data())
def test_every_error_survives_the_wire(error_class: type[VirtualLogError], data: st.DataObject) -> None:
    """Class and fields of every error survive the wire, for any values."""
    fields = attrs.fields(error_class)  # type: ignore[arg-type]
    error = error_class(**{field.name: data.draw(VALUES[str(field.type)]) for field in fields})

    line = encode(error)
    decoded = decode_untrusted(line)

    assert "\n" not in line
    assert type(decoded) is error_class
    assert attrs.asdict(decoded) == attrs.asdict(error)  # type: ignore[arg-type]


@given(st.text())
@example("SealedError")
@example("SealedError null")
@example("SealedError []")
@example('SealedError {"reason": 1}')
@example('SealedError {"reason": "x", "more": "y"}')
@example('OutOfOrderError {"expected_sequence": true}')
@example("VirtualLogError {}")
@example("Exception {}")
def test_garbage_is_an_unknown_outcome(text: str) -> None:
    """Any text of the other side gives an error that the caller can act on, with a bounded quotation."""
    decoded = decode_untrusted(text)

    assert type(decoded) is UnavailableError
    assert len(str(decoded)) < 300


@pytest.mark.parametrize("repeated", ["1", "[", '{"a":'])
def test_long_garbage_is_an_unknown_outcome_too(repeated: str) -> None:
    """Neither a number of a hundred thousand digits nor as many brackets end the process."""
    decoded = decode_untrusted("SealedError " + repeated * 100_000)

    assert type(decoded) is UnavailableError
    assert len(str(decoded)) < 300


@pytest.mark.parametrize("error_class", FAMILY)
def test_an_error_of_a_later_release_is_an_unknown_outcome(error_class: type[VirtualLogError]) -> None:
    """An error with an unknown field is an unknown outcome: the field may change the meaning."""
    fields = attrs.fields(error_class)  # type: ignore[arg-type]
    values = {field.name: {"str": "x", "int": 1, "bool": True}[str(field.type)] for field in fields}
    text = f"{error_class.__name__} {json.dumps(values | {'later': 1})}"

    assert type(decode_untrusted(text)) is UnavailableError


@pytest.mark.parametrize("error_class", FAMILY)
def test_every_error_says_something_and_belongs_somewhere(error_class: type[VirtualLogError]) -> None:
    """The text of an error has its values; it is retryable, terminal, or one of the two that send
    the caller to the chain."""
    fields = attrs.fields(error_class)  # type: ignore[arg-type]
    values = {field.name: {"str": field.name.upper(), "int": 77, "bool": True}[str(field.type)] for field in fields}
    text = str(error_class(**values))

    assert all(str(value) in text for value in values.values() if value is not True)
    assert issubclass(error_class, RetryableError | TerminalError) or error_class.__name__ in {
        "SealedError",
        "ChainConflictError",
    }
