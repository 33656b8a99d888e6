#!/usr/bin/env python3
"""Time from an append until a reader in another process, which waits at the tail, has the entry.

    python -m virtuallog_lab.experiments.reads.tail_latency
    python -m virtuallog_lab.experiments.reads.tail_latency --loglet paxos --per-second 200

Three nodes on loopback. This process appends at a steady rate, one entry at a time; another one iterates over `log.reader()`, and
notes when it gets each entry. Both use the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import click
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import Data, LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, tell
from virtuallog_lab.harness.trial import set_up_client, temporary_cluster
from virtuallog_lab.workload.latencies import SPREAD_COLUMNS, Spread

CLOCK: Final = SystemClock()
PROGRAM: Final = (sys.executable, "-P", "-m", "virtuallog_lab.experiments.reads.tail_latency")
"""Command of the reader."""
WARM: Final = 50
"""Entries at the start that do not count."""
SIZE: Final = 100
"""Bytes of an entry."""
END_SECONDS: Final = 30.0
"""Seconds for the reader to get the last entries."""


@attrs.frozen(kw_only=True)
class Deliveries:
    """Times of the entries on one kind of log, in seconds of the monotonic clock, in the order of the log."""

    loglet: str
    appended: Sequence[float]
    """When `append` was called."""
    acknowledged: Sequence[float]
    delivered: Sequence[float]


async def run(loglets: Sequence[str], entries: int, per_second: float) -> list[Deliveries]:
    """Measure each kind of log, one after the other."""
    found = []
    for loglet in loglets:
        async with temporary_cluster(loglet=loglet) as cluster, connect(cluster.file) as log:
            cluster.write_file()
            found.append(await _measure(log, cluster.file_path, loglet, entries, per_second))
        tell(f"{loglet} is done")
    return found


async def _measure(log: VirtualLog, cluster: Path, loglet: str, entries: int, per_second: float) -> Deliveries:
    command = [*PROGRAM, "--read", str(cluster), "--entries", str(WARM + entries)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    appended, acknowledged, appender = list[float](), list[float](), log.appender()
    try:
        await process.stdout.receive_some(1)  # it is about to wait
        begin = CLOCK.monotonic()
        for number in range(WARM + entries):
            await CLOCK.sleep(max(0.0, begin + number / per_second - CLOCK.monotonic()))
            appended.append(CLOCK.monotonic())
            await appender.append([bytes(SIZE)])
            acknowledged.append(CLOCK.monotonic())
        output = b""
        with CLOCK.timeout(END_SECONDS):
            async for chunk in process.stdout:
                output += chunk
    finally:
        process.kill()
        await process.wait()
    delivered = json.loads(output or b"[]")
    if len(delivered) != WARM + entries:
        raise UnavailableError(f"the reader got {len(delivered)} of {WARM + entries} entries")
    return Deliveries(
        loglet=loglet, appended=appended[WARM:], acknowledged=acknowledged[WARM:], delivered=delivered[WARM:]
    )


async def _read(cluster: Path, entries: int) -> None:
    """Print one byte, then the times of so many entries from the start of the log on."""
    delivered: list[float] = []
    async with connect(cluster) as log:
        await log.check_tail()
        click.echo("x", nl=False)
        sys.stdout.flush()
        async for record in log.reader(LogPosition(0)):
            if isinstance(record, Data):
                delivered.append(CLOCK.monotonic())
                if len(delivered) == entries:
                    break
    click.echo(json.dumps(delivered))


def report(machine: Machine, found: Sequence[Deliveries], per_second: float) -> Report:
    """Three spreads of each kind of log."""
    rows, plain = [], {}
    for each in found:
        spans = {
            "append to delivery": (each.appended, each.delivered),
            "acknowledgement to delivery": (each.acknowledged, each.delivered),
            "append to acknowledgement": (each.appended, each.acknowledged),
        }
        spreads = {
            name: Spread.of([stop - start for start, stop in zip(*pair, strict=True)]) for name, pair in spans.items()
        }
        rows += [
            [f"{each.loglet}, {name}", *(f"{value:.2f}" for value in attrs.astuple(spread))]
            for name, spread in spreads.items()
        ]
        plain[each.loglet] = {name: spread.plain() for name, spread in spreads.items()}
    return Report(
        title=f"Delivery to a reader that waits in another process, {per_second:g} appends/s, {len(found[0].delivered)} entries each",
        machine=machine,
        tables=[Table("Times", ["", *SPREAD_COLUMNS], rows)],
        plain={"loglets": plain, "per_second": per_second},
        verdict="every entry was delivered",
    )


@click.command()
@click.option("--loglet", "loglets", multiple=True, default=("native",), show_default=True, help="Kinds of the log.")
@click.option("--entries", default=500, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--per-second", default=40.0, show_default=True, type=click.FloatRange(0.1, 10_000), help="Appends.")
@click.option("--read", hidden=True, type=click.Path(path_type=Path))
@form_options
def main(*, loglets: Sequence[str], entries: int, per_second: float, read: Path | None, form: Form) -> None:
    """Measure how soon a reader that waits gets an entry."""
    set_up_client()
    if read is not None:
        run_to_end(_read, read, entries)
        return
    machine = Machine.look()
    report(machine, run_to_end(run, loglets, entries, per_second), per_second).publish(form)


if __name__ == "__main__":
    main()
