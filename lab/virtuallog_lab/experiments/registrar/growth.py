#!/usr/bin/env python3
"""A million operations on a registry: what memory, log and disk do meanwhile.

    python -m virtuallog_lab.experiments.registrar.growth --operations 1000000

Three servers of the database and one owner on loopback. Agents are removed and admitted again, at random, so the registry stays as it
is. Each tenth of the operations: the owner's and the servers' memory, the bytes of the log that is left, and of all data directories.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import attrs
import click
import trio

from virtuallog.connect import connect
from virtuallog_database.client.passive_replica import open_replica
from virtuallog_database.registrar.registrar import Registrar, open_registrar
from virtuallog_lab.agents.agent_operations import Admit, Remove
from virtuallog_lab.agents.records import ADMITTED, TABLES
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_lab.experiments.registrar.registry import agents_of
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, tell
from virtuallog_server.process import log_output

WAITING: Final = 256
"""Operations in flight."""
MIB: Final = 1 << 20


@attrs.frozen
class Reading:
    """Sizes at one moment, in MiB."""

    operations: int
    per_s: float
    owner: float
    servers: float
    """Resident memory of all servers together."""
    log: int
    """Positions between trim point and tail."""
    disk: float


def resident(pid: int | None = None) -> float:
    """Resident memory of a process, in MiB."""
    status = Path(f"/proc/{pid or 'self'}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def directory(folder: Path) -> float:
    """Bytes of all files below a directory, in MiB; files may go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total / MIB


async def measure(operations: int, agents: int) -> list[Reading]:
    """All operations; a reading after each tenth."""
    source = random.Random(1)
    readings: list[Reading] = []
    with tempfile.TemporaryDirectory(prefix="virtuallog-growth-") as folder:
        async with (
            open_database_cluster("native", "", Path(folder) / "cluster") as (cluster, _),
            open_replica(cluster.file, Path(folder) / "replica") as client,
            connect(cluster.file) as log,
            open_registrar(client.variables, "agents", tables=TABLES, owner="owner") as registrar,
        ):
            await registrar.recover()
            present = agents_of(agents, source)
            await _all(registrar, [Admit(agent) for agent in present])
            done = 0
            for _ in range(10):
                began = perf_counter()
                for _ in range(operations // 10 // (2 * WAITING)):
                    chosen = source.sample(present, WAITING)
                    await _all(registrar, [Remove(agent.id) for agent in chosen])
                    await _all(registrar, [Admit(agent) for agent in chosen])
                    done += 2 * WAITING
                seconds = perf_counter() - began
                servers = sum(resident(node.pid) for node in cluster.running if node.pid is not None)
                kept = (await log.check_tail()).tail - await log.find_trim_point()
                readings.append(
                    Reading(done, operations / 10 / seconds, resident(), servers, kept, directory(Path(folder)))
                )
                tell(f"{readings[-1]}")
            if registrar.registry.count(ADMITTED) != agents:
                raise AssertionError(f"{registrar.registry.count(ADMITTED)} agents are left of {agents}")
    return readings


async def _all(registrar: Registrar, operations: Sequence[Any]) -> None:
    async with trio.open_nursery() as nursery:
        for operation in operations:
            nursery.start_soon(registrar.apply, operation)


def table(readings: Sequence[Reading]) -> Table:
    """A row for each reading."""
    rows = [
        (
            f"{one.operations:,}",
            f"{one.per_s:,.0f}",
            f"{one.owner:.0f}",
            f"{one.servers:.0f}",
            f"{one.log:,}",
            f"{one.disk:.0f}",
        )
        for one in readings
    ]
    columns = ("operations", "a second", "owner, MiB", "servers, MiB", "positions of the log", "disk, MiB")
    return Table("Memory, log and disk", columns, rows)


@click.command()
@click.option("--operations", default=1_000_000, show_default=True)
@click.option("--agents", default=10_000, show_default=True, help="Size of the registry.")
@form_options
def main(operations: int, agents: int, form: Form) -> None:
    """Measure, and print."""
    log_output.configure("warning")
    machine = Machine.look()
    readings = run_to_end(measure, operations, agents)
    plain = {"readings": [attrs.asdict(reading) for reading in readings]}
    Report(title="A million operations", machine=machine, tables=[table(readings)], plain=plain,
           verdict="every agent is there in the end").publish(form)  # fmt: skip


if __name__ == "__main__":
    main()
