"""Every class of faults there is. docs/internals/faults.md shows the same table, and a test compares the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virtuallog_simulation.faults import clocks, disks, network, processes, streams
from virtuallog_simulation.faults.crash_points import COUNTED, CRASH_POINT
from virtuallog_simulation.faults.fault_class import FaultClass

ELSEWHERE: Final = (
    FaultClass(
        name=CRASH_POINT,
        about="a node or a client dies between two lines of code, at a place that has a name",
        everywhere=True,
    ),
)
"""Classes that other modules apply instead of the nemesis: see `crash_points.py`."""
CLASSES: Final[tuple[FaultClass, ...]] = (
    *network.CLASSES,
    *streams.CLASSES,
    *processes.CLASSES,
    *disks.CLASSES,
    *clocks.CLASSES,
    *ELSEWHERE,
)

NAMES: Final[tuple[str, ...]] = tuple(fault.name for fault in CLASSES)
LOSING: Final[tuple[str, ...]] = tuple(fault.name for fault in CLASSES if fault.loses)
"""Classes after which a machine has lost durable data."""


def acts(counts: Mapping[str, int]) -> int:
    """Count of strikes of all classes: a partition is one fault, the messages that it loses are
    none."""
    struck = sum(counts.get(fault.name, 0) for fault in CLASSES if fault.act is not None)
    return struck + sum(count for name, count in counts.items() if name.startswith(COUNTED))
