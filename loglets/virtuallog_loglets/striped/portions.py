"""How much of a striped loglet is read at once.                                                                         Pure.

Whatever a stripe is asked for, it gives a batch at least, however large that is. Asked all together, 64 stripes with batches of 8 MiB would
give 512 MiB where the caller wants one. So as many slots are read as the batches of earlier answers let expect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from virtuallog.api import Placed
from virtuallog.types import Gap

GUESS_BYTES: Final = 64 << 10
"""Of a batch, before the first read: more than most have, and 16 of them fit what a reader asks for."""


@attrs.define(eq=False)
class Portions:
    """The reads of one client."""

    _stripes: int
    _batch_bytes: int = attrs.field(default=GUESS_BYTES, init=False)
    """Of the largest batch lately: each read that brings smaller ones halves it."""

    def slots_max(self, max_bytes: int) -> int | None:
        """How many slots to read; None if it need not be bounded, as a batch of each stripe is no more than `max_bytes`."""
        return None if self._batch_bytes * self._stripes <= max_bytes else max(1, max_bytes // self._batch_bytes)

    def given(self, items: Iterable[Placed]) -> None:
        """What a read has given."""
        largest = max((len(item.batch.blob) for item in items if not isinstance(item, Gap)), default=0)
        self._batch_bytes = max(largest, self._batch_bytes // 2)
