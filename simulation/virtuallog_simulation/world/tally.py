"""Counts of a part that also count for the whole: of one machine, and of its world."""

from __future__ import annotations

from collections import Counter


class Tally(Counter[str]):
    """Add to it by `tally[name] += 1` or `tally += counter`; `update` would pass the whole by."""

    def __init__(self, whole: Counter[str]) -> None:
        super().__init__()
        self._whole = whole

    def __setitem__(self, name: str, count: int) -> None:
        self._whole[name] += count - self[name]
        super().__setitem__(name, count)
