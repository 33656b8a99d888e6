"""A class of faults: its name, what it does, and the counters that prove that it did.

A class either holds for a whole run (`prepare`: how lossy links are, how wrong clocks) or strikes again and again
(`act`), or both are None and something else carries it out. All that it draws comes from a source of its own, so that a
run without it has the same other faults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from virtuallog_simulation.faults.context import FaultContext


@attrs.frozen(kw_only=True)
class FaultClass:
    """One class of faults: its name, its act and how it is counted."""

    name: str
    """Name in options, and under which each act is counted."""
    about: str
    """One line: what happens."""
    proof: tuple[str, ...] = ()
    """Counters that show that it took effect: all of them, over enough runs. For an act its name is one more."""
    prepare: Callable[[FaultContext], None] | None = None
    """Called once, before the load begins."""
    act: Callable[[FaultContext], Awaitable[None]] | None = None
    """Called again and again, with pauses in between; returns when what it did is over. May be cancelled anywhere: the
    nemesis heals what is left."""
    rarity: float = 1.0
    """Factor on the usual time between two acts."""
    everywhere: bool = False
    """True if it is in every run that has faults at all, as it draws by itself how much of it there
    is."""
    loses: bool = False
    """Durable data are lost, so it strikes no more than a few machines of a run."""

    @property
    def counters(self) -> tuple[str, ...]:
        """All that must have counted, before it may be said that this class has been tested."""
        return self.proof if self.act is None else (self.name, *self.proof)
