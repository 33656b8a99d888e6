#!/usr/bin/env python3
"""The database beside ZooKeeper: the same client, the same requests, on the same machine, in turn.

    python -m virtuallog_lab.experiments.database.zookeeper_comparison --peers-dir ../shared/peers --rounds 3 --picture zelos.png

Three servers each, on loopback. A round starts ours, measures it and ends it, then does the same with ZooKeeper: only one of the two
runs at a time, as they would share the processors. The client is one process with plain sockets and requests encoded by hand
(`bench.py zk` of the scripts in --peers-dir), connected to our node that orders the log, and to ZooKeeper's leader. Medians over
the rounds are what counts, and ratios within a round; CPU time of an operation hardly depends on who else uses the machine.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import attrs
import click
import trio

from virtuallog.connect import connect
from virtuallog.node_services import open_services_to
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_lab.experiments.contestants.debian import BUSY, debian_contestants, run_script
from virtuallog_lab.experiments.database.report import OURS, THEIRS, DatabasePlan, DatabaseSample, draw, report
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, picture_option
from virtuallog_lab.harness.orderer import ASKED, find_orderer
from virtuallog_lab.harness.program import PeerError, run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_server.process import log_output

KEYS: Final = 100
"""Znodes. They are made before each measurement, one by one: with a thousand that takes longer than the measurement."""
WARM_SECONDS: Final = 1.0
"""Before each measurement."""
ATTEMPTS: Final = 3
"""Attempts of a measurement of ZooKeeper, which on a busy machine may lose its leader and close all
connections. The database gets one."""


class Served(Protocol):
    """A system that runs."""

    async def measure(self, kind: str, outstanding: int, plan: DatabasePlan) -> DatabaseSample:
        """Measure for `plan.seconds`.

        Raises:
            PeerError: an operation has failed.
        """
        ...


class System(Protocol):
    """One that can be started, with nothing in it."""

    def open(self) -> AbstractAsyncContextManager[Served]: ...


async def measure_all(systems: Sequence[System], plan: DatabasePlan) -> list[DatabaseSample]:
    """Round by round, each system by itself."""
    samples = []
    for number in range(plan.rounds):
        for system in systems:
            async with system.open() as served:
                for kind, outstanding in plan.cases:
                    samples.append(await served.measure(kind, outstanding, plan))
                    tell(samples[-1].line())
        tell(f"round {number + 1} of {plan.rounds} is done")
    return samples


@attrs.frozen
class _Loaded:
    """Measured by the script with these arguments."""

    name: str
    scripts: Path
    arguments: Sequence[str]
    attempts: int = 1

    async def measure(self, kind: str, outstanding: int, plan: DatabasePlan) -> DatabaseSample:
        for _ in range(self.attempts - 1):
            try:
                return await self._measure(kind, outstanding, plan)
            except PeerError as error:
                tell(f"once more: {error}")
                await trio.sleep(5)  # noqa: TID251 -- a real process
        return await self._measure(kind, outstanding, plan)

    async def _measure(self, kind: str, outstanding: int, plan: DatabasePlan) -> DatabaseSample:
        lines = await run_script(
            self.scripts, "bench.py", *self.arguments, "--runs", "1", "--seconds", str(plan.seconds), "--warm", str(WARM_SECONDS),
            "--warm-first", "0", "--kinds", kind, "--keys", str(KEYS), "--outstanding", str(outstanding),
            "--sizes", str(plan.size), "--quiet", BUSY,
        )  # fmt: skip
        found = json.loads(lines.splitlines()[-1])
        if found["errors"]:
            raise PeerError(f"{self.name}: {found['errors']} operations failed")
        return DatabaseSample(
            system=self.name,
            kind=kind,
            outstanding=outstanding,
            ops_per_s=found["rate"],
            p50_ms=found["p50"],
            p99_ms=found["p99"],
            client_us=1e6 * found["cpu_client"] / found["rate"],
            servers_us=1e6 * found["cpu_server"] / found["rate"],
        )


@asynccontextmanager
async def open_database() -> AsyncIterator[tuple[str, list[int]]]:
    """Three servers of the database: the address of the one that orders the log, and the processes of all."""
    async with open_database_cluster("native", "") as (cluster, addresses):
        async with connect(cluster.file) as log, open_services_to(cluster.file, ASKED) as services:
            orderer = await find_orderer(services, (await log.view.refresh()).chain.last)
        yield addresses[orderer], [node.pid for node in cluster.running if node.pid is not None]


@attrs.frozen
class Ours:
    """Three servers of the database, on a native loglet."""

    scripts: Path

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Served]:
        async with open_database() as (address, pids):
            yield _Loaded(OURS, self.scripts, ["zk", address, *(part for pid in pids for part in ("--pid", str(pid)))])


@attrs.frozen
class Theirs:
    """Debian's ZooKeeper; its compiler of bytecode gets some seconds of writes first."""

    scripts: Path

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Served]:
        (zookeeper,) = (each for each in debian_contestants(self.scripts) if each.name == "zookeeper")
        async with zookeeper.open() as running:
            yield _Loaded(THEIRS, self.scripts, ["run", str(running.data)], ATTEMPTS)


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--seconds", default=5.0, show_default=True, type=click.FloatRange(0.5, 600), help="Length of one measurement."
)
@click.option("--size", default=100, show_default=True, type=click.IntRange(1, 1 << 20), help="Bytes of a value.")
@click.option(
    "--peers-dir",
    required=True,
    envvar="VIRTUALLOG_PEERS",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The scripts that start ZooKeeper and measure both, which are not part of this project.",
)
@picture_option
@form_options
def main(*, rounds: int, seconds: float, size: int, peers_dir: Path, picture: Path | None, form: Form) -> None:
    """Compare the database with ZooKeeper.

    \b
    Example:
        python -m virtuallog_lab.experiments.database.zookeeper_comparison --peers-dir ../shared/peers --rounds 3
    """
    log_output.configure("warning")
    machine = Machine.look()
    plan = DatabasePlan(rounds=rounds, seconds=seconds, size=size)
    scripts = peers_dir.resolve()
    samples = run_to_end(measure_all, (Ours(scripts), Theirs(scripts)), plan)
    if picture:
        draw(plan, samples, picture)
    report(machine, plan, samples).publish(form)


if __name__ == "__main__":
    main()
