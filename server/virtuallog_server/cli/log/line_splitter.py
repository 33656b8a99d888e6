r"""Cuts a stream of bytes into lines, as `append --lines` understands them.                                  Pure.

A line ends at `\n` and nowhere else: `\r`, form feeds and Unicode's separators are data. The `\n` itself is not part of
the entry, empty lines are entries, and a last line without `\n` is one as well: dropping it would lose data. So what
`read --raw` prints is the input byte for byte, except that the last line then has its `\n`.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.errors import TooLargeError

GROUP_ENTRIES: Final = 4096
"""Entries that are appended in one call."""
GROUP_BYTES: Final = 1 << 20
"""A group is cut when it has so many bytes. With its last entry at most `ENTRY_BYTES_MAX` more, a group fits a batch."""


@attrs.define
class LineSplitter:
    """Feed chunks, take groups of lines."""

    _begun: list[bytes] = attrs.field(factory=list, init=False)
    """Pieces of a line that goes on in the next chunk."""
    _begun_bytes: int = attrs.field(default=0, init=False)
    _ended: int = attrs.field(default=0, init=False)
    """Lines before that one."""

    def feed(self, chunk: bytes) -> list[list[bytes]]:
        """The lines that `chunk` completes, in groups.

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
        r"""At the end of the stream: the last line, if it has no `\n`."""
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
