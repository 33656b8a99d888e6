"""Which classes of faults a run has, and how often each strikes: drawn from the seed.

Most runs have a few classes active, as bugs hide behind combinations that a run with everything at once drowns; some
have all, some have none. Whether a class is active, and how often it strikes, depends on the run and on its name alone:
a class that is taken away, or one that is new, leaves the others as they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from virtuallog_simulation.faults.registry import CLASSES

_SHARES: Final = (0.0, 0.15, 0.3, 0.3, 0.3, 0.5, 1.0)
"""Of the classes that are active in a run. One run in seven has no faults: what fails there needs none."""
_INTERVALS: Final = (1.5, 4.0, 10.0)
"""Mean seconds between two acts of one class, for runs of some 20 simulated seconds."""


@attrs.frozen(kw_only=True)
class FaultPlan:
    """The faults of one run."""

    active: Mapping[str, float]
    """Class -> mean seconds between two of its acts (of no meaning for classes that hold for the whole run)."""
    pace: float = 1.0
    """Factor on every duration."""

    @classmethod
    def draw(cls, source: random.Random, without: Sequence[str] = (), pace: float = 1.0) -> FaultPlan:
        """Draw all that is to be drawn.

        Args:
            source: of the run; drawn from twice, whatever there is to choose from.
            without: classes that are never active.
            pace: below 1 for runs that are shorter than the usual half a minute.
        """
        share, run = source.choice(_SHARES), source.getrandbits(64)
        intervals: dict[str, float] = {}
        for fault in CLASSES:
            own = random.Random(f"{run} {fault.name}")
            dice, interval = own.random(), own.choice(_INTERVALS) * fault.rarity * pace
            active = share > 0.0 if fault.everywhere else dice < share
            if active and fault.name not in without:
                intervals[fault.name] = interval
        return cls(active=intervals, pace=pace)

    def narrowed(self, allows: Callable[[str], bool]) -> FaultPlan:
        """The same without the classes that are not allowed."""
        return attrs.evolve(self, active={name: mean for name, mean in self.active.items() if allows(name)})
