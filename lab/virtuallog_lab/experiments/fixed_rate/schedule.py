"""Times at which the operations of an open loop are due, drawn before it begins."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from typing import Final, TypeAlias

Arrivals: TypeAlias = Callable[[float, float, random.Random], Sequence[float]]
"""Given operations per second, seconds and chance: ascending times from 0 to below those seconds."""

JITTER: Final = 0.2
"""Share of an interval by which a constant arrival may be late: enough to be in no step with the periods of a server."""


def constant(rate: float, seconds: float, chance: random.Random) -> Sequence[float]:
    """One operation in each interval, near its beginning."""
    return array("d", ((index + JITTER * chance.random()) / rate for index in range(round(rate * seconds))))


def poisson(rate: float, seconds: float, chance: random.Random) -> Sequence[float]:
    """Independent callers: intervals are exponential, so some operations come in bursts."""
    times = accumulate(iter(lambda: chance.expovariate(rate), None))
    return array("d", takewhile(lambda time: time < seconds, times))


ARRIVALS: Final[dict[str, Arrivals]] = {"constant": constant, "poisson": poisson}
