"""Disks so slow that others can see what is written and not yet durable, and that it can then be lost.

A good simulated disk takes half a millisecond at most, less than a message is under way: whoever answers from memory,
ahead of the disk, would hardly ever be caught.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from virtuallog_simulation.faults.disks import calm
from virtuallog_simulation.world.machine import Machine

SLOW_WRITE_SECONDS: Final = (0.01, 0.1)
"""Some to many times as long as a call."""


def draw(machines: Iterable[Machine], source: random.Random) -> bool:
    """From now on either all of these have slow disks, or all have good ones. Returns whether they are slow."""
    slow = source.random() < 0.5
    for machine in machines:
        calm(machine)
        if slow:
            machine.faults.write_seconds = SLOW_WRITE_SECONDS
    return slow
