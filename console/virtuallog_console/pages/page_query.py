"""Values in the address of a page. A wrong one is a sentence on the page; an unknown name is left out of account, as in links of others."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.datastructures import QueryParams

from virtuallog.contract.types import POSITION_MAX
from virtuallog_console.pages.shown_text import parse_time
from virtuallog_console.views.values import Decoder

_DIGITS_MAX: Final = 19
"""Digits of the highest position."""
TEXT_MAX: Final = 8 << 10
"""Longest text in an address, such as a path. Heads of requests have less than twice that."""


class PageQueryError(Exception):
    """An address has a value that makes no sense. The text is a sentence for its reader."""


@attrs.frozen
class PageQuery:
    """The query string of a page. An empty value counts as none: forms send one for each empty field."""

    params: QueryParams

    def number(self, name: str, low: int = 0, high: int = POSITION_MAX) -> int | None:
        """A whole number. None if it is not given.

        Raises:
            PageQueryError: it is none, or not from `low` to `high`.
        """
        text = self.text(name)
        return parse_number(name, text, low, high) if text else None

    def text(self, name: str) -> str:
        """A text. Empty if it is not given.

        Raises:
            PageQueryError: it is too long.
        """
        text = self.params.get(name, "")
        if len(text) > TEXT_MAX:
            raise PageQueryError(f"The value of {name} is longer than {TEXT_MAX:,} characters.")
        return text

    def time_ms(self, name: str) -> int | None:
        """A time, as milliseconds since the epoch. None if it is not given.

        Raises:
            PageQueryError: it is none.
        """
        text = self.text(name).strip()
        if not text:
            return None
        try:
            return parse_time(text)
        except (ValueError, OverflowError):
            raise PageQueryError(
                f"{text[:60]} is no time. Write a time in UTC from 1970 on, such as 2026-01-31T12:00:00."
            ) from None

    def decoder(self) -> Decoder:
        """The reading of values.

        Raises:
            PageQueryError: there is no such reading.
        """
        text = self.text("decoder") or Decoder.AUTO.value
        try:
            return Decoder(text)
        except ValueError:
            names = ", ".join(each.value for each in Decoder)
            raise PageQueryError(f"There is no decoder {text[:60]}: use one of {names}.") from None


def parse_number(name: str, text: str, low: int = 0, high: int = POSITION_MAX) -> int:
    """Parse a whole number in decimal digits; commas and spaces between them are left out, as pages print commas.

    Raises:
        PageQueryError: it is none, or not from `low` to `high`.
    """
    digits = text.strip().replace(",", "").replace(" ", "")
    if digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX and low <= int(digits) <= high:
        return int(digits)
    raise PageQueryError(f"{text[:60]} is no {name}. Write a whole number from {low} to {high}.")
