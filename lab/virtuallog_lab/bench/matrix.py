"""Swap matrix: costs of the swaps of a tour, for each ordered pair of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from virtuallog_lab.bench.steps import PHASES
from virtuallog_lab.bench.swaps import SwapCost, phase_spreads
from virtuallog_lab.harness.report import Table
from virtuallog_lab.workload.latencies import SPREAD_COLUMNS, Spread

ARROW: Final = " \N{RIGHTWARDS ARROW} "


@attrs.frozen(kw_only=True)
class Cell:
    """All swaps from one target to another."""

    source: str
    target: str
    swaps: int
    gap: Spread
    """Gap in acknowledgements."""
    quiet: Spread
    """The longest pause in as long a time without a swap."""
    answered: Spread
    """Time from the request for a swap until the answer."""
    phases: Mapping[str, Spread]
    """Spreads of the phases by name, in their order; empty if no swap could be split."""

    @property
    def name(self) -> str:
        return f"{self.source}{ARROW}{self.target}"

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen
class Matrix:
    """One cell for each ordered pair, in the order of the names, by source first."""

    names: Sequence[str]
    cells: Sequence[Cell]

    @classmethod
    def of(cls, names: Sequence[str], seen: Sequence[SwapCost]) -> Matrix:
        """Pairs between which nothing was swapped are left out."""
        pairs: dict[tuple[str, str], list[SwapCost]] = {(source, target): [] for source in names for target in names}
        for one in seen:
            pairs[one.source, one.target].append(one)
        return cls(names, [_cell(*pair, found) for pair, found in pairs.items() if found])

    def find(self, source: str, target: str) -> Cell | None:
        return next((cell for cell in self.cells if (cell.source, cell.target) == (source, target)), None)

    @property
    def worst(self) -> Cell:
        """The pair with the longest median gap."""
        return max(self.cells, key=lambda cell: cell.gap.p50_ms)

    def tables(self) -> list[Table]:
        """The matrix at p50 and p99, and all there is about each pair."""
        swaps = sorted({cell.swaps for cell in self.cells})
        each = " to ".join(str(count) for count in {swaps[0]: 0, swaps[-1]: 0})
        return [
            self._square(f"Gap in acknowledgements, ms, p50 of {each} swaps; from the left to the top", "p50_ms"),
            self._square("The same at p99", "p99_ms"),
            self._gaps(),
            self._timelines(),
        ]

    def _square(self, title: str, field: str) -> Table:
        rows = [[source, *(self._figure(source, target, field) for target in self.names)] for source in self.names]
        return Table(title, ["from", *self.names], rows)

    def _figure(self, source: str, target: str, field: str) -> str:
        cell = self.find(source, target)
        return f"{getattr(cell.gap, field):,.0f}" if cell else "-"

    def _gaps(self) -> Table:
        rows = [[cell.name, str(cell.swaps), *cell.gap.cells(), f"{cell.quiet.p50_ms:,.1f}"] for cell in self.cells]
        return Table("Gap of each pair", ["", "swaps", *SPREAD_COLUMNS, "without a swap, p50 ms"], rows)

    def _timelines(self) -> Table:
        rows = [
            [
                cell.name,
                *(f"{cell.phases[phase].p50_ms:,.1f}" if cell.phases else "-" for phase in PHASES),
                f"{cell.answered.p50_ms:,.1f}",
            ]
            for cell in self.cells
        ]
        return Table("Where the time goes: medians, ms", ["", *PHASES, "asked to answered"], rows)

    def plain(self) -> dict[str, Any]:
        """The matrix for JSON."""
        return {"names": list(self.names), "pairs": [cell.plain() for cell in self.cells]}


def _cell(source: str, target: str, seen: Sequence[SwapCost]) -> Cell:
    return Cell(
        source=source,
        target=target,
        swaps=len(seen),
        gap=Spread.of([one.gap for one in seen]),
        quiet=Spread.of([one.quiet for one in seen]),
        answered=Spread.of([one.answered for one in seen]),
        phases=phase_spreads(seen),
    )
