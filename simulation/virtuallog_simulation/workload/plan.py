"""Plan of a workload: number of clients of each role, their acts, and the length of their lives.

All is drawn from the seed. Every client spreads its acts over the same time, so appends, reads, trims and changes of the
chain overlap from the beginning to the end of a run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

import attrs

from virtuallog_simulation.world.options import Options

OPERATOR: Final = "operator"


@attrs.frozen(kw_only=True)
class WorkloadPlan:
    """Amounts of a workload."""

    clients: Mapping[str, int]
    """Clients of each role."""
    acts: Mapping[str, int]
    """Acts of each client of a role; an act is one to about ten operations."""
    pauses: Mapping[str, float]
    """Mean seconds between two acts of a client."""
    patience_seconds: float
    """An act that takes longer is given up by its client, as by a caller with a timeout."""
    cancel: float
    """Share of the acts that are cancelled half-way."""
    lifetime_seconds: float | None
    """Mean life of a client process; None: as long as its work takes."""
    close: bool
    """True if operators also close the log on purpose, and reopen it."""

    @classmethod
    def draw(cls, source: random.Random) -> WorkloadPlan:
        """Most plans reconfigure often, as that is what this log is about; one in seven hardly ever."""
        rare = source.random() < 0.15
        acts = {
            "appender": source.randint(22, 36),
            "reader": source.randint(14, 22),
            "tailer": source.randint(2, 4),
            "parker": source.randint(2, 4),
            "trimmer": source.randint(2, 5),
            "operator": 1 if rare else source.randint(5, 7),
        }
        seconds = source.choice((2.0, 4.0, 7.0))
        return cls(
            clients={
                "appender": source.randint(3, 4),
                "reader": source.randint(2, 4),
                "tailer": source.randint(0, 2),
                "parker": source.choice((0, 1, 1)),
                "trimmer": source.choice((0, 1, 1)),
                "operator": 1 if rare else source.randint(1, 3),
            },
            acts=acts,
            pauses={role: seconds / count for role, count in acts.items()},
            patience_seconds=source.choice((2.5, 7.0)),
            cancel=source.choice((0.0, 0.05, 0.2)),
            lifetime_seconds=source.choice((None, 3.0, 10.0)),
            close=source.random() < 0.3,
        )

    def narrowed(self, options: Options) -> WorkloadPlan:
        """This plan with fewer acts of each client; the rest, and the pauses between them, stay as
        they were."""
        if options.operations is None:
            return self
        return attrs.evolve(self, acts={role: min(count, options.operations) for role, count in self.acts.items()})

    def lighter(self, share: float) -> WorkloadPlan:
        """This plan with a share of the acts of each client, spread over as much time: for runs in
        which an act costs more. At least three quarters of operators' acts stay, as such runs
        are about them."""
        acts = {
            role: max(1, round(count * (max(share, 0.75) if role == OPERATOR else share)))
            for role, count in self.acts.items()
        }
        seconds = {role: self.pauses[role] * self.acts[role] for role in self.acts}
        return attrs.evolve(self, acts=acts, pauses={role: seconds[role] / acts[role] for role in acts})
