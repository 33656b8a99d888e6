"""What a checker finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import attrs

from simulation.history import History, Operation


@attrs.frozen
class Violation:
    """A promise that was broken."""

    check: str
    """Name of the check; see docs/testing.md."""
    message: str
    events: tuple[int, ...] = ()
    """Indices, in the history, of the events that prove it."""


Check: TypeAlias = Callable[[History], Iterable[Violation]]


def proof(*operations: Operation) -> tuple[int, ...]:
    """The events of these operations, in order."""
    indices = {index for operation in operations for index in (operation.invoked, operation.ended) if index is not None}
    return tuple(sorted(indices))
