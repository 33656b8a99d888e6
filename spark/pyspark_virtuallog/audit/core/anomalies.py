"""Counts of anomalies, with the first few examples of each sort."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

EXAMPLES_MAX: Final = 20
"""Examples of each sort. With so many, an operator looks at the whole rather than at the next one."""


@attrs.define
class Anomaly:
    """An anomaly at `position`; `count` of them, if there were too many to keep each."""

    check: str
    count: int
    position: int
    detail: Any


@attrs.define
class Anomalies:
    """The first `EXAMPLES_MAX` of each sort; the last one of these counts all that follow."""

    _kept: dict[str, list[Anomaly]] = attrs.field(factory=dict, init=False)

    def add(self, check: str, position: int, detail: Any, count: int = 1) -> None:
        """Record an anomaly."""
        kept = self._kept.setdefault(check, [])
        if len(kept) < EXAMPLES_MAX:
            kept.append(Anomaly(check, int(count), position, detail))
        else:
            kept[-1].count += int(count)

    def __iter__(self) -> Iterator[Anomaly]:
        for kept in self._kept.values():
            yield from kept
