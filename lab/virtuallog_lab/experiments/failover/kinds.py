#!/usr/bin/env python3
"""The same faults on each kind of loglet that orders entries at one node, in one table. Needs root, for network namespaces and disks.

    python -m virtuallog_lab.experiments.failover.kinds --kills 50 --stops 20 --rounds 5

Runs `failover.kill` and `failover.hosts` for each kind, one after the other: these say what each fault is, and check that
nothing is lost, doubled or reordered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from virtuallog_lab.experiments.failover.hosts import FAULTS, STALL
from virtuallog_lab.experiments.failover.kill import ORDERERS
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.report import Report, Table, tell

KILL: Final = "kill -9"
"""Row of the killed node, which each kind names otherwise."""


@click.command()
@click.option(
    "--loglet", "loglets", multiple=True, type=click.Choice([*ORDERERS]), help="Only this one; may be repeated."
)
@click.option("--kills", default=50, show_default=True, type=click.IntRange(1, 10_000), help="Of the node that orders.")
@click.option("--stops", default=20, show_default=True, type=click.IntRange(0, 1000), help="SIGSTOP of it.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(0, 1000), help="Of the faults of hosts.")
@form_options
def main(*, loglets: tuple[str, ...], kills: int, stops: int, rounds: int, form: Form) -> None:
    """Inject the same faults into clusters on each kind of loglet, and compare how long appends wait.

    \b
    Example:
        python -m virtuallog_lab.experiments.failover.kinds --kills 2 --stops 1 --rounds 1 --loglet raft
    """
    machine = Machine.look()
    reports = {}
    for loglet in loglets or ORDERERS:
        found = [_run("kill", loglet, "--sequencers", str(kills), "--blackouts", "0", "--stops", str(stops))]
        if rounds:
            chosen = [argument for fault in (*FAULTS, STALL) for argument in ("--fault", fault)]
            found.append(_run("hosts", loglet, "--rounds", str(rounds), *chosen))
        reports[loglet] = found
    compare(machine, reports).publish(form)


def _run(program: str, loglet: str, *arguments: str) -> dict[str, Any]:
    tell(f"{program} on {loglet}")
    command = [sys.executable, "-m", f"virtuallog_lab.experiments.failover.{program}", "--loglet", loglet, "--json"]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:  # its error is on stderr
        raise SystemExit(done.returncode or 1)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def compare(machine: Machine, reports: Mapping[str, Sequence[Mapping[str, Any]]]) -> Report:
    """One table of the reports of each kind."""
    blows = {
        loglet: {
            KILL if fault == ORDERERS[loglet] else fault: spread
            for report in found
            for fault, spread in report["blows"].items()
        }
        for loglet, found in reports.items()
    }
    faults = dict.fromkeys(fault for found in blows.values() for fault in found)
    rows = [
        [fault, str(next(found[fault]["times"] for found in blows.values() if fault in found))]
        + [_cell(found.get(fault)) for found in blows.values()]
        for fault in faults
    ]
    every = [report for found in reports.values() for report in found]
    return Report(
        title="The same faults on each kind",
        machine=machine,
        tables=[Table("Until appends are acknowledged again: p50, p90, longest, ms", ["", "times each", *blows], rows)],
        plain={"blows": blows},
        verdict=f"{sum(report['acknowledged'] for report in every):,} entries acknowledged, "
        f"{sum(report['unknown'] for report in every):,} unknown: nothing lost, nothing doubled, nothing reordered",
        problems=[
            f"{loglet}: {problem}"
            for loglet, found in reports.items()
            for each in found
            for problem in each["problems"]
        ],
    )


def _cell(spread: Mapping[str, float] | None) -> str:
    return "-" if spread is None else " / ".join(f"{spread[name]:,.0f}" for name in ("p50_ms", "p90_ms", "max_ms"))


if __name__ == "__main__":
    main()
