"""Pace of all open tails together: a bound on their work that does not depend on their number.

    log  ...| group | group | group | group |       what waits can be sent within BEHIND_SECONDS: all of it is
    log  ...|    skipped    | group | group |       more waits: what can be sent within KEPT_SECONDS is, and the rest is a count

A group is what every tail is sent at a time. With more tails groups come less often, and are as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

SENDS_PER_SECOND: Final = 100
"""Sends in a second to all tails together, some 0.2 ms of CPU time each inside TLS. So a hundred tails are sent something once a second each."""
BYTES_PER_SECOND: Final = 1 << 20
"""Bytes of events in a second to all tails together, but for what they read by themselves."""
GROUP_BYTES: Final = BYTES_PER_SECOND // SENDS_PER_SECOND
"""Bytes of a group, or one entry."""
BEHIND_SECONDS: Final = 6.0
"""Seconds in which all tails together can be sent what waits. Beyond that it is skipped, and so is one entry that takes longer by itself."""
KEPT_SECONDS: Final = 1.0
"""Seconds in which the rest can then be sent. A group, or one entry, is left in any case."""


@attrs.frozen
class TailPace:
    """The pace of so many tails, one at least."""

    tails: int

    def pause_seconds(self, size: int) -> float:
        """Time between the start of a group of so many bytes and the next one."""
        return self.tails * max(1 / SENDS_PER_SECOND, size / BYTES_PER_SECOND)

    def group(self, sizes: Sequence[int]) -> int:
        """Number of the first records, of these sizes, that make a group. One at least, however large it is."""
        return _fitting(sizes, GROUP_BYTES)

    def skipped(self, sizes: Sequence[int]) -> int:
        """Number of the first records, of these sizes, that are skipped."""
        if sum(sizes) <= self._bytes_in(BEHIND_SECONDS):
            return 0
        if sizes[-1] > self._bytes_in(BEHIND_SECONDS):
            return len(sizes)
        return len(sizes) - _fitting(sizes[::-1], self._kept)

    def skipped_unread(self, count: int, size: float) -> int:
        """Number of the first records that are skipped, and not read, of `count` whose mean size is some `size` bytes."""
        if count * size <= self._bytes_in(BEHIND_SECONDS):
            return 0
        return count - min(count, max(1, int(self._kept / size)))

    @property
    def _kept(self) -> float:
        return max(GROUP_BYTES, self._bytes_in(KEPT_SECONDS))

    def _bytes_in(self, seconds: float) -> float:
        """Bytes that each tail is sent in so many seconds at most."""
        return BYTES_PER_SECOND * seconds / self.tails


def _fitting(sizes: Sequence[int], room: float) -> int:
    """Number of the first sizes that have room together; 1 if not even the first one has."""
    for number, size in enumerate(sizes):
        room -= size
        if number and room < 0:
            return number
    return len(sizes)
