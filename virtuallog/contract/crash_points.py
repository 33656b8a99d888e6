"""Crash points: named places in product code where the simulator may end a process.

    _SYNCED = CrashPoint("wal: a group is durable, nobody has been told")       at module level

    await self._file.write_synced(offset, chunks)
    _SYNCED.reached()                                                            a simulated process
    may end here
    done(addresses)

A point lies between two steps that the world can tell apart. Faults at random times hit the moment
between two lines only by luck. With a name, a simulator can end a process exactly there, and a run
set can prove that it has. A name is "area: what is so already, what is not yet".

In production `reached` looks at an empty list. Call it once per group, wave, call or change, never
per entry, and only where state or messages differ before and after: a crash between two
computations is no other crash. Authors of loglets define their own points in the same way; the
simulator finds them in `CRASH_POINTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

Hook: TypeAlias = Callable[["CrashPoint"], None]
"""Called when a point is reached. Exceptions it raises come out of `reached`."""

_hooks: Final[list[Hook]] = []


class CrashPoint:
    """A crash point. Define it at module level, so that importing a module registers all its points."""

    __slots__ = ("name", "rare")

    def __init__(self, name: str, *, rare: bool = False) -> None:
        """Register a crash point.

        Args:
            name: unique phrase that a reader of a failing run understands.
            rare: True if reached only now and then in the life of a cluster; simulators aim at it
                more often.

        Raises:
            ValueError: there is a point of this name.
        """
        if name in CRASH_POINTS:
            raise ValueError(f"two crash points are called '{name}'")
        self.name = name
        self.rare = rare
        CRASH_POINTS[name] = self

    @property
    def area(self) -> str:
        """Part of the product that the point belongs to: the name up to the colon."""
        return self.name.partition(":")[0]

    def reached(self) -> None:
        """Mark that execution is here. Does nothing without hooks; with one, this call may not return."""
        for hook in _hooks:
            hook(self)

    def __repr__(self) -> str:
        return f"CrashPoint({self.name!r})"


CRASH_POINTS: Final[dict[str, CrashPoint]] = {}
"""All points of the modules imported so far, by name."""


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Call `hook` at every crash point inside the block."""
    _hooks.append(hook)
    try:
        yield
    finally:
        _hooks.remove(hook)
