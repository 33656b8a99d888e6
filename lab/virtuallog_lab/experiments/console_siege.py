#!/usr/bin/env python3
"""Appends beside a console that has many tails open and is scanned, on one machine.

    python -m virtuallog_lab.experiments.console_siege
    python -m virtuallog_lab.experiments.console_siege --state scanned --load "64 callers" --rounds 60 --no-tls --markdown

Three nodes and a console, all as processes, and a client of the nodes in this one. A round measures appends for a short time with each load
under each state of the console: quiet, with tails, scanned, both, and quiet while the same callers call another port; their order
is drawn anew for each round. A ratio is to the quiet state of the same round, so what the machine does for longer than a round is in both.

The loads are appends of 100 bytes: `paced` at a fixed rate, by one caller each, and closed loops of 1 and of 64 callers. The median of the ratios
has an interval of confidence, and the target is met, or missed, only if all of that says so.

Readers of the tails and the scanner run with SCHED_IDLE (`console_callers`), as their machines are others in earnest. They still take a part of
this one, so each has a control. The scanner scans a port where nothing is accepted. Readers of tails read as much from a sham
(`console_sham`) as they have had from the console with that load.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import click
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import UnavailableError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.console_siege_report import (
    CALLERS,
    PACED,
    QUIET,
    SCAN_RATE,
    SHAM_SCAN,
    SHAM_TAILS,
    STATES,
    TAILS,
    SiegePlan,
    SiegeResult,
    SiegeSample,
    report,
)
from virtuallog_lab.harness.cpu_time import CpuMeter
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_server.local_cluster.certificates import Authority
from virtuallog_server.local_cluster.supervisor import PROGRAM, LocalCluster

CLOCK: Final = SystemClock()
PACED_RATE: Final = 200
"""Appends per second of the load `paced`: 20,000 events per second to 100 tails."""
TAILS_COUNT: Final = 100
SHAM_BACKLOG: Final = 1000
"""Connections that the kernel keeps for a port where none is accepted."""
SIZE: Final = 100
"""Bytes of an entry."""
SETTLE_SECONDS: Final = 0.3
"""Seconds between the start of callers, or of a load, and its measurement."""
START_SECONDS: Final = 60.0
"""Longest start of a process."""


@attrs.define(eq=False)
class Besieged:
    """A cluster with a console, and the client that appends."""

    cluster: LocalCluster
    url: str
    log: VirtualLog
    identity: TlsFiles | None
    """Files of the readers of tails. None without TLS."""
    own: TlsFiles | None
    """Files of the console, which the sham uses as well. None without TLS."""
    pids: Sequence[tuple[str, int]]
    idle: bool
    processes: AsyncExitStack
    """Ends the processes of callers, and the sham."""
    closed_port: socket.socket
    """Listens, and accepts nothing."""
    counted: list[Mapping[str, Any]] = attrs.field(factory=list)
    _started: dict[str, trio.Process] = attrs.field(factory=dict, init=False)
    _calling: dict[str, trio.Process] = attrs.field(factory=dict, init=False)
    """Callers under way, by kind."""
    _sent: dict[tuple[str, str], float] = attrs.field(factory=dict, init=False)
    """Sends, bytes and seconds of all tails together, by load."""
    _sham: tuple[trio.Process, int] | None = attrs.field(default=None, init=False)
    """The sham of the console, and its port. None if it has not been started."""

    @asynccontextmanager
    async def called(self, kind: str) -> AsyncIterator[None]:
        """Let callers of a kind call for the length of the block."""
        if kind not in self._started:
            self._started[kind] = await self._start(kind)
        process = self._started[kind]
        await _tell(process, "begin", "under way")
        self._calling[kind] = process
        yield
        del self._calling[kind]
        await _tell(process, "end", "}")
        with suppress(BlockingIOError):
            while True:
                self.closed_port.accept()[0].close()

    async def _start(self, kind: str) -> trio.Process:
        port = urlsplit(self.url).port
        if kind == SHAM_SCAN:
            port = self.closed_port.getsockname()[1]
        if kind == SHAM_TAILS:
            sham = await self._start_module("console_sham", *_identity(self.own))
            told = await _tell(sham, "", "open")
            port = int(told.split()[1])
            self._sham = sham, port
        url = f"{urlsplit(self.url).scheme}://127.0.0.1:{port}"
        tails = ["tails", url, "--count", str(TAILS_COUNT), *_identity(self.identity)]
        scan = ["scan", url, "--rate", str(SCAN_RATE)]
        return await self._start_module("console_callers", *(tails if kind in (TAILS, SHAM_TAILS) else scan))

    async def _start_module(self, name: str, *arguments: str) -> trio.Process:
        idle = ["--idle"] if self.idle else []
        command = [sys.executable, "-P", "-m", f"virtuallog_lab.experiments.{name}", *idle, *arguments]
        return await self.processes.enter_async_context(_process(command))

    def _other_pids(self) -> list[tuple[str, int]]:
        sham = [("sham", self._sham[0].pid)] if self._sham is not None else []
        return [*(("callers", process.pid) for process in self._calling.values()), *sham]

    async def pace_sham(self, load: str) -> None:
        """Let the sham, if it is called, send as the console did with this load."""
        if SHAM_TAILS in self._calling and self._sham is not None:
            seconds = self._sent[load, "seconds"]
            pace = f"{self._sent[load, 'sends'] / seconds} {self._sent[load, 'bytes'] / seconds}"
            await _tell(self._sham[0], pace, "paced")

    async def _count(self, kind: str, load: str, seconds: float) -> None:
        """Count what callers do in so many seconds from now on."""
        process = self._calling[kind]
        before, begin = json.loads(await _tell(process, "count", "}")), CLOCK.monotonic()
        await CLOCK.sleep(seconds)
        after, end = json.loads(await _tell(process, "count", "}")), CLOCK.monotonic()
        counts = {name: count - before.get(name, 0) for name, count in after.items()}
        self.counted.append({"kind": kind, "load": load, "seconds": end - begin, **counts})
        if kind == TAILS:
            for name, amount in {**counts, "seconds": end - begin}.items():
                self._sent[load, name] = self._sent.get((load, name), 0) + amount

    async def measure(self, state: str, load: str, seconds: float) -> SiegeSample:
        """Append for so long, after a time that does not count."""
        await self.pace_sham(load)
        begin = CLOCK.monotonic() + SETTLE_SECONDS
        end, latencies = begin + seconds, list[float]()

        async def append(due: float) -> None:
            await self.log.append(bytes(SIZE))
            if begin <= due:
                latencies.append(CLOCK.monotonic() - due)

        async def go_on() -> None:
            while (now := CLOCK.monotonic()) < end:
                await append(now)

        async def pace() -> None:
            due = CLOCK.monotonic()
            while due < end:
                await CLOCK.sleep(max(0.0, due - CLOCK.monotonic()))
                nursery.start_soon(append, CLOCK.monotonic())
                due += 1 / PACED_RATE

        async with trio.open_nursery() as nursery:
            for _ in range(CALLERS[load]):
                nursery.start_soon(go_on)
            if load == PACED:
                nursery.start_soon(pace)
            await CLOCK.sleep(max(0.0, begin - CLOCK.monotonic()))
            meter = CpuMeter([*self.pids, *self._other_pids()])
            for kind in self._calling:
                nursery.start_soon(self._count, kind, load, seconds)
            await CLOCK.sleep(max(0.0, end - CLOCK.monotonic()))
            cpu = meter.seconds()
        if not latencies:
            tell(f"{state}, {load}: no append began and ended in {seconds:g} s")
        return SiegeSample(state=state, load=load, latencies=sorted(latencies), seconds=seconds, cpu=cpu)


@asynccontextmanager
async def _process(command: Sequence[str]) -> AsyncIterator[trio.Process]:
    """A process for the length of the block."""
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):  # what is killed is dead at once
            await process.wait()


async def _tell(process: trio.Process, line: str, word: str) -> str:
    """Send a line to a process, if it is not empty. Returns all that the process prints until it has printed `word`."""
    assert process.stdin is not None and process.stdout is not None
    told = ""
    with CLOCK.timeout(START_SECONDS):
        if line:
            await process.stdin.send_all(f"{line}\n".encode())
        while word not in told and (part := await process.stdout.receive_some()):
            told += part.decode()
    if word not in told:
        raise UnavailableError(f"{process.args!r} has not printed '{word}'; it said: {told}")
    return told


@asynccontextmanager
async def besieged(plan: SiegePlan) -> AsyncIterator[Besieged]:
    """Start nodes and console, for the length of the block."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(temporary_cluster(tls=plan.tls))
        cluster.write_file()
        options, identity, own = list[str](), None, None
        if plan.tls:
            authority = Authority.open(cluster.path / "certificates")
            owner = Principal(cluster="local", role=Role.CLIENT, name="console")
            own = authority.issue(owner, hosts=["localhost", "127.0.0.1"])
            options = ["--host", "localhost", "--host", "127.0.0.1", "--certificate", str(own.certificate)]
            options += ["--key", str(own.key), "--authority", str(own.authority)]
            identity = cluster.tls
        command = [*PROGRAM, "console", "--listen", "127.0.0.1:0", "--cluster", str(cluster.file_path)]
        console = await stack.enter_async_context(_process([*command, *options, *plan.options]))
        told = await _tell(console, "", "try: curl")
        log = await stack.enter_async_context(connect(cluster.file))
        pids = [("nodes", pid) for node in cluster.nodes.values() if (pid := node.pid) is not None]
        url = told.splitlines()[0].partition(": ")[2].replace("localhost", "127.0.0.1")
        closed = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=SHAM_BACKLOG))
        closed.setblocking(False)
        pids.append(("console", console.pid))
        yield Besieged(cluster, url, log, identity, own, pids, plan.idle, stack, closed)


def _identity(files: TlsFiles | None) -> list[str]:
    return ["--identity", *map(str, (files.certificate, files.key, files.authority))] if files else []


async def run(plan: SiegePlan) -> SiegeResult:
    """Measure all rounds on one cluster."""
    samples, chance = list[SiegeSample](), random.Random(1)
    async with besieged(plan) as siege:
        async with siege.called(TAILS):  # so that there is a pace for the sham
            for load in plan.loads:
                await siege.measure(QUIET, load, plan.seconds)
        siege.counted.clear()
        end = CLOCK.monotonic() + plan.within
        for number in range(plan.rounds):
            if CLOCK.monotonic() > end:
                break
            for state in chance.sample(plan.states, len(plan.states)):
                async with AsyncExitStack() as stack:
                    for kind in STATES[state]:
                        await stack.enter_async_context(siege.called(kind))
                    samples += [await siege.measure(state, load, plan.seconds) for load in plan.loads]
            tell(f"round {number + 1} of {plan.rounds}")
    return SiegeResult(samples, siege.counted)


@click.command()
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(min=1, max=1000))
@click.option(
    "--seconds",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.05, 60),
    help="Of each measurement; a hundred tails are sent something once a second.",
)
@click.option("--within", default=float("inf"), help="Begin no round after so many seconds.")
@click.option("--load", "loads", multiple=True, type=click.Choice([*CALLERS]), help="Only this one; may be repeated.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([*STATES]),
    help="Only this one and the quiet one; repeatable.",
)
@click.option("--tls/--no-tls", default=True, show_default=True, help="Nodes and console inside TLS.")
@click.option("--console-option", "options", multiple=True, metavar="TEXT", help="Option of the console; repeatable.")
@form_options
def main(
    *,
    rounds: int,
    seconds: float,
    within: float,
    loads: tuple[str, ...],
    states: tuple[str, ...],
    tls: bool,
    options: tuple[str, ...],
    form: Form,
) -> None:
    """Measure appends beside a console with tails and a scanner."""
    machine = Machine.look()
    plan = SiegePlan(
        rounds=rounds,
        seconds=seconds,
        within=within,
        states=tuple(dict.fromkeys([QUIET, *(states or STATES)])),
        loads=loads or tuple(CALLERS),
        tls=tls,
        options=options,
        idle=True,
    )
    report(machine, plan, run_to_end(run, plan)).publish(form)


if __name__ == "__main__":
    main()
