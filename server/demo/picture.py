"""Draws throughput and latency of a run, with a line for everything that was done to the log meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from server.bench.appends import percentile
from server.demo.story import Event, Outcome
from server.demo.workload import Sample
from virtuallog.errors import StorageError

BIN_SECONDS = 0.1


def draw(outcome: Outcome, path: Path) -> None:
    """Write a PNG.

    Raises:
        StorageError: `path` cannot be written.
    """
    import matplotlib as mpl  # half a second, which no other command should pay

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (upper, lower) = pyplot.subplots(2, 1, sharex=True, figsize=(12, 7), layout="constrained")
    bins = _bins(outcome.workload.samples)
    times = [index * BIN_SECONDS for index in range(len(bins))]
    upper.step(times, [len(latencies) / BIN_SECONDS for latencies in bins], where="post", color="tab:blue")
    upper.set_ylabel("appends per second")
    upper.set_ylim(bottom=0)
    for share, label, colour in (
        (0.5, "median", "tab:green"),
        (0.99, "99 %", "tab:orange"),
        (1.0, "slowest", "tab:red"),
    ):
        values = [1000 * percentile(latencies, share) if latencies else float("nan") for latencies in bins]
        lower.plot(times, values, ".-", linewidth=0.8, markersize=3, label=label, color=colour)
    lower.set_yscale("log")
    lower.set_ylabel("latency in ms")
    lower.set_xlabel("seconds")
    lower.legend(loc="upper right")
    for axes in (upper, lower):
        _mark(axes, outcome.events, with_labels=axes is upper)
    figure.suptitle("One log, its loglets swapped live under load")
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    finally:
        pyplot.close(figure)


def _bins(samples: list[Sample]) -> list[list[float]]:
    """The latencies of each stretch of time, in order of size; stretches without any are empty."""
    last = max((sample.at for sample in samples), default=0.0)
    bins: list[list[float]] = [[] for _ in range(int(last / BIN_SECONDS) + 1)]
    for sample in samples:
        bins[int(sample.at / BIN_SECONDS)].append(sample.seconds)
    for latencies in bins:
        latencies.sort()
    return bins


def _mark(axes: Any, events: tuple[Event, ...], *, with_labels: bool) -> None:
    for event in events:
        axes.axvline(event.at, color="grey", linestyle="--", linewidth=0.8)
        if with_labels:
            place = {"xy": (event.at, 1.0), "xycoords": ("data", "axes fraction")}
            axes.annotate(
                event.label, **place, xytext=(3, -4), textcoords="offset points", rotation=90, va="top", fontsize=8
            )
