#!/usr/bin/env python3
"""Cost of an append: the floor, a loglet, and a VirtualLog on it, in turn, on this machine.

    python -m virtuallog_lab.experiments.appends.append --rounds 5
    python -m virtuallog_lab.experiments.appends.append --loglet paxos --rounds 5
    python -m virtuallog_lab.experiments.appends.append --loglet striped --outstanding 256

One round measures every system with every number of outstanding appends, one right after the other,
so that noise of the machine hits them alike. The results are medians over the rounds, and ratios to
the floor (`virtuallog_lab.floor`), or to the native loglet, of the same run: figures of two runs cannot be compared.
CPU time per append hardly depends on noise; use it to judge a change. `--loglet paxos` measures the
paxos loglet beside the native one, and PySyncObj, which syncs nothing to any disk. `--loglet
striped` measures a striped loglet of two stripes over three servers beside a native one over as
many, both with the same number of sessions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import click
import trio

from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.appends.own_systems import open_own_systems
from virtuallog_lab.experiments.appends.sampler import take_sample
from virtuallog_lab.experiments.appends.samples import (
    FLOOR,
    LOGLET,
    NATIVE_SYSTEMS,
    OWN,
    PAXOS_SYSTEMS,
    PYSYNCOBJ,
    RAFT_SYSTEMS,
    STRIPED_SYSTEMS,
    SYSTEMS,
    AppendSample,
)
from virtuallog_lab.experiments.appends.summary import as_markdown, draw, put_into, summarize
from virtuallog_lab.experiments.contestants.pysyncobj import PySyncObjContestant
from virtuallog_lab.floor.processes import open_floor
from virtuallog_lab.harness.options import whole_numbers
from virtuallog_lab.harness.report import tell
from virtuallog_server.process import log_output

Measure: TypeAlias = Callable[[int, int, float], Awaitable[AppendSample]]
"""Given how many appends are outstanding, the bytes of an entry, and for how many seconds."""
COMPARED: Final = {"native": NATIVE_SYSTEMS, "paxos": PAXOS_SYSTEMS, "raft": RAFT_SYSTEMS, "striped": STRIPED_SYSTEMS}
FIGURES: Final = {"native": "{}.svg", "paxos": "{}-paxos.svg", "raft": "{}-raft.svg", "striped": "{}-striped.svg"}
SESSIONS: Final = {"native": 1, "paxos": 1, "raft": 1, "striped": 8}
"""A striped loglet keeps a session to one stripe, so it needs some to have several at work; native ones beside it get as many."""


@attrs.frozen(kw_only=True)
class AppendPlan:
    """Plan of a measurement."""

    rounds: int
    outstanding: Sequence[int]
    size: int
    seconds: float
    segments: int
    sessions: int
    systems: Sequence[str]


async def run(plan: AppendPlan, show: Callable[[AppendSample], None]) -> list[AppendSample]:
    """Measure all of it, round by round."""
    samples = []
    async with AsyncExitStack() as stack:
        others = {
            system: await stack.enter_async_context(opened())
            for system, opened in {FLOOR: _open_floor, PYSYNCOBJ: _open_pysyncobj}.items()
            if system in plan.systems
        }
        for _ in range(plan.rounds):
            async with _open_own(plan) as own:
                measures = {**own, **others}
                for outstanding in plan.outstanding:
                    for system in plan.systems:
                        samples.append(await measures[system](outstanding, plan.size, plan.seconds))
                        show(samples[-1])
    return samples


@asynccontextmanager
async def _open_own(plan: AppendPlan) -> AsyncIterator[dict[str, Measure]]:
    """Open new clusters, one for each measured kind; those whose turn it is not are idle."""
    async with AsyncExitStack() as stack:
        measures: dict[str, Measure] = {}
        for kind, systems in OWN.items():
            if set(systems) & set(plan.systems):
                own = await stack.enter_async_context(
                    open_own_systems(SystemClock(), plan.segments, kind, plan.sessions)
                )
                measures |= {system: partial(own.measure, system) for system in systems}
        yield measures


@asynccontextmanager
async def _open_floor() -> AsyncIterator[Measure]:
    async with open_floor() as floor:
        yield partial(take_sample, FLOOR, [floor.client.append], floor.processes, SystemClock())


@asynccontextmanager
async def _open_pysyncobj() -> AsyncIterator[Measure]:
    async with PySyncObjContestant().open() as running:

        async def measure(outstanding: int, size: int, seconds: float) -> AppendSample:
            figures = attrs.asdict(await running.measure(outstanding, size, seconds))
            return AppendSample(system=PYSYNCOBJ, outstanding=outstanding, bytes=size, **figures)

        yield measure


@click.command()
@click.option(
    "--loglet",
    default="native",
    show_default=True,
    type=click.Choice([*OWN]),
    help="Kind to compare: native with the floor, others with native.",
)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--outstanding", default="1,64,256", show_default=True, callback=whole_numbers, metavar="N,N")
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=1), help="Bytes of an entry.")
@click.option(
    "--seconds", default=5.0, show_default=True, type=click.FloatRange(min=0.1), help="Length of one measurement."
)
@click.option("--segments", default=1, show_default=True, type=click.IntRange(min=1), help="Segments of the chain.")
@click.option(
    "--sessions", type=click.IntRange(1, 256), help="That share what is outstanding.  [default: 1, for striped 8]"
)
@click.option("--system", "systems", multiple=True, type=click.Choice(SYSTEMS), help="Only this one; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one object per measurement, and nothing else.")
@click.option(
    "--markdown",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Put tables and figure into this document, where it says so. docs/results/performance.md, normally.",
)
def main(
    *,
    loglet: str,
    rounds: int,
    outstanding: list[int],
    size: int,
    seconds: float,
    segments: int,
    sessions: int | None,
    systems: tuple[str, ...],
    as_json: bool,
    markdown: Path | None,
) -> None:
    """Measure appends against the floor, or against the native loglet."""
    log_output.configure("warning")
    plan = AppendPlan(
        rounds=rounds,
        outstanding=outstanding,
        size=size,
        seconds=seconds,
        segments=segments,
        sessions=sessions or SESSIONS[loglet],
        systems=systems or COMPARED[loglet],
    )
    summaries = summarize(trio.run(run, plan, partial(_show, as_json)))
    table = as_markdown(summaries, FLOOR if loglet == "native" else LOGLET)
    if not as_json:
        click.echo(table)
    if markdown is not None:
        figure = markdown.with_name(FIGURES[loglet].format(markdown.stem))
        draw(summaries, figure)
        text = f"{table}\n![Throughput and latency]({figure.name})\n"
        put_into(markdown, text, "" if loglet == "native" else f"--loglet {loglet} ")


def _show(as_json: bool, sample: AppendSample) -> None:
    if as_json:
        click.echo(json.dumps(sample.plain()))
        sys.stdout.flush()
    else:
        tell(sample.line())


if __name__ == "__main__":
    main()
