"""Measurements of appends beside a console, and their report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import median
from typing import Any, Final

import attrs

from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.median_interval import CONFIDENCE, median_interval
from virtuallog_lab.harness.report import Report, Table, middle_and_ends
from virtuallog_lab.workload.appends import percentile

TAILS, SCAN, SHAM_TAILS, SHAM_SCAN = "tails", "scan", "sham tails", "sham scan"
"""Kinds of callers: readers of tails, a scanner, and the same ones at a port that is not the console's."""
STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "quiet": (),
    "100 tails": (TAILS,),
    "100 tails of a sham": (SHAM_TAILS,),
    "scanned": (SCAN,),
    "other port scanned": (SHAM_SCAN,),
    "both": (TAILS, SCAN),
}
"""States of the console: the callers that it has."""
QUIET: Final = "quiet"
CONTROLS: Final[Mapping[str, tuple[str, str]]] = {
    "100 tails": ("100 tails of a sham", "to the sham"),
    "scanned": ("other port scanned", "to other port"),
}
"""States, and those with the same callers elsewhere: what is slower than there is due to the console. The text names such a row."""
PACED: Final = "paced"
CALLERS: Final[Mapping[str, int]] = {PACED: 0, "1 caller": 1, "64 callers": 64}
"""Loads, and the callers of a closed loop; 0 for an open one."""
SCAN_RATE: Final = 100
"""Connections per second of the scanner: each second the ports of a host, from a machine that scans a thousand hosts."""
SCANNED_LEAST: Final = 0.8
"""Part of the scanner's rate below which a run does not tell what a scan costs."""
TARGET: Final = 0.03
"""Most of the rate, or of the median latency, that the console may cost."""
PROCESSES: Final = ("nodes", "console", "callers", "sham")
"""Processes whose CPU time is reported."""
APART: Final = ("kind", "load", "seconds")
"""Members of counts that are no counts."""


@attrs.frozen(kw_only=True)
class SiegeSample:
    """Appends with one load, while the console was in one state."""

    state: str
    load: str
    latencies: Sequence[float]
    """Seconds of each append, in ascending order."""
    seconds: float
    cpu: Mapping[str, float]
    """CPU seconds of `PROCESSES`, as far as they run."""

    @property
    def per_second(self) -> float:
        """Appends per second."""
        return len(self.latencies) / self.seconds

    def milliseconds(self, share: float) -> float:
        """Latency that this share of the appends does not exceed. Infinite if there was none."""
        return 1000 * percentile(self.latencies, share) if self.latencies else inf

    @property
    def cost(self) -> float:
        """Figure that the console should not raise: the median latency, or for a saturated loop the seconds for an append. Infinite if
        there was none.
        """
        return 1 / self.per_second if CALLERS[self.load] > 1 and self.latencies else self.milliseconds(0.5)


@attrs.frozen(kw_only=True)
class SiegePlan:
    """The measurements of a run."""

    rounds: int
    seconds: float
    within: float = float("inf")
    """Seconds after which no further round begins."""
    states: Sequence[str] = tuple(STATES)
    """States of the console; the quiet one is among them."""
    tls: bool = True
    """True if nodes and console are inside TLS."""
    loads: Sequence[str] = tuple(CALLERS)
    options: Sequence[str] = ()
    """Further options of `virtuallog console`."""
    idle: bool = False
    """True if callers, and the sham, take idle processor time alone."""


@attrs.frozen
class SiegeResult:
    """The measurements, and counts of the callers of the console."""

    samples: Sequence[SiegeSample]
    counted: Sequence[Mapping[str, Any]]
    """One for each measurement with callers: their kind, the load, seconds, and counts."""


def report(machine: Machine, plan: SiegePlan, result: SiegeResult) -> Report:
    """A row for each load and state; the ratio is to the quiet state of the same round. A row more compares with the same callers elsewhere, if
    that was measured: they are on this machine then as well.
    """
    rows, plain = list[list[str]](), dict[str, dict[str, float]]()
    for load in plan.loads:
        found = {
            state: [each for each in result.samples if (each.state, each.load) == (state, load)]
            for state in plan.states
        }
        for state, those in found.items():
            more = _more(those, found[QUIET])
            low, high = median_interval(more)
            cpu = {name: [each.cpu.get(name, 0.0) / each.seconds for each in those] for name in PROCESSES}
            rows.append(
                [
                    f"{load}, {state}",
                    middle_and_ends([each.per_second for each in those]),
                    middle_and_ends([each.milliseconds(0.5) for each in those], 2),
                    middle_and_ends([each.milliseconds(0.99) for each in those], 2),
                    *(("", "") if state == QUIET else _verdict(more)),
                    *(middle_and_ends([100 * each for each in used]) for used in cpu.values()),
                ]
            )
            plain[f"{load}, {state}"] = {
                "per_second": median(each.per_second for each in those),
                "median_ms": median(each.milliseconds(0.5) for each in those),
                "p99_ms": median(each.milliseconds(0.99) for each in those),
                "more": median(more),
                "more_low": low,
                "more_high": high,
                "target": TARGET,
                "console_cpu": median(cpu["console"]),
            }
        for state, (control, text) in CONTROLS.items():
            if {state, control} <= {*plan.states}:
                more = _more(found[state], found[control])
                rows.append([f"{load}, {state}, {text}", "", "", "", *_verdict(more), "", "", "", ""])
                low, high = median_interval(more)
                plain[f"{load}, {state}, {text}"] = {"more": median(more), "more_low": low, "more_high": high}
    columns = ["load, console", "appends/s", "median ms", "p99 ms", "slower, %", "target", *(f"{name}, % of a CPU" for name in PROCESSES)]  # fmt: skip
    return Report(
        title=f"Appends beside a console, {len(result.samples) // len(plan.states) // len(plan.loads)} rounds, {'inside TLS' if plan.tls else 'without TLS'}",
        machine=machine,
        tables=[
            Table(
                f"Median of the rounds, and ends; of the ratio its {100 * CONFIDENCE:g} % interval. At most {100 * TARGET:g} % slower is the target",
                columns,
                rows,
            ),
            _callers(plan, result.counted),
        ],
        plain={"rows": plain, "callers": result.counted},
        verdict=f"every append was acknowledged{_starved(result.counted)}",
    )


def _more(those: Sequence[SiegeSample], base: Sequence[SiegeSample]) -> Sequence[float]:
    """Ratios of the rounds, less 1. Rounds without an append in either state tell nothing, and are left out."""
    return [
        each.cost / other.cost - 1 for each, other in zip(those, base, strict=True) if each.latencies or other.latencies
    ]


def _verdict(more: Sequence[float]) -> tuple[str, str]:
    low, high = median_interval(more)
    found = "met" if high <= TARGET else "missed" if low > TARGET else "open"
    return f"{100 * median(more):.1f} ({100 * low:.1f} to {100 * high:.1f})", found


def _starved(counted: Sequence[Mapping[str, Any]]) -> str:
    """A warning if the scanner came less often than it should: it has only the time that others leave. Empty if it did not."""
    apart = (*APART, "bytes answered", "left out")
    rates = [
        sum(count for name, count in each.items() if name not in apart) / each["seconds"]
        for each in counted
        if each["kind"] in (SCAN, SHAM_SCAN)
    ]
    if not rates or median(rates) >= SCANNED_LEAST * SCAN_RATE:
        return ""
    return f"; the scanner made {median(rates):.0f} connections a second instead of {SCAN_RATE}: do not judge a scan by this run"


def _callers(plan: SiegePlan, counted: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for kind in (TAILS, SHAM_TAILS, SCAN, SHAM_SCAN):
        names = dict.fromkeys(name for each in counted if each["kind"] == kind for name in each if name not in APART)
        for name in names:
            rates = [
                [
                    each.get(name, 0) / each["seconds"]
                    for each in counted
                    if (each["kind"], each["load"]) == (kind, load)
                ]
                for load in plan.loads
            ]
            rows.append([f"{kind}: {name}", *(middle_and_ends(those, 1) for those in rates)])
    return Table("Callers, per second", ["caller", *plan.loads], rows)
