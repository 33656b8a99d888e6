"""Priority of this process beside other programs of the machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIORITIES: Final = ("normal", "low", "idle")
NICENESS: Final = 10
"""Niceness of the priority `low`: Linux gives it a tenth of the time of a process that has none, so work takes ten times as long at most."""


def give_way(priority: str) -> None:
    """Take a priority with all threads. Those that start later have the same; none goes back without privileges.

    Args:
        priority: `normal` for the same as others have; `low` for `NICENESS`; `idle` for what others leave (`SCHED_IDLE` of Linux).
    """
    for thread in Path("/proc/self/task").iterdir() if priority != "normal" else ():
        with suppress(ProcessLookupError):  # it has just ended
            if priority == "idle" and hasattr(os, "SCHED_IDLE"):
                os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
            else:
                own = os.getpriority(os.PRIO_PROCESS, int(thread.name))
                os.setpriority(os.PRIO_PROCESS, int(thread.name), min(own + NICENESS, 19))
