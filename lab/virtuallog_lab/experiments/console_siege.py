#!/usr/bin/env python3
"""Appends beside a console that has many tails open and is scanned, on one machine.

    python -m virtuallog_lab.experiments.console_siege
    python -m virtuallog_lab.experiments.console_siege --state scanned --load "64 callers" --rounds 60 --no-tls --markdown

Three nodes and a console, all as processes, and a client of the nodes in this one. A round measures appends for a short time with each load
under each state of the console: quiet, with tails, scanned, both, and quiet while the scanner scans a port where nothing is accepted; their order
is drawn anew for each round. A ratio is to the quiet state of the same round, so what the machine does for longer than a round is in both.

The loads are appends of 100 bytes: `paced` at a fixed rate, by one caller each, and closed loops of 1 and of 64 callers. The median of the ratios
has an interval of confidence, and the target is met, or missed, only if all of that says so.

Readers of the tails and the scanner run with SCHED_IDLE (`console_callers`), as their machines are others in earnest.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from statistics import median
from typing import Any, Final

import attrs
import click
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import UnavailableError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.cpu_time import CpuMeter
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.median_interval import CONFIDENCE, median_interval
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, middle_and_ends, tell
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_lab.workload.appends import percentile
from virtuallog_server.local_cluster.certificates import Authority
from virtuallog_server.local_cluster.supervisor import PROGRAM, LocalCluster

CLOCK: Final = SystemClock()
TAILS, SCAN, SHAM = "tails", "scan", "sham"
"""Kinds of callers: readers of tails, a scanner, and the same scanner at a port that is not the console's."""
STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "quiet": (),
    "100 tails": (TAILS,),
    "scanned": (SCAN,),
    "both": (TAILS, SCAN),
    "other port scanned": (SHAM,),
}
"""States of the console: the callers that it has."""
QUIET, SCANNED, OTHER_SCANNED = "quiet", "scanned", "other port scanned"
PACED: Final = "paced"
CALLERS: Final[Mapping[str, int]] = {PACED: 0, "1 caller": 1, "64 callers": 64}
"""Loads, and the callers of a closed loop; 0 for an open one."""
PACED_RATE: Final = 200
"""Appends per second of the load `paced`: 20,000 events per second to 100 tails."""
TAILS_COUNT: Final = 100
SCAN_RATE: Final = 100
"""Connections per second of the scanner: each second the ports of a host, from a machine that scans a thousand hosts."""
SCANNED_LEAST: Final = 0.8
"""Part of the scanner's rate below which a run does not tell what a scan costs."""
SHAM_BACKLOG: Final = 1000
"""Connections that the kernel keeps for a port where none is accepted."""
SIZE: Final = 100
"""Bytes of an entry."""
SETTLE_SECONDS: Final = 0.3
"""Seconds between the start of callers, or of a load, and its measurement."""
START_SECONDS: Final = 60.0
"""Longest start of a process."""
TARGET: Final = 0.03
"""Most of the rate, or of the median latency, that the console may cost."""


@attrs.frozen(kw_only=True)
class SiegeSample:
    """Appends with one load, while the console was in one state."""

    state: str
    load: str
    latencies: Sequence[float]
    """Seconds of each append, in ascending order."""
    seconds: float
    cpu: Mapping[str, float]
    """CPU seconds of the nodes, the console and this client."""

    @property
    def per_second(self) -> float:
        """Appends per second."""
        return len(self.latencies) / self.seconds

    def milliseconds(self, share: float) -> float:
        """Latency that this share of the appends does not exceed."""
        return 1000 * percentile(self.latencies, share)

    @property
    def cost(self) -> float:
        """Figure that the console should not raise: the median latency, or for a saturated loop the seconds for an append."""
        return 1 / self.per_second if CALLERS[self.load] > 1 else self.milliseconds(0.5)


@attrs.frozen(kw_only=True)
class SiegePlan:
    """The measurements of a run."""

    rounds: int
    seconds: float
    within: float = float("inf")
    """Seconds after which no further round begins."""
    states: Sequence[str] = tuple(STATES)
    """States of the console; the quiet one is among them."""
    tls: bool = True
    """True if nodes and console are inside TLS."""
    loads: Sequence[str] = tuple(CALLERS)
    options: Sequence[str] = ()
    """Further options of `virtuallog console`."""
    idle: bool = False
    """True if tails and scanner take idle processor time alone."""


@attrs.frozen
class SiegeResult:
    """The measurements, and counts of the callers of the console."""

    samples: Sequence[SiegeSample]
    counted: Sequence[Mapping[str, Any]]
    """One for each stay of callers: their kind, seconds, and counts."""


@attrs.define(eq=False)
class Besieged:
    """A cluster with a console, and the client that appends."""

    cluster: LocalCluster
    url: str
    log: VirtualLog
    identity: TlsFiles | None
    pids: Sequence[tuple[str, int]]
    idle: bool
    callers: AsyncExitStack
    """Ends the processes of callers."""
    sham: socket.socket
    """Listens, and accepts nothing."""
    counted: list[Mapping[str, Any]] = attrs.field(factory=list)
    _started: dict[str, trio.Process] = attrs.field(factory=dict, init=False)

    @asynccontextmanager
    async def called(self, kind: str) -> AsyncIterator[None]:
        """Let callers of a kind call the console for the length of the block."""
        if kind not in self._started:
            self._started[kind] = await self._start(kind)
        process = self._started[kind]
        begin = CLOCK.monotonic()
        await _tell(process, "begin", "under way")
        yield
        counted = await _tell(process, "end", "}")
        self.counted.append({"kind": kind, "seconds": CLOCK.monotonic() - begin, **json.loads(counted)})
        with suppress(BlockingIOError):
            while True:
                self.sham.accept()[0].close()

    async def _start(self, kind: str) -> trio.Process:
        files = self.identity
        identity = ["--identity", *map(str, (files.certificate, files.key, files.authority))] if files else []
        amount = ["--count", str(TAILS_COUNT), *identity] if kind == TAILS else ["--rate", str(SCAN_RATE)]
        scheme = self.url.partition("://")[0]
        url = f"{scheme}://127.0.0.1:{self.sham.getsockname()[1]}" if kind == SHAM else self.url
        command = TAILS if kind == TAILS else SCAN
        idle = ["--idle"] if self.idle else []
        module = [
            sys.executable,
            "-P",
            "-m",
            "virtuallog_lab.experiments.console_callers",
            *idle,
            command,
            url,
            *amount,
        ]
        return await self.callers.enter_async_context(_process(module))

    async def measure(self, state: str, load: str, seconds: float) -> SiegeSample:
        """Append for so long, after a time that does not count."""
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
            meter = CpuMeter(self.pids)
            await CLOCK.sleep(max(0.0, end - CLOCK.monotonic()))
            cpu = meter.seconds()
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
        options, identity = list[str](), None
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
        sham = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=SHAM_BACKLOG))
        sham.setblocking(False)
        yield Besieged(cluster, url, log, identity, [*pids, ("console", console.pid)], plan.idle, stack, sham)


async def run(plan: SiegePlan) -> SiegeResult:
    """Measure all rounds on one cluster."""
    samples, chance = list[SiegeSample](), random.Random(1)
    async with besieged(plan) as siege:
        for load in plan.loads:
            await siege.measure(QUIET, load, 0.1)
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


def report(machine: Machine, plan: SiegePlan, result: SiegeResult) -> Report:
    """A row for each load and state; the ratio is to the quiet state of the same round. With a scan of another port, a row more compares with
    that: the scanner is on this machine then as well.
    """
    rows, plain = list[list[str]](), dict[str, dict[str, float]]()
    for load in plan.loads:
        found = {
            state: [each for each in result.samples if (each.state, each.load) == (state, load)]
            for state in plan.states
        }
        for state, those in found.items():
            more = _more(those, found[QUIET])
            low, high = median_interval(more)
            cpu = {name: [each.cpu[name] / each.seconds for each in those] for name in ("nodes", "console")}
            rows.append(
                [
                    f"{load}, {state}",
                    middle_and_ends([each.per_second for each in those]),
                    middle_and_ends([each.milliseconds(0.5) for each in those], 2),
                    middle_and_ends([each.milliseconds(0.99) for each in those], 2),
                    *(("", "") if state == QUIET else _verdict(more)),
                    *(middle_and_ends([100 * each for each in used]) for used in cpu.values()),
                ]
            )
            plain[f"{load}, {state}"] = {
                "per_second": median(each.per_second for each in those),
                "median_ms": median(each.milliseconds(0.5) for each in those),
                "p99_ms": median(each.milliseconds(0.99) for each in those),
                "more": median(more),
                "more_low": low,
                "more_high": high,
                "target": TARGET,
                "console_cpu": median(cpu["console"]),
            }
        if {SCANNED, OTHER_SCANNED} <= {*plan.states}:
            more = _more(found[SCANNED], found[OTHER_SCANNED])
            rows.append([f"{load}, scanned, to other port", "", "", "", *_verdict(more), "", ""])
            low, high = median_interval(more)
            plain[f"{load}, scanned, to other port"] = {"more": median(more), "more_low": low, "more_high": high}
    columns = ["load, console", "appends/s", "median ms", "p99 ms", "slower, %", "target", "nodes, % of a CPU", "console, % of a CPU"]  # fmt: skip
    return Report(
        title=f"Appends beside a console, {len(result.samples) // len(plan.states) // len(plan.loads)} rounds, {'inside TLS' if plan.tls else 'without TLS'}",
        machine=machine,
        tables=[
            Table(
                f"Median of the rounds, and ends; of the ratio its {100 * CONFIDENCE:g} % interval. At most {100 * TARGET:g} % slower is the target",
                columns,
                rows,
            ),
            _callers(result.counted),
        ],
        plain={"rows": plain, "callers": result.counted},
        verdict=f"every append was acknowledged{_starved(result.counted)}",
    )


def _more(those: Sequence[SiegeSample], base: Sequence[SiegeSample]) -> Sequence[float]:
    """Ratios of the rounds, less 1."""
    return [each.cost / other.cost - 1 for each, other in zip(those, base, strict=True)]


def _verdict(more: Sequence[float]) -> tuple[str, str]:
    low, high = median_interval(more)
    found = "met" if high <= TARGET else "missed" if low > TARGET else "open"
    return f"{100 * median(more):.1f} ({100 * low:.1f} to {100 * high:.1f})", found


def _starved(counted: Sequence[Mapping[str, Any]]) -> str:
    """A warning if the scanner came less often than it should: it has only the time that others leave. Empty if it did not."""
    apart = ("kind", "seconds", "bytes answered", "left out")
    rates = [
        sum(count for name, count in each.items() if name not in apart) / each["seconds"]
        for each in counted
        if each["kind"] in (SCAN, SHAM)
    ]
    if not rates or median(rates) >= SCANNED_LEAST * SCAN_RATE:
        return ""
    return f"; the scanner made {median(rates):.0f} connections a second instead of {SCAN_RATE}: do not judge a scan by this run"


def _callers(counted: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for kind in (TAILS, SCAN, SHAM):
        those = [each for each in counted if each["kind"] == kind]
        names = dict.fromkeys(name for each in those for name in each if name not in ("kind", "seconds"))
        rows += [
            [f"{kind}: {name}", middle_and_ends([each.get(name, 0) / each["seconds"] for each in those], 1)]
            for name in names
        ]
    return Table("Callers of the console, per second of their stay", ["caller", "per second"], rows)


@click.command()
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(min=1, max=1000))
@click.option("--seconds", default=0.5, show_default=True, type=click.FloatRange(0.05, 60), help="Of each measurement.")
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
