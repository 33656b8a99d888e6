"""Measures appends on the floor and on a log in turn. Only such figures can be compared: the machine changes from one minute to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

import attrs

from virtuallog.contract.ports import Clock
from virtuallog_lab.floor.processes import open_floor
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table, middle_and_ends
from virtuallog_lab.workload.appends import Append, Measurement, measure

FIGURES: Final = ("ops_per_s", "p50_ms", "p99_ms")
"""Figures of a measurement that are compared."""


@attrs.frozen
class FloorComparison:
    """Rounds with one number of outstanding appends."""

    floor: list[Measurement]
    log: list[Measurement]
    """Each right after the one of the floor at the same place."""

    @property
    def outstanding(self) -> int:
        return self.log[0].outstanding

    def ratios(self, figure: str) -> list[float]:
        """The figure of the log as a multiple of that of the floor, by round."""
        pairs = zip(self.floor, self.log, strict=True)
        return [getattr(log, figure) / getattr(floor, figure) for floor, log in pairs]

    def plain(self) -> dict[str, Any]:
        """Medians of the log as without a floor; those of the floor, the ratios, and all rounds beside them."""
        return {
            "outstanding": self.outstanding,
            "bytes": self.log[0].bytes,
            **_medians(self.log),
            "floor": _medians(self.floor),
            "ratio": {figure: round(median(self.ratios(figure)), 3) for figure in FIGURES},
            "rounds": [
                {"log": log.plain(), "floor": floor.plain()} for log, floor in zip(self.log, self.floor, strict=True)
            ],
        }


async def compare(
    append: Append,
    clock: Clock,
    outstanding: Sequence[int],
    size: int,
    seconds: float,
    rounds: int,
    told: Callable[[str], None],
) -> list[FloorComparison]:
    """Measure the floor and the log in turn, so many rounds for each number of outstanding appends.

    Raises:
        VirtualLogError: an append failed.
    """
    found = []
    async with open_floor() as floor:
        for number in outstanding:
            comparison = FloorComparison([], [])
            for _ in range(rounds):
                comparison.floor.append(await measure(floor.client.append, clock, number, size, seconds))
                comparison.log.append(await measure(append, clock, number, size, seconds))
                told(
                    f"{number} outstanding: floor {comparison.floor[-1].ops_per_s:,.0f}/s, "
                    f"log {comparison.log[-1].ops_per_s:,.0f}/s"
                )
            found.append(comparison)
    return found


def comparison_report(comparisons: Sequence[FloorComparison], machine: Machine) -> Report:
    """Medians and spread of the rounds."""
    columns = (
        "outstanding", "floor, appends/s", "log, appends/s", "of floor", "floor, p50 ms", "log, p50 ms", "of floor", "p99 of floor",
    )  # fmt: skip
    rows = [
        (
            str(each.outstanding),
            middle_and_ends([measured.ops_per_s for measured in each.floor]),
            middle_and_ends([measured.ops_per_s for measured in each.log]),
            middle_and_ends(each.ratios("ops_per_s"), 2),
            middle_and_ends([measured.p50_ms for measured in each.floor], 2),
            middle_and_ends([measured.p50_ms for measured in each.log], 2),
            middle_and_ends(each.ratios("p50_ms"), 2),
            middle_and_ends(each.ratios("p99_ms"), 2),
        )
        for each in comparisons
    ]
    first = comparisons[0].log
    return Report(
        title="Appends beside the floor",
        machine=machine,
        tables=[Table(f"Appends of {first[0].bytes} bytes, median (spread) of {len(first)} rounds", columns, rows)],
        plain={"comparisons": [each.plain() for each in comparisons]},
        verdict="The floor has no seal, sessions, checksums, repair, recovery, RPC questions or limits",
    )


def _medians(measured: Sequence[Measurement]) -> dict[str, float]:
    return {figure: median(getattr(each, figure) for each in measured) for figure in FIGURES}
