"""Medians over rounds, and how they are shown: tables in Markdown, and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import attrs

from virtuallog_lab.experiments.appends.samples import FLOOR, PROCESSES, SYSTEMS, AppendSample

_END = "<!-- end of measured -->"


@attrs.frozen
class Summary:
    """The rounds of one system with so many outstanding."""

    samples: Sequence[AppendSample]

    @property
    def system(self) -> str:
        return self.samples[0].system

    @property
    def outstanding(self) -> int:
        return self.samples[0].outstanding

    @property
    def ops_per_s(self) -> float:
        return median(sample.ops_per_s for sample in self.samples)

    @property
    def p50_ms(self) -> float:
        return median(sample.p50_ms for sample in self.samples)

    @property
    def p99_ms(self) -> float:
        return median(sample.p99_ms for sample in self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest throughput of a round."""
        found = [sample.ops_per_s for sample in self.samples]
        return min(found), max(found)

    def cpu_us(self, process: str) -> str:
        """CPU time as a cell of a table."""
        found = [sample.cpu_us[process] for sample in self.samples if process in sample.cpu_us]
        return f"{median(found):.1f}" if found else "-"


def summarize(samples: Sequence[AppendSample]) -> list[Summary]:
    """One per system and number of outstanding appends, in the order of the table."""
    groups: dict[tuple[int, int], list[AppendSample]] = {}
    for sample in samples:
        groups.setdefault((sample.outstanding, SYSTEMS.index(sample.system)), []).append(sample)
    return [Summary(groups[key]) for key in sorted(groups)]


def as_markdown(summaries: Sequence[Summary], reference: str = FLOOR) -> str:
    """The table, with ratios to the system `reference`, if that was measured."""
    first = summaries[0].samples
    compared = {summary.outstanding: summary for summary in summaries if summary.system == reference}
    of = f"of {reference.split(maxsplit=1)[0]}"
    lines = [
        f"Medians of {len(first)} rounds, entries of {first[0].bytes} bytes; CPU in microseconds per append.",
        "",
        f"| outstanding | system | appends/s | lowest, highest | {of} | p50 ms | {of} | p99 ms | "
        + " | ".join(f"CPU {process}" for process in PROCESSES) + " |",
        "|--:|---|--:|--:|--:|--:|--:|--:|" + "--:|" * len(PROCESSES),
    ]  # fmt: skip
    return "\n".join([*lines, *(_row(summary, compared.get(summary.outstanding)) for summary in summaries), ""])


def _row(summary: Summary, reference: Summary | None) -> str:
    low, high = summary.spread
    rate = f"{summary.ops_per_s / reference.ops_per_s:.2f}" if reference else "-"
    wait = f"{summary.p50_ms / reference.p50_ms:.2f}" if reference else "-"
    cells = [
        str(summary.outstanding), summary.system, f"{summary.ops_per_s:,.0f}", f"{low:,.0f}, {high:,.0f}", rate,
        f"{summary.p50_ms:.2f}", wait, f"{summary.p99_ms:.2f}", *map(summary.cpu_us, PROCESSES),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def put_into(document: Path, text: str, arguments: str = "") -> None:
    """Replace the text between the two marks of `virtuallog_lab.experiments.appends.append` with
    these arguments; see `put_between`."""
    put_between(document, text, f"virtuallog_lab.experiments.appends.append {arguments}--markdown writes this part")


def put_between(document: Path, text: str, what: str) -> None:
    """Replace the text behind the mark that names a measurement, up to the mark of its end.

    Raises:
        ValueError: the document has no such place.
    """
    mark = f"<!-- measured: {what} -->"
    before, begin, rest = document.read_text().partition(mark)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{document} has no lines '{mark}' and '{_END}'")
    document.write_text(f"{before}{mark}\n\n{text}\n{_END}{after}")


def draw(summaries: Sequence[Summary], path: Path) -> None:
    """Throughput and median latency against the number of outstanding appends."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "virtuallog"  # else every drawing has names of its own inside
    from matplotlib import pyplot

    figure, (rates, waits) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    for system in SYSTEMS:
        mine = [summary for summary in summaries if summary.system == system]
        if mine:
            numbers = [summary.outstanding for summary in mine]
            rates.plot(numbers, [summary.ops_per_s for summary in mine], marker="o", label=system)
            waits.plot(numbers, [summary.p50_ms for summary in mine], marker="o", label=system)
    for axes, label in ((rates, "appends per second"), (waits, "median latency, ms")):
        axes.set(xscale="log", yscale="log", xlabel="outstanding appends", ylabel=label)
        axes.grid(visible=True, which="major", alpha=0.3)
    rates.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
