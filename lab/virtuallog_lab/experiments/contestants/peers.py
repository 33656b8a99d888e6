#!/usr/bin/env python3
"""Appends of this log beside writes of etcd, ZooKeeper and PySyncObj: the same load, on the same machine, in turn.

    python -m virtuallog_lab.experiments.contestants.peers --peers-dir ../shared/peers --rounds 5 --seconds 5

Each system is three processes on loopback and one client, with as many writes in flight. One round
measures all of them one right after the other, so that noise of the machine hits them alike; the
results are medians over the rounds. All are up all the time; those whose turn it is not are idle.
Before that, syncs are counted with strace, if it is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import click

from virtuallog_lab.experiments.contestants.contestant import Contestant, Figures, RunningContestant
from virtuallog_lab.experiments.contestants.debian import debian_contestants
from virtuallog_lab.experiments.contestants.pysyncobj import PySyncObjContestant
from virtuallog_lab.experiments.contestants.sync_counts import can_count, syncs_per_thousand
from virtuallog_lab.experiments.contestants.virtuallog_log import VirtualLogContestant
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, whole_numbers
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, middle_and_ends, tell

ON_LOGLETS = ("paxos", "raft")
"""Kinds of loglets below a virtual log of its own, beside the native one."""
SYSTEMS = ("virtuallog", *(f"virtuallog on {kind}" for kind in ON_LOGLETS), "etcd", "zookeeper", "PySyncObj")
COUNT_OUTSTANDING, COUNT_SECONDS = 64, 2.0
"""Outstanding writes and seconds of the measurement in which syncs are counted."""


@attrs.frozen(kw_only=True)
class ComparisonPlan:
    """Plan of a comparison."""

    outstanding: Sequence[int]
    size: int
    seconds: float
    rounds: int
    count_syncs: bool


@attrs.frozen
class Comparison:
    """Result of a comparison."""

    contestants: Sequence[Contestant]
    figures: dict[tuple[int, str], list[Figures]]
    """Figures by outstanding writes and name, one for each round."""
    syncs: dict[str, float]
    """Per 1,000 writes, by name."""


async def compare(contestants: Sequence[Contestant], plan: ComparisonPlan) -> Comparison:
    """Start all, measure in turn, end all.

    Raises:
        PeerError: one could not be started or measured.
    """
    found = Comparison(contestants, {}, {})
    async with AsyncExitStack() as stack:
        running = {}
        for contestant in contestants:
            tell(f"starting {contestant.name}")
            running[contestant.name] = await stack.enter_async_context(contestant.open())
        if plan.count_syncs:
            for name, system in running.items():
                found.syncs[name] = await syncs_per_thousand(system, COUNT_OUTSTANDING, plan.size, COUNT_SECONDS)
        for number in range(plan.rounds):
            for outstanding in plan.outstanding:
                await _measure_in_turn(running, outstanding, plan, found)
            tell(f"round {number + 1} of {plan.rounds} is done")
    return found


async def _measure_in_turn(
    running: dict[str, RunningContestant], outstanding: int, plan: ComparisonPlan, found: Comparison
) -> None:
    for name, system in running.items():
        figures = await system.measure(outstanding, plan.size, plan.seconds)
        tell(f"{outstanding:>4} outstanding, {name}: {figures.ops_per_s:,.0f}/s, p50 {figures.p50_ms:.2f} ms")
        found.figures.setdefault((outstanding, name), []).append(figures)


def report(machine: Machine, plan: ComparisonPlan, found: Comparison) -> Report:
    """A table per number of outstanding writes, and one about disks."""
    return Report(
        title=f"{plan.size}-byte writes beside other systems, medians of {plan.rounds} rounds (lowest-highest)",
        machine=machine,
        tables=[*(_table(outstanding, found) for outstanding in plan.outstanding), _disk_table(found)],
        plain={
            "rounds": plan.rounds,
            "measurements": [
                {"outstanding": outstanding, "system": name, **attrs.asdict(figures)}
                for (outstanding, name), rounds in found.figures.items()
                for figures in rounds
            ],
            "syncs_per_1000_writes": found.syncs,
        },
        verdict="no write failed",
    )


def _table(outstanding: int, found: Comparison) -> Table:
    etcd = found.figures.get((outstanding, "etcd"))
    rows = []
    for contestant in found.contestants:
        rounds = found.figures[outstanding, contestant.name]
        rates, p50s, p99s = zip(*((one.ops_per_s, one.p50_ms, one.p99_ms) for one in rounds), strict=True)
        ratio = (
            middle_and_ends([rate / other.ops_per_s for rate, other in zip(rates, etcd, strict=True)], 1)
            if etcd
            else "-"
        )
        rows.append(
            [contestant.name, middle_and_ends(rates), ratio, middle_and_ends(p50s, 2), middle_and_ends(p99s, 2)]
        )
    return Table(f"{outstanding} outstanding", ["", "writes/s", "of etcd's", "p50 ms", "p99 ms"], rows)


def _disk_table(found: Comparison) -> Table:
    rows = [
        [contestant.name, contestant.durability, f"{found.syncs[contestant.name]:,.1f}" if found.syncs else "-"]
        for contestant in found.contestants
    ]
    title = f"On disk when a write is acknowledged; syncs of all servers per 1,000 writes at {COUNT_OUTSTANDING} outstanding"
    return Table(title, ["", "what", "syncs, counted"], rows)


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--seconds", default=5.0, show_default=True, type=click.FloatRange(0.5, 600), help="Length of one measurement."
)
@click.option("--outstanding", default="1,64,256", show_default=True, callback=whole_numbers, metavar="N,N")
@click.option("--size", default=100, show_default=True, type=click.IntRange(1, 1 << 20), help="Bytes of a value.")
@click.option("--system", "systems", multiple=True, type=click.Choice(SYSTEMS), help="Only this one; may be repeated.")
@click.option(
    "--peers-dir",
    envvar="VIRTUALLOG_PEERS",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The scripts that start and measure etcd and ZooKeeper, which are not part of this project.",
)
@click.option("--count-syncs/--no-count-syncs", default=True, show_default=True, help="With strace, if it is there.")
@form_options
def main(
    *,
    rounds: int,
    seconds: float,
    outstanding: list[int],
    size: int,
    systems: tuple[str, ...],
    peers_dir: Path | None,
    count_syncs: bool,
    form: Form,
) -> None:
    """Compare appends with writes of other systems.

    \b
    Example:
        python -m virtuallog_lab.experiments.contestants.peers --peers-dir ../shared/peers --rounds 3 --system virtuallog --system etcd
    """
    machine = Machine.look()
    count_syncs = count_syncs and can_count()
    plan = ComparisonPlan(outstanding=outstanding, size=size, seconds=seconds, rounds=rounds, count_syncs=count_syncs)
    found = run_to_end(compare, _choose(systems or SYSTEMS, peers_dir), plan)
    report(machine, plan, found).publish(form)


def _choose(systems: Sequence[str], peers_dir: Path | None) -> list[Contestant]:
    known: list[Contestant] = [VirtualLogContestant()]
    known += [VirtualLogContestant(f"virtuallog on {kind}", kind) for kind in ON_LOGLETS]
    if peers_dir is not None:
        known += debian_contestants(peers_dir.resolve())
    elif {"etcd", "zookeeper"} & set(systems):
        tell("without --peers-dir, etcd and zookeeper are left out")
    known.append(PySyncObjContestant())
    return [contestant for contestant in known if contestant.name in systems]


if __name__ == "__main__":
    main()
