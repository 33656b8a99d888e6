#!/usr/bin/env python3
"""Cost of a live swap for a client: reconfigurations under load, and the gap in acknowledgements at
each.

    python -m virtuallog_lab.experiments.swaps.swap --swaps 100 --picture swap.png

Three nodes, one client with 64 appends outstanding. Every second the log continues on a new loglet,
whose sequencer is on the next node. The gap of a swap is the longest stretch without any
acknowledgement from its request until half a second after it is decided; the longest in the half
second before, when nothing is done, is the noise of this machine. Afterwards everything is read
back: exit code 0 means that nothing is lost, doubled or reordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from virtuallog_lab.bench.gaps import Swap, find_gaps
from virtuallog_lab.bench.steps import Steps, client_steps, read_steps
from virtuallog_lab.bench.swaps import swap_repeatedly
from virtuallog_lab.bench.targets import Target
from virtuallog_lab.experiments.swaps.swap_report import draw, report
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, keep_option, picture_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import OBSERVED, Evidence, TrialLoad, run_trial, temporary_cluster


def targets(kinds: Sequence[str], swaps: int) -> Iterator[Target]:
    """Yield the first target of the log, then each kind in turn, a native one with its sequencer on
    another node than before."""
    for number in range(swaps + 1):
        kind = kinds[(number - 1) % len(kinds)]
        yield Target(kind, kind, {"sequencer": str(number % 3 + 1)} if kind == "native" else {})


async def run(
    kinds: Sequence[str], swaps: int, load: TrialLoad, window_seconds: float, keep: Path | None = None
) -> tuple[Evidence[list[Swap]], Steps]:
    """The whole trial; also the steps that nodes and client wrote down."""
    async with temporary_cluster(OBSERVED, keep) as cluster:
        story = partial(swap_repeatedly, targets=targets(kinds, swaps), window_seconds=window_seconds)
        with client_steps() as client:
            evidence = await run_trial(cluster, load, story)
        return evidence, read_steps(cluster, client, evidence.workload.started)


@click.command()
@click.option("--swaps", default=100, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--outstanding", default=64, show_default=True, type=click.IntRange(1, 4096))
@click.option("--size", default=100, show_default=True, type=click.IntRange(20, 1 << 20), help="Bytes of an entry.")
@click.option(
    "--window",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0.1, 60),
    help="Seconds around a swap that count for its gap.",
)
@click.option("--to", "kinds", multiple=True, default=["native"], metavar="KIND", help="Visited in turn; repeatable.")
@picture_option
@keep_option
@form_options
def main(
    *,
    swaps: int,
    outstanding: int,
    size: int,
    window: float,
    kinds: Sequence[str],
    picture: Path | None,
    keep: Path | None,
    form: Form,
) -> None:
    """Swap the log under a client that never pauses, and measure the gap in acknowledgements.

    \b
    Example:
        python -m virtuallog_lab.experiments.swaps.swap --swaps 100 --picture swap.png
    """
    machine = Machine.look()
    evidence, steps = run_to_end(run, kinds, swaps, TrialLoad(writers=outstanding, entry_bytes=size), window, keep)
    if picture is not None:
        draw(find_gaps(evidence.result, evidence.times, window), evidence.times, picture)
        tell(f"picture: {picture}")
    report(machine, evidence, steps, window).publish(form)


if __name__ == "__main__":
    main()
