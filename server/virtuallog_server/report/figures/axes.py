"""Axes: the place of a value between the ends of a figure, and the values with a number beside them.

Numbers stand at 1, 2 and 5 times powers of ten. A linear axis of a quantity begins at zero, since a figure without the zero makes
small differences look large. A logarithmic axis must be labelled as such by its user.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

LADDER: Final = (1, 2, 5, 10)
DECADES_MIN: Final = 2
"""A logarithmic axis over fewer decades has numbers between the powers of ten, too."""


@attrs.frozen
class Axis:
    """An axis from `low` to `high`."""

    low: float
    high: float
    is_logarithmic: bool = False
    ticks: tuple[float, ...] = ()
    """Values with a number, ascending, all on the axis."""

    def __attrs_post_init__(self) -> None:
        assert self.low < self.high
        assert self.low > 0 or not self.is_logarithmic

    @classmethod
    def exactly_to(cls, high: float, steps: int = 8) -> Axis:
        """A linear axis from 0 to exactly `high`, such as the time of a run."""
        high = high if high > 0 else 1.0
        step = _nice_step(high / steps)
        return cls(0.0, high, ticks=tuple(step * number for number in range(int(high / step + 1e-9) + 1)))

    @classmethod
    def above_zero(cls, values: Iterable[float], steps: int = 4) -> Axis:
        """A linear axis from 0 to a round number that no value exceeds."""
        high = max(values, default=0.0) or 1.0
        step = _nice_step(high / steps)
        count = math.ceil(high / step - 1e-9)
        return cls(0.0, step * count, ticks=tuple(step * number for number in range(count + 1)))

    @classmethod
    def logarithmic(cls, values: Iterable[float]) -> Axis:
        """A logarithmic axis between round numbers that enclose all values above 0."""
        positive = [value for value in values if value > 0] or [1.0]
        low, high = _rung_below(min(positive)), _rung_above(max(positive))
        if low >= high:
            high = _rung_above(low * 1.01)
        rungs = [rung for rung in _rungs(low, high) if low <= rung <= high]
        decades = [rung for rung in rungs if _is_decade(rung)]
        return cls(low, high, is_logarithmic=True, ticks=tuple(decades if len(decades) > DECADES_MIN else rungs))

    def share(self, value: float) -> float:
        """Place of `value` on the axis, from 0 to 1. Values off the axis lie at its ends."""
        if self.is_logarithmic:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)


def spell(value: float) -> str:
    """A number as people write it: 0.05, 2.5, 1,000."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _nice_step(least: float) -> float:
    """The smallest round number that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(rung * power for rung in LADDER if rung * power >= least * (1 - 1e-9))


def _rung_above(value: float) -> float:
    return _round(_nice_step(value))


def _rung_below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-12)
    return _round(max(rung * power for rung in LADDER if rung * power <= value * (1 + 1e-9)))


def _rungs(low: float, high: float) -> Iterator[float]:
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for rung in LADDER[:-1]:
            yield _round(rung * 10.0**exponent)


def _is_decade(value: float) -> bool:
    exponent = math.log10(value)
    return abs(exponent - round(exponent)) < 1e-9


def _round(value: float) -> float:
    """Remove the rest of floating-point arithmetic: 0.30000000000000004."""
    return float(f"{value:.6g}")
