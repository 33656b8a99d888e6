"""The machine of a measurement: a figure without it says little."""

from __future__ import annotations

import os
import platform

import attrs


@attrs.frozen
class Machine:
    """Hardware and software of the machine."""

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
