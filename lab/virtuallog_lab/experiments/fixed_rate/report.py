"""Report of latencies under a fixed load: one table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import attrs

from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table, middle_and_ends


@attrs.frozen(kw_only=True)
class RatePlan:
    """Plan of a measurement."""

    rates: Sequence[int]
    """Operations per second."""
    rounds: int
    seconds: float
    """Length of one measurement."""
    warm_up_seconds: float
    """Seconds under the same load that come before, and do not count."""
    arrivals: str
    """One of `ARRIVALS`."""
    in_flight: int
    """The most operations in flight; others wait, and their latency counts that."""
    size: int
    """Bytes of a value."""


@attrs.frozen(kw_only=True)
class RateSample:
    """One measurement of one system."""

    system: str
    rate: int
    """Operations per second that were due."""
    answered_per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    late_p99_ms: float
    """From due to sent: the client's own part of a latency."""
    unanswered: int
    """Operations without an answer in the end; they count as long as they have waited."""
    servers_us: float
    """CPU time of an operation, of all three servers together."""
    client_us: float
    """CPU time of the client for an operation. It draws the load as well."""

    def line(self) -> str:
        """One line of text."""
        return (
            f"{self.rate:>6,}/s, {self.system}: {self.answered_per_s:,.0f}/s, p50 {self.p50_ms:.2f}, p99 {self.p99_ms:.2f}, "
            f"p99.9 {self.p999_ms:.2f}, max {self.max_ms:.1f} ms, CPU us: servers {self.servers_us:.1f}, client {self.client_us:.1f}"
        )


def report(machine: Machine, plan: RatePlan, samples: Sequence[RateSample]) -> Report:
    """Medians over the rounds."""
    title = f"{plan.size}-byte writes, {plan.arrivals} arrivals, {plan.seconds:g} s each, medians of {plan.rounds} rounds (lowest-highest)"
    return Report(
        title=f"Latency under a fixed load: {title}",
        machine=machine,
        tables=[_table(plan, samples)],
        plain={**attrs.asdict(plan), "measurements": [attrs.asdict(sample) for sample in samples]},
        verdict="no write failed",
    )


def _table(plan: RatePlan, samples: Sequence[RateSample]) -> Table:
    cases = dict.fromkeys((rate, sample.system) for rate in plan.rates for sample in samples)
    rows = [_row([each for each in samples if (each.rate, each.system) == case]) for case in cases]
    columns = [
        "due, system", "answered/s", "p50 ms", "p99 ms", "p99.9 ms", "longest ms", "late p99 ms", "unanswered",
        "CPU us, servers", "client",
    ]  # fmt: skip
    return Table(
        "Latency from when a write was due; how late it was sent; CPU time of a write, of the three servers and of the client",
        columns,
        rows,
    )


def _row(rounds: Sequence[RateSample]) -> list[str]:
    def figures(name: str) -> list[float]:
        return [getattr(sample, name) for sample in rounds]

    return [
        f"{rounds[0].rate:,}/s, {rounds[0].system}",
        f"{median(figures('answered_per_s')):,.0f}",
        *(middle_and_ends(figures(name), 2) for name in ("p50_ms", "p99_ms", "p999_ms")),
        f"{max(figures('max_ms')):,.1f}",
        f"{median(figures('late_p99_ms')):,.2f}",
        f"{sum(figures('unanswered')):,.0f}",
        *(f"{median(figures(name)):,.0f}" for name in ("servers_us", "client_us")),
    ]
