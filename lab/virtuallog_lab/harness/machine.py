"""On what machine something was measured: a figure without it says little."""

from __future__ import annotations

import os
import platform

import attrs


@attrs.frozen
class Machine:
    """Where it was measured."""

    cpus: int
    kernel: str
    python: str
    load: float
    """Mean number of processes that wanted a CPU in the last minute, when the run began."""

    @classmethod
    def look(cls) -> Machine:
        return cls(len(os.sched_getaffinity(0)), platform.release(), platform.python_version(), os.getloadavg()[0])

    def __str__(self) -> str:
        return f"{self.cpus} CPUs, Linux {self.kernel}, Python {self.python}, load {self.load:.1f} before the run"
