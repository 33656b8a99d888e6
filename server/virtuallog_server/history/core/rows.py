"""Rows of one answer: so many of them and so many bytes, from the first one on or up to the last one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

import attrs

ROWS_BYTES_MAX: Final = 64 << 20
"""Most bytes of the values and ACLs in one answer. Rows have some hundred bytes besides."""


class Sized(Protocol):
    """A row."""

    @property
    def size(self) -> int:
        """Bytes of its values and ACLs."""
        ...


RowT = TypeVar("RowT", bound=Sized)


@attrs.define(kw_only=True)
class Rows(Generic[RowT]):
    """The rows so far. An answer has at least one row, also if that is larger than allowed."""

    limit: int
    """Most rows."""
    only_last: bool = False
    """True to drop the first rows for further ones."""
    bytes_max: int
    dropped: int = attrs.field(default=0, init=False)
    """Number of rows that were dropped."""
    _rows: deque[RowT] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)

    @property
    def is_full(self) -> bool:
        """True if the answer should end here. Never if only the last rows count."""
        return not self.only_last and (len(self._rows) >= self.limit or self._bytes >= self.bytes_max)

    def add(self, row: RowT) -> None:
        """Add a row behind the others."""
        self._rows.append(row)
        self._bytes += row.size
        while self.only_last and (len(self._rows) > self.limit or self._bytes > self.bytes_max) and len(self._rows) > 1:
            self._bytes -= self._rows.popleft().size
            self.dropped += 1

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RowT]:
        return iter(self._rows)
