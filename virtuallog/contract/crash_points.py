"""Named places in product code where a simulated process may die, between two steps that the world can tell apart.

    _SYNCED = CrashPoint("wal: a group is durable, nobody has been told")       at module level

    await self._file.write_synced(offset, chunks)
    _SYNCED.reached()                                                            a simulated process may end here
    done(addresses)

Faults that come at random times hit the moment between two lines only by luck. With a name, a simulator can let a
process die exactly there, and a run set can prove that it has. A name is "area: what is so already, what is not yet".

In production `reached` looks at an empty list. Call it once per group, wave, call or change, never per entry, and only
where state or messages differ before and after: a crash between two computations is no other crash. Authors of loglets
make points of their own in the same way; the simulator finds them in `CRASH_POINTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

Hook: TypeAlias = Callable[["CrashPoint"], None]
"""Called when a point is reached. What it raises comes out of `reached`."""

_hooks: Final[list[Hook]] = []


class CrashPoint:
    """One such place. Make it at module level, so that a module that is imported has all its points registered."""

    __slots__ = ("name", "rare")

    def __init__(self, name: str, *, rare: bool = False) -> None:
        """
        Args:
            name: a phrase that a reader of a failing run understands; unique.
            rare: reached now and then in the life of a cluster, not all the time; simulators aim at it more often.

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
        """The part of the product that it belongs to: what stands before the colon."""
        return self.name.partition(":")[0]

    def reached(self) -> None:
        """Here. Does nothing, unless somebody watches; then this call may not return."""
        for hook in _hooks:
            hook(self)

    def __repr__(self) -> str:
        return f"CrashPoint({self.name!r})"


CRASH_POINTS: Final[dict[str, CrashPoint]] = {}
"""All points of the modules imported so far, by name."""


@contextmanager
def hooked(hook: Hook) -> Iterator[None]:
    """Watch every crash point meanwhile."""
    _hooks.append(hook)
    try:
        yield
    finally:
        _hooks.remove(hook)
