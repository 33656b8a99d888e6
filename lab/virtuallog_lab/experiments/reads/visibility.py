#!/usr/bin/env python3
"""Time from the answer to a write at one server of the database until another server shows it.

    python -m virtuallog_lab.experiments.reads.visibility
    python -m virtuallog_lab.experiments.reads.visibility --loglet paxos --zookeeper --rounds 3

Three servers on loopback, and a client with one connection to each, in one process. Writes are offered at a steady rate, each at
another server. As soon as one is answered, the client reads the znode at one of the other two, again and again, until it finds the
write. All six pairs of servers take turns. `--zookeeper` does the same with three servers of ZooKeeper, in the same rounds.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import click

from virtuallog.contract.errors import UnavailableError
from virtuallog_database.tree.commands import Create, SetData
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_lab.experiments.churn.client import CLOCK, Client, connected
from virtuallog_lab.harness.cpu_time import CpuMeter
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, tell
from virtuallog_lab.harness.trial import set_up_client
from virtuallog_lab.harness.zookeeper_ensemble import open_ensemble
from virtuallog_lab.workload.latencies import SPREAD_COLUMNS, Spread
from virtuallog_simulation.workload.database.requests import GetData

PATH: Final = "/visibility"
PATIENCE_SECONDS: Final = 30.0
"""Seconds for a connection, and for a write to be seen."""
WARM_WRITES: Final = 100
"""Writes at the start that do not count: connections, caches, and looks that were saved up."""
_NUMBER: Final = struct.Struct(">q")
_ANY_VERSION: Final = -1


@attrs.frozen(kw_only=True)
class Servers:
    """Servers of one system that run."""

    addresses: Sequence[str]
    processes: Sequence[tuple[str, int]] = ()
    """Names and pids of the processes of which CPU time is taken. Empty: of none."""


System: TypeAlias = Callable[[], AbstractAsyncContextManager[Servers]]


@attrs.frozen(kw_only=True)
class Sightings:
    """Delays of one system in one round."""

    system: str
    delays: Sequence[float]
    """Seconds from the answer to each write until another server has shown it."""
    writes: Sequence[float]
    """Seconds that each write took, for comparison."""
    stale: int
    """Writes that the first read did not find."""
    cpu_us: float
    """CPU time of the servers for each write, with the reads that wait for it. 0 if not taken."""


@asynccontextmanager
async def open_ours(loglet: str) -> AsyncIterator[Servers]:
    """Three servers of the database."""
    async with open_database_cluster(loglet, "") as (cluster, addresses):
        pids = [("servers", node.pid) for node in cluster.running if node.pid is not None]
        yield Servers(addresses=list(addresses.values()), processes=pids)


@asynccontextmanager
async def open_zookeeper() -> AsyncIterator[Servers]:
    """Three servers of ZooKeeper."""
    with tempfile.TemporaryDirectory(prefix="virtuallog-visibility-") as folder:
        async with open_ensemble(Path(folder)) as addresses:
            yield Servers(addresses=addresses.split(","))


async def measure(system: str, servers: Servers, writes: int, per_second: float) -> Sightings:
    """Write and look, `writes` times after `WARM_WRITES`.

    Raises:
        UnavailableError: a connection broke, or a write was not seen in `PATIENCE_SECONDS`.
    """
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(each, PATIENCE_SECONDS)) for each in servers.addresses]
        await clients[0].ask([Create(path=PATH, data=_NUMBER.pack(0))])
        for client in clients[1:]:
            await _see(client, 0)
        delays: list[float] = []
        latencies: list[float] = []
        stale = 0
        meter = CpuMeter(servers.processes)
        begin = CLOCK.monotonic()
        for number in range(WARM_WRITES + writes):
            await CLOCK.sleep(max(0.0, begin + number / per_second - CLOCK.monotonic()))
            if number == WARM_WRITES:
                meter = CpuMeter(servers.processes)
                delays.clear()
                latencies.clear()
                stale = 0
            writer, reader = _pair(number, len(clients))
            sent = CLOCK.monotonic()
            await clients[writer].ask([SetData(path=PATH, data=_NUMBER.pack(number), version=_ANY_VERSION)])
            answered = CLOCK.monotonic()
            latencies.append(answered - sent)
            reads = await _see(clients[reader], number)
            delays.append(CLOCK.monotonic() - answered)
            stale += reads > 1
        used = meter.seconds().get("servers", 0.0)
    return Sightings(system=system, delays=delays, writes=latencies, stale=stale, cpu_us=1e6 * used / writes)


def _pair(number: int, servers: int) -> tuple[int, int]:
    """The servers of a write and of the reads that look for it: all pairs in turn."""
    writer, distance = number % servers, 1 + number // servers % (servers - 1)
    return writer, (writer + distance) % servers


async def _see(client: Client, number: int) -> int:
    """Read until the write with this number, or a later one, is found; returns the number of reads."""
    reads, deadline = 0, CLOCK.monotonic() + PATIENCE_SECONDS
    while CLOCK.monotonic() < deadline:
        (answer,) = await client.ask([GetData(path=PATH)])
        reads += 1
        if not answer.error and _NUMBER.unpack(answer.value[0])[0] >= number:
            return reads
    raise UnavailableError(f"write {number} is not visible after {PATIENCE_SECONDS:g} s")


async def run(systems: dict[str, System], rounds: int, writes: int, per_second: float) -> list[Sightings]:
    """Measure round by round; each system is started anew, and runs alone."""
    found = []
    for _ in range(rounds):
        for name, system in systems.items():
            async with system() as servers:
                found.append(await measure(name, servers, writes, per_second))
            spread, written = Spread.of(found[-1].delays), Spread.of(found[-1].writes)
            tell(
                f"{name}: p50 {spread.p50_ms} ms, p99 {spread.p99_ms} ms, a write {written.p50_ms} ms, CPU {found[-1].cpu_us:,.0f} us"
            )
    return found


def report(machine: Machine, found: Sequence[Sightings], per_second: float) -> Report:
    """Delays of all rounds of each system together."""
    rows, plain = [], {}
    for name in dict.fromkeys(each.system for each in found):
        rounds = [each for each in found if each.system == name]
        delays = [delay for each in rounds for delay in each.delays]
        stale = sum(each.stale for each in rounds)
        cpu_us = sum(each.cpu_us for each in rounds) / len(rounds)
        spread, written = Spread.of(delays), Spread.of([latency for each in rounds for latency in each.writes])
        rows.append([
            name, f"{len(delays):,}", f"{stale:,}", *(f"{value:.2f}" for value in attrs.astuple(spread)),
            f"{written.p50_ms:.2f}", f"{cpu_us:,.0f}",
        ])  # fmt: skip
        plain[name] = {
            "writes": len(delays),
            "stale": stale,
            "write_p50_ms": written.p50_ms,
            "cpu_us": cpu_us,
            **spread.plain(),
        }
    columns = ["", "writes", "not in the first read", *SPREAD_COLUMNS, "a write, p50 ms", "CPU us a write"]
    return Report(
        title=f"From the answer at one server until another one shows the write, {per_second:g} writes/s",
        machine=machine,
        tables=[Table("Visible after", columns, rows)],
        plain={"systems": plain, "per_second": per_second},
        verdict="each write was seen",
    )


@click.command()
@click.option("--loglet", "loglets", multiple=True, default=("native",), show_default=True, help="Kinds of the log.")
@click.option("--zookeeper", is_flag=True, help="Measure ZooKeeper as well; Debian's has to be installed.")
@click.option("--rounds", default=1, show_default=True, type=click.IntRange(1, 100))
@click.option("--writes", default=500, show_default=True, type=click.IntRange(1, 100_000), help="Writes in a round.")
@click.option("--per-second", default=40.0, show_default=True, type=click.FloatRange(0.1, 10_000), help="Writes.")
@form_options
def main(*, loglets: Sequence[str], zookeeper: bool, rounds: int, writes: int, per_second: float, form: Form) -> None:
    """Measure how soon another server shows a write."""
    set_up_client()
    machine = Machine.look()
    systems: dict[str, System] = {f"virtuallog, {kind}": partial(open_ours, kind) for kind in loglets}
    if zookeeper:
        systems["ZooKeeper"] = open_zookeeper
    report(machine, run_to_end(run, systems, rounds, writes, per_second), per_second).publish(form)


if __name__ == "__main__":
    main()
