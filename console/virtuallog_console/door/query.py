"""Values in query strings, paths and headers: numbers with bounds, and words of a list. Anything else is refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import attrs
from starlette.datastructures import QueryParams

from virtuallog.contract.types import POSITION_MAX
from virtuallog_console.access.core.problem import Problem, ProblemError

_DIGITS_MAX: Final = 19
"""Digits of the highest position."""


def malformed(name: str, value: str, wanted: str) -> ProblemError:
    """The refusal of one value."""
    return ProblemError(
        Problem(
            status=400,
            kind="malformed",
            title="The request is malformed",
            detail=f"{name} is '{value[:100]}'",
            remedy=f"{name} must be {wanted}",
        )
    )


def parse_number(name: str, text: str, low: int = 0, high: int = POSITION_MAX) -> int:
    """Parse a whole number in decimal digits.

    Raises:
        ProblemError: it is none, or not from `low` to `high`.
    """
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX and low <= int(text) <= high:
        return int(text)
    raise malformed(name, text, f"a whole number from {low} to {high}")


@attrs.frozen
class Query:
    """The query string of a request, of which each name is known and given once."""

    _params: QueryParams

    @classmethod
    def of(cls, params: QueryParams, known: Collection[str]) -> Query:
        """Check the names.

        Raises:
            ProblemError: a name is unknown, or given twice. An ignored name would change what is asked for.
        """
        seen: set[str] = set()
        for name, _ in params.multi_items():
            if name not in known:
                raise malformed("the query string", name, f"made of {', '.join(sorted(known)) or 'nothing'}")
            if name in seen:
                raise malformed("the query string", name, "given once")
            seen.add(name)
        return cls(params)

    def number(self, name: str, low: int = 0, high: int = POSITION_MAX) -> int | None:
        """A number. None if it is not given.

        Raises:
            ProblemError: it is not from `low` to `high`.
        """
        text = self._params.get(name)
        return None if text is None else parse_number(name, text, low, high)

    def word(self, name: str, words: Sequence[str]) -> str:
        """One of these words; the first one if none is given.

        Raises:
            ProblemError: it is none of them.
        """
        text = self._params.get(name, words[0])
        if text not in words:
            raise malformed(name, text, f"one of {', '.join(words)}")
        return text
