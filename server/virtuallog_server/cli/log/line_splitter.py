r"""Splitter of a byte stream into lines, for `append --lines`.

A line ends at `\n` and nowhere else: `\r`, form feeds and Unicode's separators are data. The `\n` itself is not part of
the entry, and empty lines are entries. A last line without `\n` is an entry as well: to drop it would lose data. So
`read --raw` prints the input byte for byte, except that the last line then has its `\n`.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.errors import TooLargeError

GROUP_ENTRIES: Final = 4096
"""Most entries in one call of `append`."""
GROUP_BYTES: Final = 1 << 20
"""Size at which a group ends. Its last entry adds at most `ENTRY_BYTES_MAX`, and so it fits into a batch."""


@attrs.define
class LineSplitter:
    """Turns chunks of bytes into groups of lines."""

    _begun: list[bytes] = attrs.field(factory=list, init=False)
    """Pieces of the line that continues in the next chunk."""
    _begun_bytes: int = attrs.field(default=0, init=False)
    _ended: int = attrs.field(default=0, init=False)
    """Number of lines before that line."""

    def feed(self, chunk: bytes) -> list[list[bytes]]:
        """Return the lines that `chunk` completes, in groups.

        Raises:
            TooLargeError: a line is longer than an entry may be.
        """
        first, *others = chunk.split(b"\n")
        self._begin(first)
        if not others:
            return []
        lines = [b"".join(self._begun), *others[:-1]]
        self._begun, self._begun_bytes = [], 0
        self._ended += len(lines)
        self._begin(others[-1])
        return _group(lines)

    def finish(self) -> list[list[bytes]]:
        r"""Return the last line if it has no `\n`. Call it at the end of the stream."""
        return [[b"".join(self._begun)]] if self._begun_bytes else []

    def _begin(self, piece: bytes) -> None:
        self._begun_bytes += len(piece)
        if self._begun_bytes > ENTRY_BYTES_MAX:
            what = f"bytes or more in line {self._ended + 1}"
            raise TooLargeError(what=what, size=self._begun_bytes, limit=ENTRY_BYTES_MAX)
        self._begun.append(piece)


def _group(lines: list[bytes]) -> list[list[bytes]]:
    groups: list[list[bytes]] = []
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if len(group) >= GROUP_ENTRIES or size >= GROUP_BYTES:
            groups.append(group)
            group, size = [], 0
    return [*groups, group] if group else groups
