"""Families as text: what Prometheus reads is what was counted."""

from __future__ import annotations

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from virtuallog.contract import metrics
from virtuallog.contract.metrics import Counter, Counters, Histogram, Histograms, MetricFamily, MetricKind
from virtuallog_server.process.console.exposition import expose
from virtuallog_server.process.console.process_metrics import process_collectors


async def values(*families: MetricFamily) -> dict[str, float]:
    """Every sample in the text, as `name{label="value"}`."""
    text = (await expose(families)).decode()
    return {
        sample.name + "".join(f"{{{name}={value}}}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_counters_and_gauges_are_told_as_they_are(autojump_clock: MockClock) -> None:
    """With labels and without; a truth value is 0 or 1."""
    counter = Counter("a_total", "A.")
    counter.value += 7
    counters = Counters("b_total", "B.", ("change", "outcome"))
    counters.add("extend", "won", amount=2)

    found = await values(counter.family(), counters.family(), metrics.gauge("c", "C.", True, queue='w"al\n'))

    assert found == {"a_total": 7, "b_total{change=extend}{outcome=won}": 2, 'c{queue=w"al\n}': 1}


async def test_a_histogram_is_told_cumulatively(autojump_clock: MockClock) -> None:
    """Each bucket counts all values up to its bound; the last one, `_count` and the sum count all."""
    histogram = Histogram("x_seconds", "X.", (0.5, 1.0))
    for value in (0.5, 0.75, 9.0):
        histogram.observe(value)

    assert await values(histogram.family()) == {
        "x_seconds_bucket{le=0.5}": 1,
        "x_seconds_bucket{le=1.0}": 2,
        "x_seconds_bucket{le=+Inf}": 3,
        "x_seconds_count": 3,
        "x_seconds_sum": 10.25,
    }


async def test_a_family_without_samples_is_named_all_the_same(autojump_clock: MockClock) -> None:
    """Before the first error the name and its kind are there to be found."""
    counters = Counters("errors_total", "Errors.", ("error",))
    histograms = Histograms("phases", "Phases.", "phase", (1.0,))
    text = (
        await expose([counters.family(), histograms.family(), MetricFamily("g", MetricKind.GAUGE, "G.", ())])
    ).decode()

    assert [line for line in text.splitlines() if line.startswith("# TYPE")] == [
        "# TYPE errors_total counter",
        "# TYPE phases histogram",
        "# TYPE g gauge",
    ]


async def test_others_have_their_turn_between_two_families(autojump_clock: MockClock) -> None:
    """An append must not wait until the text of all families is made."""
    turns = 0

    async def work() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await expose([metrics.gauge(f"g{number}", "G.", number) for number in range(50)])
        nursery.cancel_scope.cancel()

    assert turns > 25  # trio runs the two tasks of each turn in any order


@pytest.mark.parametrize("name", ["process_resident_memory_bytes", "process_open_fds", "python_info"])
async def test_the_process_itself_is_told(autojump_clock: MockClock, name: str) -> None:
    """Memory, open files and Python come from the library's own collectors."""
    text = (await expose([], process_collectors())).decode()

    assert f"\n{name}" in text
