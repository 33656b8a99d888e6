"""Addresses of one loglet's waves in a log server's WAL, in memory: 24 bytes per wave, rebuilt by
replay.

All of it stays in memory: a store must know at once whether its wave is already stored, and a read
where it is. Ten million waves of one entry each take 240 MB; in waves of a hundred, as many entries
take 2.4 MB.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.contract.errors import MalformedError
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.wal.core.record import Address

ENTRY_BYTES: Final = 24
"""Bytes of one wave in an index file: two columns of 8 bytes, two of 4."""


@attrs.define(eq=False)
class WaveIndex:
    """Ascending index of waves. It may have gaps: waves committed elsewhere before this server was
    offered them."""

    _firsts: array[int] = attrs.field(factory=lambda: array("q"))
    _entries: array[int] = attrs.field(factory=lambda: array("I"))
    _checksums: array[int] = attrs.field(factory=lambda: array("I"))
    _addresses: array[int] = attrs.field(factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """(first offset, entries, checksum) of each wave, for tools that compare servers."""
        return zip(self._firsts, self._entries, self._checksums, strict=True)

    @property
    def lowest_address(self) -> Address | None:
        """Address of the first wave; None if there is none."""
        return Address(self._addresses[0]) if self._addresses else None

    def add(self, wave: Wave, address: Address) -> None:
        """Add a wave behind all others."""
        assert not self._firsts or wave.first >= self._firsts[-1] + self._entries[-1]
        self._firsts.append(wave.first)
        self._entries.append(wave.stop - wave.first)
        self._checksums.append(wave.checksum)
        self._addresses.append(address)

    def conflicts(self, wave: Wave) -> bool:
        """True if a *different* wave is stored over any of the same offsets. Only a broken
        component can cause that."""
        index = bisect_right(self._firsts, wave.first) - 1
        if index >= 0 and self._firsts[index] == wave.first:
            return self._checksums[index] != wave.checksum
        overlaps_before = index >= 0 and self._stop(index) > wave.first
        overlaps_after = index + 1 < len(self._firsts) and self._firsts[index + 1] < wave.stop
        return overlaps_before or overlaps_after

    def find(self, start: int, stop: int, count_max: int) -> list[Address]:
        """Addresses of consecutive waves. The first holds `start`, the last begins below `stop`."""
        index = bisect_right(self._firsts, start) - 1
        found: list[Address] = []
        while 0 <= index < len(self._firsts) and self._holds(index, start) and start < stop and len(found) < count_max:
            found.append(Address(self._addresses[index]))
            start = self._stop(index)
            index += 1
        return found

    def drop_below(self, offset: int) -> None:
        """Forget the waves that lie wholly below `offset`."""
        count = bisect_left(self._firsts, offset)
        if count and self._stop(count - 1) > offset:
            count -= 1
        for column in self._columns:
            del column[:count]

    def part(self, first: Address, stop: Address) -> WaveIndex:
        """Copy of the entries whose addresses are in [first, stop)."""
        low, high = bisect_left(self._addresses, first), bisect_left(self._addresses, stop)
        return WaveIndex(*(column[low:high] for column in self._columns))

    def follows(self, other: WaveIndex) -> bool:
        """True if all of this lies behind all of `other`."""
        return not self._firsts or not other._firsts or self._firsts[0] >= other._stop(-1)

    def extend(self, part: WaveIndex) -> None:
        """Append a part that follows."""
        assert part.follows(self)
        for mine, added in zip(self._columns, part._columns, strict=True):
            mine.extend(added)

    @property
    def stop(self) -> int:
        """One past the last offset; 0 if the index is empty."""
        return self._stop(-1) if self._firsts else 0

    def encode(self) -> bytes:
        """The four columns, one after the other, little-endian: `ENTRY_BYTES` per wave."""
        return b"".join(_little_endian(column[:]).tobytes() for column in self._columns)

    @classmethod
    def decode_untrusted(cls, image: bytes) -> WaveIndex:
        """Decode an image made by `encode`.

        Raises:
            MalformedError: the image cannot be one.
        """
        count, rest = divmod(len(image), ENTRY_BYTES)
        if rest:
            raise MalformedError(f"{len(image)} bytes are no index of waves")
        found, at = cls(), 0
        for column in found._columns:
            column.frombytes(image[at : at + count * column.itemsize])
            _little_endian(column)
            at += count * column.itemsize
        return found

    @property
    def _columns(self) -> tuple[array[int], ...]:
        return self._firsts, self._entries, self._checksums, self._addresses

    def _holds(self, index: int, offset: int) -> bool:
        return self._firsts[index] <= offset < self._stop(index)

    def _stop(self, index: int) -> int:
        return self._firsts[index] + self._entries[index]


def _little_endian(column: array[int]) -> array[int]:
    """Convert a column from this machine's byte order to the format's little-endian, or back."""
    if sys.byteorder == "big":
        column.byteswap()
    return column
